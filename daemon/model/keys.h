/* SPDX-License-Identifier: MIT */
#pragma once
/* Reading an architecture's keys, "ARCH.name", with the limits of their values. */
#include "daemon/model/gguf.h"

struct keys {
    const struct gguf *g;
    const char *arch;
};

enum need { OPTIONAL, REQUIRED };

/* The key's full name, in @out. */
const char *keys_name(const struct keys *k, char out[96], const char *name);

/* @out keeps its value when the optional key is absent; what is there lies in [min, max]. 0, or -EINVAL with a
 * sentence. */
int keys_u32(const struct keys *k, uint32_t *out, const char *name, enum need need, uint32_t min, uint32_t max);

/* The same for (0, max]. */
int keys_f32(const struct keys *k, float *out, const char *name, enum need need, float max);
