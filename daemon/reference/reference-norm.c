/* SPDX-License-Identifier: MIT */
/* The norms of the reference pass, in double. */
#include "daemon/reference/reference-pass.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The weights of a norm, of @n rows that are used in turn, and its bias, or NULL. */
struct norm {
    const float *w, *bias;
    size_t n;
};

/* The model's norm of rows of @dim. */
static void norm_rows(const struct hparams *s, float *out, const float *in, size_t rows, size_t dim, struct norm by)
{
    for (size_t i = 0; i < rows; i++, in += dim, out += dim) {
        const float *w = by.w ? by.w + i % by.n * dim : NULL;
        double sum = 0, ss = 0;
        for (size_t d = 0; s->desc->block.layer_norm && d < dim; d++) sum += (double)in[d];
        const double mean = sum / (double)dim;
        for (size_t d = 0; d < dim; d++) ss += (in[d] - mean) * (in[d] - mean);
        const double scale = 1 / sqrt(ss / (double)dim + s->rms_eps);
        for (size_t d = 0; d < dim; d++)
            out[d] = (float)((in[d] - mean) * scale * (w ? w[d] : 1) + (by.bias ? by.bias[d] : 0));
    }
}

void reference_norm_by(const struct hparams *s, float *out, const float *in, size_t rows, size_t dim, const float *w)
{
    norm_rows(s, out, in, rows, dim, (struct norm){w, NULL, 1});
}

/* The layer's norm @which of rows of @dim; without it the rows are copied. */
int reference_norm(struct pass *p, float *out, const float *in, size_t rows, size_t dim, const char *which)
{
    _cleanup_(freep) float *w = NULL, *bias = NULL;
    char name[64];
    snprintf(name, sizeof(name), "%s.weight", which);
    int e = reference_vector(p, &w, name, 0);
    snprintf(name, sizeof(name), "%s.bias", which);
    if (!e) e = reference_vector(p, &bias, name, 0);
    if (!e && !w) e = reference_vector(p, &w, which, 0); /* Falcon-H1's ffn_norm has no suffix */
    if (w)
        norm_rows(&p->r->s, out, in, rows, dim, (struct norm){w, bias, 1});
    else if (out != in)
        memcpy(out, in, rows * dim * sizeof(*out));
    return e;
}

int reference_shared_norm(struct pass *p, float *out, const float *in, size_t rows, size_t dim, const char *name)
{
    char weight[64], bias_name[64];
    snprintf(weight, sizeof(weight), "%s.weight", name);
    snprintf(bias_name, sizeof(bias_name), "%s.bias", name);
    const struct gguf_tensor *t = gguf_find_tensor(p->r->g, weight), *bias = gguf_find_tensor(p->r->g, bias_name);
    _cleanup_(freep) float *w = malloc(2 * dim * sizeof(*w));
    int e = !w ? error_origin(-ENOMEM) : t ? reference_rows(t, 0, 1, w) : 0;
    if (!e && bias) e = reference_rows(bias, 0, 1, w + dim);
    if (!e && t) norm_rows(&p->r->s, out, in, rows, dim, (struct norm){w, bias ? w + dim : NULL, 1});
    if (!e && !t && out != in) memcpy(out, in, rows * dim * sizeof(*out));
    return e;
}

/* The norm of @heads heads of q or k, which may have weights for each. */
static int norm_heads(struct pass *p, float *x, uint32_t heads, const char *which)
{
    const struct hparams *s = &p->r->s;
    if (s->desc->qk_norm == QK_NORM_WHOLE)
        return reference_norm(p, x, x, p->n, (size_t)heads * p->heads.head_dim, which);
    if (s->desc->qk_norm != QK_NORM_EACH)
        return reference_norm(p, x, x, (size_t)p->n * heads, p->heads.head_dim, which);
    _cleanup_(freep) float *w = malloc((size_t)heads * p->heads.head_dim * sizeof(*w));
    char name[64];
    snprintf(name, sizeof(name), "blk.%u.%s.weight", p->layer, which);
    const struct gguf_tensor *t = gguf_find_tensor(p->r->g, name);
    int e = !w ? error_origin(-ENOMEM) : t ? reference_rows(t, 0, heads, w) : 0;
    if (!e && t) norm_rows(s, x, x, (size_t)p->n * heads, p->heads.head_dim, (struct norm){w, NULL, heads});
    return e;
}

int reference_norm_heads(struct pass *p)
{
    int e = norm_heads(p, p->q, p->r->s.heads, "attn_q_norm");
    if (!hparams_own_kv(&p->r->s, p->layer)) return e;
    return e ? e : norm_heads(p, p->k, p->heads.kv_heads, "attn_k_norm");
}

int reference_output_norm(struct pass *p)
{
    const struct hparams *s = &p->r->s;
    const char *which = s->desc->output_norm ? s->desc->output_norm : "output_norm";
    char weight[64], bias_name[64];
    snprintf(weight, sizeof(weight), "%s.weight", which);
    if (s->mtp.first) snprintf(weight, sizeof(weight), "blk.%u.nextn.shared_head_norm.weight", s->mtp.first);
    snprintf(bias_name, sizeof(bias_name), "%s.bias", which);
    const struct gguf_tensor *t = gguf_find_tensor(p->r->g, weight), *bias = gguf_find_tensor(p->r->g, bias_name);
    _cleanup_(freep) float *w = malloc(2ul * s->dim * sizeof(*w));
    int e = !w  ? error_origin(-ENOMEM)
            : t ? reference_rows(t, 0, 1, w)
                : error_say(-EINVAL, "tensor '%s' is missing", weight);
    if (!e && bias) e = reference_rows(bias, 0, 1, w + s->dim);
    if (!e) norm_rows(s, p->h, p->x, p->n, s->dim, (struct norm){w, bias ? w + s->dim : NULL, 1});
    return e;
}
