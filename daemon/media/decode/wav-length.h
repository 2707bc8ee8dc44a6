/* SPDX-License-Identifier: MIT */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Check how long the header of the WAV file @data [@n], of at least 12 bytes, says that the sound is; libsndfile takes
 * as much as there is. A program that writes to a pipe leaves a length of about 2 or 4 GiB: it says nothing. 0;
 * -EFBIG: over the limit; -EBADMSG: truncated, or no data; sets the error message. */
int wav_length(const uint8_t *data, size_t n);

/* The error of a sound of @seconds, which is over the limit. Returns -EFBIG; sets the error message. */
int wav_too_long(uint64_t seconds);
