/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Decodes images and sounds in processes without rights. The sandbox of hobd forbids it to start programs, so that it
 * starts helpers (hobd-decode) before it enters the sandbox; these start one decoder for each file. A helper that has
 * ended is started again by the keeper (media-keeper.h), at most 8 times within a minute.
 */
#include "daemon/media/media.h"

#define MEDIA_HELPER_FILES 2 /* decoded at once */

struct media_helper;

/* Start @program; NULL: the hobd-decode beside this program, else of the installation. Returns 0, the caller owns *out;
 * -ENOENT: it is not installed; else -errno; sets the error message. */
int media_helper_new(struct media_helper **out, const char *program);

/* Decode the file @data [@n] and set *m, whose data the caller owns, with its digest. Waits; from any thread,
 * MEDIA_HELPER_FILES at a time. 0; -EBADMSG: damaged, unknown or a crash; -EFBIG: over a limit; -ETIME: takes too long;
 * -ENODATA: the helper ended, or the keeper has; -EAGAIN: helpers end too often; else -errno. Sets the error message, a
 * sentence that begins with the format ("image: PNG: …"). */
int media_helper_decode(struct media_helper *h, const uint8_t *data, size_t n, struct media *m);

/* End all calls of media_helper_decode, now and later, with an error. Any thread. */
void media_helper_stop(struct media_helper *h);

/* Ends the helpers. No other call is under way. NULL ok, returns NULL. */
struct media_helper *media_helper_free(struct media_helper *h);
