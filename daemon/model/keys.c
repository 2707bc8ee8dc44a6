/* SPDX-License-Identifier: MIT */
#include "daemon/model/keys.h"
#include "libcommon/error.h"
#include <stdio.h>

const char *keys_name(const struct keys *k, char out[96], const char *name)
{
    snprintf(out, 96, "%s.%s", k->arch, name);
    return out;
}

int keys_u32(const struct keys *k, uint32_t *out, const char *name, enum need need, uint32_t min, uint32_t max)
{
    char full[96];
    int r = gguf_get_u32(k->g, keys_name(k, full, name), out);
    if (r < 0) return r;
    if (r && need == REQUIRED) return error_say(-EINVAL, "%s: key '%s' is missing", gguf_path(k->g), full);
    if (!r && (*out < min || *out > max))
        return error_say(-EINVAL, "%s: key '%s' is %u, not a number from %u to %u", gguf_path(k->g), full, *out, min,
                         max);
    return 0;
}

int keys_f32(const struct keys *k, float *out, const char *name, enum need need, float max)
{
    char full[96];
    int r = gguf_get_f32(k->g, keys_name(k, full, name), out);
    if (r < 0) return r;
    if (r && need == REQUIRED) return error_say(-EINVAL, "%s: key '%s' is missing", gguf_path(k->g), full);
    if (!r && !(*out > 0 && *out <= max))
        return error_say(-EINVAL, "%s: key '%s' is %g, not above 0 and at most %g", gguf_path(k->g), full, *out, max);
    return 0;
}
