/* SPDX-License-Identifier: MIT */
/* Which models the device computes: all but a few sizes. */
#include "daemon/backend/cuda/cuda.h"
#include "libcommon/error.h"

#define SCAN_MOST (216u << 10) /* bytes of shared memory */
#define HEAD_MOST 256          /* values of a head, unless they are a multiple of 4: as cuda_merge has registers for */

static int refuse(const struct hparams *s, const char *what)
{
    return error_say(-EOPNOTSUPP, "a '%s' model cannot be computed on a GPU yet: %s", s->arch, what);
}

int cuda_supports(const struct gguf *g, const struct hparams *s)
{
    if (cuda_scan_bytes(s) > SCAN_MOST) return refuse(s, "heads of recurrent layers whose state has more than 216 KiB");
    if (s->mla.kv_rank % 4) return refuse(s, "latent attention whose rank is not a multiple of 4");
    if (!s->mla.kv_rank && hparams_widest(s) > HEAD_MOST && hparams_widest(s) % 4)
        return refuse(s, "heads of more than 256 values, not a multiple of 4");
    return 0;
}
