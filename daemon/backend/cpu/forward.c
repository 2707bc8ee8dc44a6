/* SPDX-License-Identifier: MIT */
/* The forward pass: embed, then per layer attention and feed-forward on a residual stream, norm, logits. The
 * differences between architectures are in their descriptions (arch.h), in the hparams, and in the vectors of a layer.
 *
 * A layer is seven runs of the compute pool, each of which ends with a barrier: norm; q, k, v; attention; o; norm;
 * gate, up and activation; down. Each run also quantizes the input of the next. Prompts need one more before attention,
 * which stores K and V (place_tokens). A run over few tokens is not divided: a single token has five barriers. */
#include "daemon/backend/cpu/cpu.h"
#include "daemon/backend/cpu/recurrent.h"
#include <math.h>
#include <string.h>

#define TOKENS_MOST 4    /* tokens of a per-token operation handed out at a time */
#define TOKEN_WORTH 2048 /* values that are worth another thread */

/* --- operations on each token --- */

static uint32_t least_tokens(const struct pass *p)
{
    const uint32_t least = (TOKEN_WORTH + p->c->base.hparams.dim - 1) / p->c->base.hparams.dim;
    return least < TOKENS_MOST ? least : TOKENS_MOST;
}

void cpu_each(struct pass *p, compute_fn fn, uint32_t n)
{
    cpu_run(p, TIMING_VECTOR, fn, p, n, least_tokens(p), TOKENS_MOST);
}

static void each_token(struct pass *p, compute_fn fn)
{
    cpu_each(p, fn, p->n);
}

/* Cosines, then sines, of a place's angles. position * freq is rounded once, to half a unit in the last place of a
 * double: for angles up to 2^31 that is 2^-23 radians, up to 2^15 (a usual context) 2^-39, while the f32 results round
 * by 2^-25. libm reduces the argument without a loss. */
static void turn(const struct cpu *c, uint32_t which, float *cs, struct item_place at)
{
    const struct hparams *y = &c->base.hparams;
    const float magnitude = which ? y->window_rope.magnitude : y->rope.magnitude;
    uint32_t half = hparams_rotated(y, which) / 2;
    for (uint32_t j = 0; j < half; j++) {
        double angle = at.of[hparams_axis(y, j)] * c->freqs[which][j];
        cs[j] = (float)(cos(angle) * magnitude);
        cs[half + j] = (float)(sin(angle) * magnitude);
    }
}

static struct item_place place_of(const struct token *t)
{
    return t->entry->places ? t->entry->places[t->pos - t->entry->pos] : (struct item_place){{t->pos, t->pos, t->pos}};
}

/* Add the rows of its type and position to the embedding of token @t, and norm it. */
static void finish_embedding(const struct pass *p, const struct token *t, float *x)
{
    const struct weights_encoder *e = &p->c->weights.encoder;
    const uint32_t dim = p->c->base.hparams.dim;
    const uint8_t *types = t->entry->types;
    if (e->types) p->c->kern->add(x, e->types + (types ? types[t->pos - t->entry->pos] : 0) * (size_t)dim, dim);
    if (p->c->weights.positions) p->c->kern->add(x, p->c->weights.positions + (size_t)t->pos * dim, dim);
    if (e->norm) cpu_norm(p, x, x, e->norm, e->norm_bias, dim);
}

/* Some tokens of a pass. */
struct some {
    const struct pass *p;
    uint32_t first;
};

static void embed_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct some *some = ctx;
    const struct pass *p = some->p;
    struct cpu *c = p->c;
    const struct hparams *y = &c->base.hparams;
    const struct scratch *s = &c->scratch;
    for (size_t i = some->first + begin; i < some->first + end; i++) {
        const struct token *t = &s->tokens[i];
        float *x = s->x + i * y->dim;
        uint32_t at = t->pos - t->entry->pos;
        if (t->entry->tokens) {
            weights_embed(&c->weights, (uint32_t)t->entry->tokens[at], x);
            if (t->entry->adapter)
                lora_embed(p, t->entry->adapter, t->entry->adapter_scale, (uint32_t)t->entry->tokens[at], x, thread);
            if (y->scale.embedding != 1) c->kern->scale(x, y->scale.embedding, y->dim);
        } else {
            memcpy(x, t->entry->embd + (size_t)at * y->dim, y->dim * sizeof(float));
        }
        finish_embedding(p, t, x);
        for (uint32_t r = 0; y->rotates && r < hparams_ropes(y); r++)
            turn(c, r, s->cs[r] + i * hparams_rotated(y, r), place_of(t));
        const uint32_t full = t->entry->sinks + t->entry->window - 1;
        if (token_slides(t)) turn(c, 0, s->sink_cs + i * y->rope_dim, (struct item_place){{full, full, full}});
    }
}

void cpu_embed(const struct pass *p, uint32_t first, uint32_t n)
{
    struct some some = {p, first};
    cpu_run(p, TIMING_VECTOR, embed_tokens, &some, n, least_tokens(p), TOKENS_MOST);
}

void cpu_norm(const struct pass *p, float *out, const float *x, const float *w, const float *bias, size_t n)
{
    const struct hparams *y = &p->c->base.hparams;
    if (y->desc->block.layer_norm) {
        p->c->kern->layernorm(out, x, w, bias, n, y->rms_eps);
        return;
    }
    p->c->kern->rmsnorm(out, x, w, n, y->rms_eps);
    if (bias) p->c->kern->add(out, bias, n);
}

/* Add attention's output of token @i, which the feed-forward has not read. */
static void join_beside(const struct pass *p, float *x, size_t i)
{
    const struct hparams *y = &p->c->base.hparams;
    const struct kernels *k = p->c->kern;
    float *out = p->c->scratch.beside + i * y->dim;
    if (p->beside_bias) k->add(out, p->beside_bias, y->dim);
    if (y->scale.residual != 1) k->scale(out, y->scale.residual, y->dim);
    k->add(x, out, y->dim);
}

/* Add the pending result of the block before, in h, to x. */
static void join(const struct pass *p, size_t i, float *x, float *h)
{
    const struct hparams *y = &p->c->base.hparams;
    const struct kernels *k = p->c->kern;
    if (p->bias) k->add(h, p->bias, y->dim);
    if (p->post) cpu_norm(p, h, h, p->post, NULL, y->dim);
    if (y->scale.residual != 1) k->scale(h, y->scale.residual, y->dim);
    k->add(x, h, y->dim);
    if (p->beside) join_beside(p, x, i);
    if (p->laurel) {
        k->add(x, p->c->scratch.altup.side + i * y->dim, y->dim);
        k->scale(x, (float)sqrt(0.5), y->dim);
    }
    if (p->out_scale) k->scale(x, *p->out_scale, y->dim);
}

void cpu_join(const struct pass *p, size_t i)
{
    const size_t dim = p->c->base.hparams.dim;
    join(p, i, p->c->scratch.x + i * dim, p->c->scratch.h.f + i * dim);
}

/* x = norm(x + h), the residual stream itself; with a second norm x = second(norm(x + h) + x). Then h = x. */
static void outer_norm(const struct pass *p, float *x, float *h)
{
    const struct kernels *k = p->c->kern;
    const size_t dim = p->c->base.hparams.dim;
    const struct layer_encoder *e = p->second ? &p->w->encoder : NULL;
    if (p->bias) k->add(h, p->bias, dim);
    k->add(h, x, dim);
    cpu_norm(p, e ? h : x, h, p->norm, p->norm_bias, dim);
    if (e) k->add(h, x, dim);
    if (e) cpu_norm(p, x, h, e->second_norm, e->second_norm_bias, dim);
    memcpy(h, x, dim * sizeof(*h));
}

/* Add the pending result to the residual stream, and norm it: one pass over both, one barrier. */
static void norm_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const struct hparams *y = &p->c->base.hparams;
    for (size_t i = begin; i < end; i++) {
        float *x = p->c->scratch.x + i * y->dim, *h = p->c->scratch.h.f + i * y->dim;
        if (p->pending && !y->desc->encoder.outer_norms) join(p, i, x, h);
        if (p->pending && y->desc->encoder.outer_norms)
            outer_norm(p, x, h);
        else if (p->norm)
            cpu_norm(p, h, x, p->norm, p->norm_bias, y->dim);
        else
            memcpy(h, x, y->dim * sizeof(*h));
        cpu_quantize_row(p, &p->c->scratch.h, i);
    }
}

void cpu_norm_each(struct pass *p)
{
    each_token(p, norm_tokens);
}

static void join_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    for (size_t i = begin; i < end; i++) cpu_join(ctx, i);
}

static void finish_logits(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const struct hparams *y = &p->c->base.hparams;
    for (size_t i = begin; i < end; i++) {
        float *row = p->logits + i * y->vocab;
        if (p->c->weights.output.bias) p->c->kern->add(row, p->c->weights.output.bias, y->vocab);
        if (y->scale.logits != 1) p->c->kern->scale(row, y->scale.logits, y->vocab);
        if (y->cap.logits > 0) p->c->kern->softcap(row, y->cap.logits, y->vocab);
    }
}

/* --- the pass --- */

/* Leave the block's result in h. The next pass over the tokens applies @bias and @post and adds it to x (join). */
static void leave(struct pass *p, const float *bias, const float *post)
{
    p->pending = true;
    p->laurel = false;
    p->out_scale = NULL;
    p->bias = bias;
    p->post = post;
}

/* Matrices that the feed-forward's input is multiplied with: up, and gate. */
static uint32_t gates(const struct pass *p)
{
    return p->c->base.hparams.desc->block.no_gate ? 1 : 2;
}

/* Compute q, k and v, and store k and v in the KV blocks, except for tokens that are alone; in a recurrent layer its
 * inputs, and scan them. */
static void input_block(struct pass *p, uint8_t parts)
{
    struct scratch *s = &p->c->scratch;
    struct product set[4 + RECURRENT_INPUTS] = {
        {&p->w->q, s->q}, {&p->w->k, s->k}, {&p->w->v, s->v}, {&p->w->q_gate, s->q_gate}};
    const bool mla = p->c->base.hparams.mla.kv_rank > 0, altup = p->c->base.hparams.altup.streams > 0;
    const uint32_t own = 2 + (p->w->v.rows > 0) + (p->w->q_gate.rows > 0);
    uint32_t n = !(parts & LAYER_ATTENTION) ? 0 : mla ? 2 : p->own_kv ? own : 1;
    if (parts & LAYER_ATTENTION && mla) cpu_mla_products(p, set);
    if (parts & LAYER_RECURRENT) n += recurrent_products(p, set + n);
    if (altup) set[n++] = (struct product){&p->w->altup.laurel_in, s->altup.low.f};
    const struct product in[] = {{&p->w->up, NULL}, {&p->w->gate, NULL}};
    p->norm = p->w->attn_norm;
    p->norm_bias = p->w->attn_norm_bias;
    p->quantize = cpu_quantized(set, n) || (p->c->base.hparams.parallel && cpu_quantized(in, gates(p)));
    each_token(p, norm_tokens);
    cpu_products(p, set, n, &s->h, p->n);
    if (p->c->base.hparams.desc->experts.early && p->w->router.rows) cpu_early_router(p);
    if (parts & LAYER_ATTENTION && p->own_kv && p->together) cpu_place_all(p);
    if (altup) cpu_laurel(p);
    if (parts & LAYER_RECURRENT) recurrent_of(&p->c->base.hparams)->scan(p);
}

struct sub_norm {
    const struct pass *p;
    const struct acts *x;
    const float *w;
};

static void sub_norm_rows(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct sub_norm *s = ctx;
    for (size_t i = begin; i < end; i++) {
        float *row = s->x->f + i * s->x->k;
        cpu_norm(s->p, row, row, s->w, NULL, s->x->k);
        cpu_quantize_row(s->p, s->x, i);
    }
}

/* Norm the input @x of the product @out. */
static void sub_norm(struct pass *p, const struct acts *x, const float *w, const struct product *out)
{
    struct sub_norm s = {p, x, w};
    p->quantize = cpu_quantized(out, 1);
    cpu_run(p, TIMING_VECTOR, sub_norm_rows, &s, p->n, 1, TOKENS_MOST);
}

/* h -> h */
static void feed_forward(struct pass *p)
{
    struct scratch *s = &p->c->scratch;
    const struct product out = {&p->w->down, s->h.f};
    const bool gate = gates(p) == 2;
    p->quantize = !p->w->ffn_sub_norm && cpu_quantized(&out, 1);
    if (hparams_sparse(&p->c->base.hparams, p->layer))
        cpu_sparse_gated(p, &p->w->gate, &p->w->up);
    else
        cpu_gated(p, gate ? &p->w->gate : &p->w->up, gate ? &p->w->up : NULL, &s->h, NULL, 0);
    if (p->w->ffn_sub_norm) sub_norm(p, &s->gated, p->w->ffn_sub_norm, &out);
    cpu_products(p, &out, 1, &s->gated, p->n);
    leave(p, p->w->down.bias, p->w->ffn_post_norm);
}

static void attention_block(struct pass *p)
{
    struct scratch *s = &p->c->scratch;
    const struct product out = {&p->w->o, p->c->base.hparams.parallel ? s->beside : s->h.f};
    const struct product reduce = {&p->w->mla.v_b, NULL};
    const bool mla = p->c->base.hparams.mla.kv_rank > 0;
    if (mla) cpu_mla_queries(p);
    p->quantize = !p->w->attn_sub_norm && cpu_quantized(mla ? &reduce : &out, 1);
    cpu_attention(p);
    if (mla) cpu_mla_values(p, cpu_quantized(&out, 1));
    if (p->w->attn_sub_norm) sub_norm(p, &s->att, p->w->attn_sub_norm, &out);
    cpu_products(p, &out, 1, &s->att, p->n);
    leave(p, p->w->o.bias, p->w->attn_post_norm);
    p->laurel = p->c->base.hparams.altup.streams > 0;
}

static void recurrent_block(struct pass *p)
{
    recurrent_output(p);
    leave(p, NULL, p->w->attn_post_norm);
}

/* Attention and feed-forward of the same residual. Its norm is in h, unless tokens were dropped (@dropped) or the
 * feed-forward has its own. */
static void parallel_block(struct pass *p, bool dropped)
{
    const struct product in[] = {{&p->w->up, NULL}, {&p->w->gate, NULL}};
    attention_block(p);
    p->pending = false;
    p->quantize = cpu_quantized(in, gates(p));
    if (p->w->ffn_norm) p->norm = p->w->ffn_norm, p->norm_bias = p->w->ffn_norm_bias;
    if (dropped || p->w->ffn_norm) each_token(p, norm_tokens);
    feed_forward(p);
    p->beside = true;
    p->beside_bias = p->w->o.bias;
}

static void experts_block(struct pass *p)
{
    if (p->c->base.hparams.desc->experts.beside) {
        cpu_experts_beside(p);
        leave(p, NULL, p->w->ffn_post_norm);
        return;
    }
    const struct product router[] = {{&p->w->router, NULL}, {&p->w->shared_router, NULL}};
    p->norm = p->w->ffn_norm;
    p->norm_bias = p->w->ffn_norm_bias;
    p->quantize = cpu_quantized(router, p->w->shared_router.rows ? 2 : 1);
    each_token(p, norm_tokens);
    cpu_experts(p);
    leave(p, NULL, p->w->ffn_post_norm);
}

static void feed_forward_block(struct pass *p)
{
    const struct product in[] = {{&p->w->up, NULL}, {&p->w->gate, NULL}};
    p->norm = p->w->ffn_norm;
    p->norm_bias = p->w->ffn_norm_bias;
    p->second = p->w->encoder.second_norm != NULL;
    p->quantize = cpu_quantized(in, gates(p));
    each_token(p, norm_tokens);
    p->second = false;
    feed_forward(p);
}

/* Add the layer's embedding of each token. */
static void embedding_block(struct pass *p)
{
    const struct product in = {&p->w->embedding.gate, NULL};
    p->norm = NULL;
    p->quantize = cpu_quantized(&in, 1);
    each_token(p, norm_tokens);
    cpu_layer_embedding(p);
    leave(p, NULL, p->w->embedding.norm);
}

/* Final norm and logits of the tokens with WANT_LOGITS, whose rows are first moved together in x. */
static void output_block(struct pass *p, float *logits, float *hidden)
{
    struct cpu *c = p->c;
    struct scratch *s = &c->scratch;
    const struct hparams *y = &c->base.hparams;
    uint32_t n = 0;
    for (uint32_t i = 0; hidden && i < p->n; i++) {
        if (!(token_wants(&s->tokens[i]) & WANT_HIDDEN)) continue;
        const float *x = s->x + (size_t)i * y->dim;
        if (y->mtp.first && y->desc->mtp == MTP_PLAIN)
            memcpy(hidden, x, y->dim * sizeof(*x));
        else
            cpu_norm(p, hidden, x, c->weights.output_norm, c->weights.output_norm_bias, y->dim);
        hidden += y->dim;
    }
    for (uint32_t i = 0; i < p->n; i++)
        if (token_wants(&s->tokens[i]) & WANT_LOGITS) {
            s->tokens[n] = s->tokens[i];
            memmove(s->x + y->dim * (size_t)n++, s->x + y->dim * (size_t)i, y->dim * sizeof(float));
        }
    if (!n) return;
    const struct product out = {&c->weights.output, logits};
    p->n = n;
    lora_sort(p);
    p->norm = c->weights.output_norm;
    p->norm_bias = c->weights.output_norm_bias;
    p->quantize = cpu_quantized(&out, 1);
    each_token(p, norm_tokens);
    cpu_products(p, &out, 1, &s->h, n);
    p->logits = logits;
    if (c->weights.output.bias || y->scale.logits != 1 || y->cap.logits > 0) each_token(p, finish_logits);
}

/* The KV of the layer's attention: of group @layers[…] as many layers with their own have been before. @last: of layers
 * that see everything, and of those with a window, the number of the last with its own in its group. */
static void choose_kv(struct pass *p, uint32_t layers[KV_GROUPS_MAX], uint32_t last[2])
{
    const struct hparams *y = &p->c->base.hparams;
    const bool slides = hparams_window(y, p->layer) > 0;
    p->heads = hparams_heads(y, p->layer);
    if (!y->mla.kv_rank) p->c->scratch.att.k = y->heads * p->heads.head_dim;
    p->group = hparams_group(y, p->layer);
    p->own_kv = hparams_own_kv(y, p->layer);
    if (p->own_kv) last[slides] = layers[p->group];
    p->group_layer = y->embedding.whole ? 0 : last[slides];
    layers[p->group] += p->own_kv && y->by_layer.parts[p->layer] & LAYER_ATTENTION;
}

/* What comes before the first layer, and after the last. */
static void begin_layers(struct pass *p)
{
    const struct hparams *y = &p->c->base.hparams;
    cpu_embed(p, 0, p->n);
    if (y->per_layer) cpu_embed_layers(p);
    if (y->altup.streams) cpu_altup_begin(p);
}

static void end_layers(struct pass *p)
{
    p->w = NULL;
    if (p->c->base.hparams.altup.streams)
        cpu_altup_end(p);
    else
        each_token(p, join_tokens);
    p->pending = false;
}

int cpu_forward(struct backend *b, const struct batch_entry *e, size_t n, float *logits, float *hidden)
{
    struct pass p = {.c = (struct cpu *)b};
    uint32_t layers[KV_GROUPS_MAX] = {0}, last[2] = {0};
    int r = cpu_lay_out(&p, e, n, logits, hidden);
    if (r || !p.n) return r;
    lora_sort(&p);
    begin_layers(&p);
    if (b->hparams.mtp.first) cpu_mtp_input(&p);
    for (p.layer = b->hparams.mtp.first; p.layer < b->hparams.n_layers; p.layer++) {
        const uint8_t parts = b->hparams.by_layer.parts[p.layer];
        p.w = &p.c->weights.layers[p.layer];
        choose_kv(&p, layers, last);
        if (b->hparams.altup.streams) cpu_altup_predict(&p);
        if (parts & (LAYER_ATTENTION | LAYER_RECURRENT)) input_block(&p, parts);
        const uint32_t all = p.n;
        if (p.layer + 1 == b->hparams.n_layers - b->hparams.by_layer.shared_kv) cpu_keep_wanted(&p);
        if (!p.n) return 0;
        if (b->hparams.parallel) {
            parallel_block(&p, p.n < all);
            continue;
        }
        if (parts & LAYER_ATTENTION) attention_block(&p);
        if (parts & LAYER_ATTENTION && parts & LAYER_RECURRENT) each_token(&p, join_tokens);
        if (parts & LAYER_RECURRENT) recurrent_block(&p);
        p.state_layer += (parts & LAYER_RECURRENT) != 0;
        if (parts & LAYER_FFN) hparams_mixes(&b->hparams, p.layer) ? experts_block(&p) : feed_forward_block(&p);
        if (b->hparams.altup.streams)
            cpu_altup_correct(&p);
        else if (b->hparams.per_layer)
            embedding_block(&p);
        p.out_scale = p.w->out_scale;
    }
    end_layers(&p);
    output_block(&p, logits, hidden);
    return 0;
}
