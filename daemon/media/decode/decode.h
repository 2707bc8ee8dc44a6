/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The formats. They read what anyone may send, with libraries that have had errors, and run only in a process without
 * rights (confine.h), or in tests.
 *
 * Each sets *m, which is {0}, without a digest, from the file @data [@n]. 0; -EBADMSG: the file is damaged or of an
 * unknown kind; -EFBIG: over a limit; -ENOMEM. Sets the error message. In case of an error the caller frees *m, too.
 */
#include "daemon/media/media.h"

/* By the first bytes of the file. The message begins with the format: "image: PNG: …". */
int decode(const uint8_t *data, size_t n, struct media *m);

int decode_png(const uint8_t *data, size_t n, struct media *m);
int decode_jpeg(const uint8_t *data, size_t n, struct media *m);
int decode_webp(const uint8_t *data, size_t n, struct media *m);
/* m->format is set. */
int decode_sound(const uint8_t *data, size_t n, struct media *m);
