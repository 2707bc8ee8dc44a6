/* SPDX-License-Identifier: MIT */
/* The forward pass of a llama: embed, then per layer attention and feed-forward on a residual stream, norm, logits. */
#include "daemon/model/cpu.h"
#include "libcommon/error.h"
#include <math.h>
#include <string.h>

#define TOKENS_GRAIN 4  /* tokens of a per-token operation handed out at a time */
#define TOKEN_TILE   64 /* tokens a few panels are multiplied with before the next tokens */
#define PANELS_GRAIN 8  /* those few panels */

/* --- products --- */

struct product {
    const struct matrix *m;
    float *out; /* [tokens][m->rows] */
};

/* Matrices with one input: their panels are numbered through, so that they are one piece of work. */
struct products {
    const struct kernels *kern;
    const struct product *set;
    uint32_t n;
    struct kern_acts in;
};

static void multiply_run(const struct products *p, const struct product *y, uint32_t begin, uint32_t end)
{
    size_t nb = p->in.k / KERN_BLOCK;
    uint32_t row = begin * KERN_ROWS, all = y->m->rows - row, most = (end - begin) * KERN_ROWS;
    uint32_t rows = all < most ? all : most;
    for (size_t t = 0; t < p->in.n; t += TOKEN_TILE) {
        struct kern_acts in = {.f = p->in.f + t * p->in.k,
                               .q = p->in.q + t * p->in.k,
                               .d = p->in.d + t * nb,
                               .s = p->in.s + t * nb * 2,
                               .n = p->in.n - t < TOKEN_TILE ? p->in.n - t : TOKEN_TILE,
                               .k = p->in.k};
        p->kern->matmul[y->m->type](y->out + t * y->m->rows + row, y->m->rows, y->m->panels + begin * y->m->panel_bytes,
                                    &in, rows);
    }
}

static void multiply(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct products *p = ctx;
    uint32_t first = 0; /* number of the product's first panel */
    for (uint32_t i = 0; i < p->n && begin < end; first += p->set[i].m->n_panels, i++) {
        uint32_t last = first + p->set[i].m->n_panels;
        while (begin < end && begin < last) {
            uint32_t to = begin + PANELS_GRAIN;
            if (to > end) to = end;
            if (to > last) to = last;
            multiply_run(p, &p->set[i], begin - first, to - first);
            begin = to;
        }
    }
}

/* out = W in for each of @set, @rows tokens of width m->k; in's quantized form is in the scratch where one needs it. */
static void products(struct pass *p, const struct product *set, uint32_t n, const float *in, size_t rows)
{
    struct cpu *c = p->c;
    struct scratch *s = &c->scratch;
    struct products job = {c->kern, set, n, {.f = in, .q = s->aq, .d = s->ad, .s = s->as, .n = rows, .k = set[0].m->k}};
    uint32_t panels = 0;
    for (uint32_t i = 0; i < n; i++) panels += set[i].m->n_panels;
    uint32_t grain = panels / (pool_threads(c->pool) * 4);
    cpu_run(p, p->w ? TIMING_PROJECTIONS : TIMING_LOGITS, multiply, &job, panels,
            grain < 1              ? 1
            : grain < PANELS_GRAIN ? grain
                                   : PANELS_GRAIN);
}

static bool quantized(const struct product *set, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (kern_type_quantized(set[i].m->type)) return true;
    return false;
}

void cpu_quantize_row(const struct pass *p, const float *x, size_t k, size_t row)
{
    struct scratch *s = &p->c->scratch;
    size_t nb = k / KERN_BLOCK;
    if (p->quantize) p->c->kern->quantize(s->aq + row * k, s->ad + row * nb, s->as + row * nb * 2, x, k);
}

void cpu_run(const struct pass *p, enum timing_part part, pool_fn fn, void *ctx, uint32_t n, uint32_t grain)
{
    struct timing *t = p->c->base.timing;
    pool_time(p->c->pool, t ? &t[part] : NULL);
    pool_run(p->c->pool, fn, ctx, n, grain);
}

/* --- operations on each token --- */

static void each_token(struct pass *p, pool_fn fn)
{
    cpu_run(p, TIMING_VECTOR, fn, p, p->n, TOKENS_GRAIN);
}

/* Cosines, then sines, of a position's angles. pos * freq is rounded once, to half a unit in the last place of a
 * double: for angles up to 2^31 that is 2^-23 radians, up to 2^15 (a usual context) 2^-39, while the f32 results round
 * by 2^-25. libm reduces the argument without a loss. */
static void turn(const struct cpu *c, float *cs, uint32_t pos)
{
    uint32_t half = c->base.shape.rope_dim / 2;
    for (uint32_t j = 0; j < half; j++) {
        double angle = pos * c->freqs[j];
        cs[j] = (float)cos(angle);
        cs[half + j] = (float)sin(angle);
    }
}

static void embed_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    struct cpu *c = p->c;
    uint32_t dim = c->base.shape.dim, rot = c->base.shape.rope_dim;
    for (uint32_t i = begin; i < end; i++) {
        const struct token *t = &c->scratch.tokens[i];
        float *x = c->scratch.x + (size_t)i * dim;
        uint32_t at = t->pos - t->entry->pos;
        if (t->entry->tokens)
            weights_embed(&c->weights, (uint32_t)t->entry->tokens[at], x);
        else
            memcpy(x, t->entry->embd + (size_t)at * dim, dim * sizeof(float));
        turn(c, c->scratch.cs + (size_t)i * rot, t->pos);
        if (token_slides(t)) turn(c, c->scratch.sink_cs + (size_t)i * rot, t->entry->sinks + t->entry->window - 1);
    }
}

/* What the block before has left in h joins the residual stream on the way: one pass over both, one barrier. */
static void norm_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const struct shape *y = &p->c->base.shape;
    for (size_t i = begin; i < end; i++) {
        float *x = p->c->scratch.x + i * y->dim, *h = p->c->scratch.h + i * y->dim;
        if (p->pending) p->c->kern->add(x, h, y->dim);
        p->c->kern->rmsnorm(h, x, p->norm, y->dim, y->rms_eps);
        cpu_quantize_row(p, h, y->dim, i);
    }
}

/* Rotate q and k, and put k and v where attention finds them. */
static void place_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    const struct cpu *c = p->c;
    const struct shape *y = &c->base.shape;
    size_t dim = y->head_dim;
    for (size_t i = begin; i < end; i++) {
        const struct token *t = &c->scratch.tokens[i];
        const float *cs = c->scratch.cs + i * y->rope_dim, *v = c->scratch.v + i * y->kv_heads * dim;
        float *q = c->scratch.q + i * y->heads * dim, *k = c->scratch.k + i * y->kv_heads * dim;
        if (token_slides(t)) {
            float *sink_q = c->scratch.sink_q + i * y->heads * dim;
            memcpy(sink_q, q, y->heads * dim * sizeof(*q));
            c->kern->rope(sink_q, y->heads, dim, y->rope_dim, c->scratch.sink_cs + i * y->rope_dim, false);
        }
        c->kern->rope(q, y->heads, dim, y->rope_dim, cs, false);
        c->kern->rope(k, y->kv_heads, dim, y->rope_dim, cs, false);
        for (uint32_t h = 0; h < y->kv_heads; h++) {
            uint8_t *block = kv_memory_k(&c->kv, p->layer, t->entry->blocks[0][t->pos / KV_BLOCK], h);
            c->kern->kv_store[c->base.config.kv_type](block, block + c->kv.half, t->pos % KV_BLOCK, k + h * dim,
                                                      v + h * dim, dim);
        }
    }
}

static void add_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    size_t dim = p->c->base.shape.dim;
    p->c->kern->add(p->c->scratch.x + begin * dim, p->c->scratch.h + begin * dim, (end - begin) * dim);
}

static void gate_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    size_t ffn = p->c->base.shape.ffn;
    for (size_t i = begin; i < end; i++) {
        float *gate = p->c->scratch.gate + i * ffn;
        p->c->kern->silu_mul(gate, p->c->scratch.up + i * ffn, ffn);
        cpu_quantize_row(p, gate, ffn, i);
    }
}

/* --- the pass --- */

static void attention_block(struct pass *p)
{
    struct scratch *s = &p->c->scratch;
    const struct product qkv[] = {{&p->w->q, s->q}, {&p->w->k, s->k}, {&p->w->v, s->v}}, out = {&p->w->o, s->h};
    p->norm = p->w->attn_norm;
    p->quantize = quantized(qkv, 3);
    each_token(p, norm_tokens);
    products(p, qkv, 3, s->h, p->n);
    each_token(p, place_tokens);
    p->quantize = quantized(&out, 1);
    cpu_attention(p);
    products(p, &out, 1, s->att, p->n);
    p->pending = true;
}

static void feed_forward_block(struct pass *p)
{
    struct scratch *s = &p->c->scratch;
    const struct product in[] = {{&p->w->gate, s->gate}, {&p->w->up, s->up}}, out = {&p->w->down, s->h};
    p->norm = p->w->ffn_norm;
    p->quantize = quantized(in, 2);
    each_token(p, norm_tokens);
    products(p, in, 2, s->h, p->n);
    p->quantize = quantized(&out, 1);
    each_token(p, gate_tokens);
    products(p, &out, 1, s->gate, p->n);
    p->pending = true;
}

static uint8_t wanted(const struct token *t)
{
    return t->entry->want ? t->entry->want[t->pos - t->entry->pos] : WANT_NOTHING;
}

/* Final norm and vocabulary, for the tokens that want them; their rows are moved together in x first. */
static void output_block(struct pass *p, float *logits, float *hidden)
{
    struct cpu *c = p->c;
    struct scratch *s = &c->scratch;
    const struct shape *y = &c->base.shape;
    uint32_t n = 0;
    for (uint32_t i = 0; hidden && i < p->n; i++) {
        if (!(wanted(&s->tokens[i]) & WANT_HIDDEN)) continue;
        c->kern->rmsnorm(hidden, s->x + (size_t)i * y->dim, c->weights.output_norm, y->dim, y->rms_eps);
        hidden += y->dim;
    }
    for (uint32_t i = 0; i < p->n; i++)
        if (wanted(&s->tokens[i]) & WANT_LOGITS)
            memmove(s->x + y->dim * (size_t)n++, s->x + y->dim * (size_t)i, y->dim * sizeof(float));
    if (!n) return;
    const struct product out = {&c->weights.output, logits};
    p->n = n;
    p->norm = c->weights.output_norm;
    p->quantize = quantized(&out, 1);
    each_token(p, norm_tokens);
    products(p, &out, 1, s->h, n);
}

/* Where the entry stands, and what it sees. */
static int check_positions(const struct backend *b, const struct batch_entry *e)
{
    uint64_t last = (uint64_t)e->pos + e->n - 1;
    if (e->window && (uint64_t)e->sinks + e->window > b->config.ctx)
        return error_say(-EINVAL, "%u sinks and a window of %u are more than the context of %u", e->sinks, e->window,
                         b->config.ctx);
    if (e->sinks && !e->window) return error_say(-EINVAL, "%u sinks without a window", e->sinks);
    if (last > INT32_MAX || (!e->window && last >= b->config.ctx))
        return error_say(-EINVAL, "position %llu is outside the context of %u", (unsigned long long)last,
                         e->window ? INT32_MAX : b->config.ctx);
    return 0;
}

/* Every block that a token of the entry sees or writes must be there. */
static int check_blocks(const struct backend *b, const struct batch_entry *e)
{
    const struct token first = {.entry = e, .pos = e->pos};
    uint32_t sinks = 0, window = 0; /* what is seen: [0, sinks) and from window on */
    if (token_slides(&first)) sinks = e->sinks, window = e->pos + 1 - e->window;
    for (uint32_t j = 0; j <= (e->pos + e->n - 1) / KV_BLOCK; j++) {
        uint32_t id = e->blocks[0][j], at = j * KV_BLOCK;
        if (id < b->kv_blocks) continue;
        bool seen = at < sinks || at + KV_BLOCK > window;
        if (id != KV_NO_BLOCK) return error_say(-EINVAL, "KV block %u of %u", id, b->kv_blocks);
        if (seen) return error_say(-EINVAL, "no KV block for position %u, which is attended to", at);
    }
    return 0;
}

/* Flatten the entries into scratch.tokens; what the engine must not ask for is refused. */
static int lay_out(struct pass *p, const struct batch_entry *e, size_t n, const float *logits, const float *hidden)
{
    const struct backend *b = &p->c->base;
    for (size_t i = 0; i < n; i++) {
        if (!e[i].n || e[i].n > b->config.batch_tokens - p->n)
            return error_say(-EINVAL, "a batch of more than %u tokens, or an empty entry in it",
                             b->config.batch_tokens);
        if (e[i].adapter) return error_say(-EOPNOTSUPP, "adapter %u: adapters are not supported", e[i].adapter);
        int r = check_positions(b, &e[i]);
        if (!r) r = check_blocks(b, &e[i]);
        if (r) return r;
        for (uint32_t j = 0; j < e[i].n; j++) {
            struct token *t = &p->c->scratch.tokens[p->n++];
            *t = (struct token){.entry = &e[i], .pos = e[i].pos + j};
            if (e[i].tokens && (e[i].tokens[j] < 0 || (uint32_t)e[i].tokens[j] >= b->shape.vocab))
                return error_say(-EINVAL, "token %d is outside the vocabulary of %u", e[i].tokens[j], b->shape.vocab);
            if ((wanted(t) & WANT_LOGITS && !logits) || (wanted(t) & WANT_HIDDEN && !hidden) ||
                (!e[i].tokens && !e[i].embd))
                return error_say(-EINVAL, "a batch without its tokens, or without room for what it wants");
        }
    }
    return 0;
}

int cpu_forward(struct backend *b, const struct batch_entry *e, size_t n, float *logits, float *hidden)
{
    struct pass p = {.c = (struct cpu *)b};
    int r = lay_out(&p, e, n, logits, hidden);
    if (r || !p.n) return r;
    each_token(&p, embed_tokens);
    for (p.layer = 0; p.layer < b->shape.n_layers; p.layer++) {
        p.w = &p.c->weights.layers[p.layer];
        attention_block(&p);
        feed_forward_block(&p);
    }
    p.w = NULL;
    if (p.pending) each_token(&p, add_tokens);
    p.pending = false;
    output_block(&p, logits, hidden);
    return 0;
}
