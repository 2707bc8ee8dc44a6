/* SPDX-License-Identifier: MIT */
#pragma once
#include "daemon/media/media.h"

/* Write @m to the new file @path, which must end in .ppm (an image, PPM) or .wav (a sound, WAV with float samples). 0
 * or -errno; -EINVAL: the name does not fit; sets the error message. */
int media_save(const struct media *m, const char *path);

/* Whether @path has one of these endings. */
int media_save_check(const char *path);
