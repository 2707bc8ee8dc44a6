/* SPDX-License-Identifier: MIT */
/* The tensors of a layer that predicts later tokens, but for those of its block. Files of all architectures have the
 * same names; in bailingmoe2 the norm has another one. */
#include "daemon/backend/cpu/weights-plan.h"
#include <stdio.h>

#define EMBEDDING "nextn.embed_tokens.weight"

/* What the layer does not have is the model's: @w's output_norm and output stay empty, weights_load fills them in. */
int weights_want_mtp(struct weights_plan *p)
{
    static const char *const norms[] = {"nextn.shared_head_norm.weight", "layer_output_norm.weight"};
    const struct hparams *s = p->s;
    struct weights *w = p->w;
    const uint32_t l = s->mtp.first;
    char embd[64] = "token_embd.weight";
    if (weights_has(p, l, EMBEDDING)) snprintf(embd, sizeof(embd), "blk.%u." EMBEDDING, l);
    int r = weights_want_table(p, embd, s->dim, &w->embd, &w->embd_type);
    if (!r) r = weights_want_rows(p, &w->mtp.enorm, l, "nextn.enorm.weight", s->dim, 1);
    if (!r) r = weights_want_rows(p, &w->mtp.hnorm, l, "nextn.hnorm.weight", s->dim, 1);
    if (!r) r = weights_want_matrix(p, &w->mtp.eh_proj, l, "nextn.eh_proj", 2 * s->dim, s->dim);
    for (size_t i = 0; !r && i < sizeof(norms) / sizeof(*norms); i++) {
        if (!weights_has(p, l, norms[i])) continue;
        r = weights_want_rows(p, &w->output_norm, l, norms[i], s->dim, 1);
        break;
    }
    if (!r && weights_has(p, l, "nextn.shared_head_head.weight"))
        r = weights_want_matrix(p, &w->output, l, "nextn.shared_head_head", s->dim, s->vocab);
    return r;
}
