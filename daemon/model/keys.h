/* SPDX-License-Identifier: MIT */
#pragma once
/* Reading an architecture's keys, "ARCH.name", with the limits of their values. */
#include "daemon/model/gguf.h"

struct keys {
    const struct gguf *g;
    const char *arch;
};

enum need { OPTIONAL, REQUIRED };

/* Write the key's full name to @out and return it. */
const char *keys_name(const struct keys *k, char out[96], const char *name);

/* Read a key into *out; if an optional key is absent, *out keeps its value. Returns 0; -EINVAL and the error message if
 * a required key is absent or the value is not in [min, max]. */
int keys_u32(const struct keys *k, uint32_t *out, const char *name, enum need need, uint32_t min, uint32_t max);

/* The same for (0, max]. */
int keys_f32(const struct keys *k, float *out, const char *name, enum need need, float max);
