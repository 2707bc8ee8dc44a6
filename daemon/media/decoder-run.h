/* SPDX-License-Identifier: MIT */
#pragma once
#include "daemon/media/media-wire.h"

#define DECODER_MS 60000 /* time for one file */

/*
 * Start the program argv[0] as a decoder, with an empty environment and no descriptors but its pipes; send it the file
 * @data [@n]; kill it if it has not ended after @ms, or when the other end of the socket @asker is closed (-1: no
 * socket). 0: *out is its answer, which may be an error, and whose data the
 * caller owns; else -errno, such as -EBADMSG: it crashed, -ETIME: it was killed; sets the error message, which then
 * begins with the format of the file. SIGPIPE must be ignored.
 */
int decoder_run(char *const argv[], const uint8_t *data, size_t n, int64_t ms, int asker, struct media_reply *out);
