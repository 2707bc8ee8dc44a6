/* SPDX-License-Identifier: MIT */
/* The tensors of a file that no weights are made of. */
#include "daemon/backend/cpu/weights-plan.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <string.h>

static bool planned(const struct weights_plan *p, const struct gguf_tensor *t)
{
    if (t->data && (t->data == p->w->embd || t->data == p->w->per_layer.embd)) return true;
    for (size_t i = 0; i < p->n; i++)
        if (p->items[i].t == t) return true;
    return false;
}

/* K or V of a layer that uses those of another: files of Gemma have them. */
static bool has_no_use(const struct hparams *s, const char *name)
{
    static const char *const unused[] = {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"};
    char part[24];
    unsigned l;
    if (sscanf(name, "blk.%u.%23s", &l, part) != 2 || l >= s->n_layers || hparams_own_kv(s, l)) return false;
    for (size_t i = 0; i < sizeof(unused) / sizeof(*unused); i++)
        if (!strcmp(part, unused[i])) return true;
    return false;
}

/* Of a layer that is not computed: of those that predict later tokens; or, of such a layer's own weights, the rest. */
static bool left_out(const struct weights_plan *p, const struct gguf_tensor *t)
{
    const struct hparams *s = p->s;
    char name[72];
    unsigned l;
    gguf_text(name, sizeof(name), t->name);
    const bool layer = sscanf(name, "blk.%u.", &l) == 1;
    if (s->mtp.first) return !layer || l != s->mtp.first;
    if (has_no_use(s, name)) return true;
    return s->mtp.nextn && layer && l >= s->n_layers && l - s->n_layers < s->mtp.nextn;
}

int weights_refuse_others(const struct weights_plan *p)
{
    char name[72];
    if (gguf_n_tensors(p->g) == p->tensors) return 0;
    for (size_t i = 0; i < gguf_n_tensors(p->g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(p->g, i);
        if (planned(p, t) || left_out(p, t)) continue;
        gguf_text(name, sizeof(name), t->name);
        return error_say(-EOPNOTSUPP, "%s: tensor '%s' is not supported in a '%s' model", gguf_path(p->g), name,
                         p->s->arch);
    }
    return 0;
}
