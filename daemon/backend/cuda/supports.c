/* SPDX-License-Identifier: MIT */
/* Which models the device computes: those whose layers are attention and a feed-forward. */
#include "daemon/backend/cuda/cuda.h"
#include "libcommon/error.h"

#define HEAD_MOST 256 /* values of a head, unless they are a multiple of 4: as cuda_merge has registers for */

static int refuse(const struct hparams *s, const char *what)
{
    return error_say(-EOPNOTSUPP, "a '%s' model cannot be computed on a GPU yet: %s", s->arch, what);
}

/* Parts of a layer that only the CPU computes; NULL: none. */
static const char *missing_part(const struct hparams *s)
{
    if (s->mtp.first) return "a layer that predicts later tokens (MTP)";
    if (s->mla.kv_rank) return "latent attention";
    return NULL;
}

int cuda_supports(const struct gguf *g, const struct hparams *s)
{
    const char *missing = missing_part(s);
    if (missing) return refuse(s, missing);
    for (uint32_t l = 0; l < s->n_layers; l++)
        if (s->by_layer.parts[l] != (LAYER_ATTENTION | LAYER_FFN)) return refuse(s, "layers without attention");
    if (hparams_widest(s) > HEAD_MOST && hparams_widest(s) % 4)
        return refuse(s, "heads of more than 256 values, not a multiple of 4");
    return 0;
}
