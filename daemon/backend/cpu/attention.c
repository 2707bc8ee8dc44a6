/* SPDX-License-Identifier: MIT */
/*
 * Attention of a batch. Segments of 512 positions are independent of each other, so that threads share one long
 * sequence as well as many short ones; the thread that computes the last of a query's segments merges them, in
 * ascending order. How tokens are cut into tiles and waves changes no result: every query is computed by itself.
 * backend.h defines the positions that a query with a window sees.
 */
#include "daemon/backend/cpu/cpu.h"
#include <stdatomic.h>
#include <string.h>

#define SHARED_LEAST 4  /* blocks that make it worth to compute several sequences together */
#define SOON_MOST    64 /* blocks that are prefetched during those that are shared, */
#define SOON_FEW     2  /* and during others */

struct wave {
    struct pass *p;
    uint32_t first, n; /* tokens of the batch in this wave */
    uint32_t n_tiles, n_items, rows;
};

static uint32_t min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The start of the window of its sequence or of the layer: cpu_lay_out refuses a batch with both. */
uint32_t cpu_window_start(const struct pass *p, const struct token *t)
{
    if (token_slides(t)) return t->pos + 1 - t->entry->window;
    return hparams_first(&p->c->base.hparams, p->layer, t->pos);
}

/* The parts of a tile of @n tokens from @t on. */
static struct attn_tile cut(const struct pass *p, const struct token *t, uint32_t n)
{
    struct attn_tile tile = {.n = n, .segment = cpu_window_start(p, t) / KV_SEGMENT};
    if (token_slides(t)) tile.sinks = (t->entry->sinks + KV_SEGMENT - 1) / KV_SEGMENT;
    tile.parts =
        tile.sinks + (token_end(p, &t[n - 1]) - 1) / KV_SEGMENT - tile.segment + 1 + (p->w->sink_scores != NULL);
    return tile;
}

/* Number of consecutive tokens from @t on, at most @most, of one entry and with the same token_slides. */
static uint32_t run_of(const struct token *t, uint32_t most)
{
    uint32_t n = 1;
    while (n < most && t[n].entry == t->entry && t[n].pos == t->pos + n && token_slides(&t[n]) == token_slides(t)) n++;
    return n;
}

/* Number of the first blocks, at most @most, that the sequences of @a and @b have in common in the pass's layer. */
static uint32_t common(const struct pass *p, const struct token *a, const struct token *b, uint32_t most)
{
    const uint32_t *x = a->entry->blocks[p->group], *y = b->entry->blocks[p->group];
    uint32_t n = 0;
    most = min(most, (min(a->pos, b->pos) + 1) / KV_BLOCK);
    while (n < most && x[n] == y[n]) n++;
    return n;
}

/* The token sees its sequence from position 0 up to itself. */
static bool sees_all_before(const struct pass *p, const struct token *t)
{
    return !t->entry->whole && !token_slides(t) && !cpu_window_start(p, t);
}

/* Add to a tile of run_of() tokens the tokens of the entries behind it while it has fewer than @most: those whose
 * sequences begin with at least SHARED_LEAST of the same blocks, and with at least half of those that the tile shared
 * without them. Rows of parts that a short sequence does not have are at most half of all. */
static void share(const struct pass *p, struct attn_tile *tile, const struct token *t, uint32_t most)
{
    uint32_t shared = UINT32_MAX, parts = tile->n * tile->parts, n;
    if (!sees_all_before(p, t)) return;
    for (most = min(most, p->n - (uint32_t)(t - p->c->scratch.tokens)); tile->n < most; tile->n += n) {
        const struct token *more = &t[tile->n];
        if (more->entry == t[tile->n - 1].entry || !sees_all_before(p, more)) break;
        n = run_of(more, most - tile->n);
        const uint32_t both = common(p, t, more, shared), one = cut(p, more, n).parts;
        const uint32_t widest = one > tile->parts ? one : tile->parts;
        if (both < SHARED_LEAST || (shared != UINT32_MAX && both < shared / 2)) break;
        if ((parts += n * one) * 2 < (tile->n + n) * widest) break;
        tile->parts = widest;
        shared = both;
    }
    if (shared != UINT32_MAX) tile->shared = shared * KV_BLOCK;
}

/* Put the tokens from w->first on into the wave, until it or the batch is full. */
static void plan(struct wave *w)
{
    const struct hparams *y = &w->p->c->base.hparams;
    const uint32_t kv_heads = w->p->heads.kv_heads, most = cpu_tile_tokens(y->heads / kv_heads);
    struct scratch *s = &w->p->c->scratch;
    const uint32_t threads = compute_pool_threads(w->p->c->pool);
    const uint32_t even = threads > 1 ? threads * 4 : 1; /* items that share the work well */
    uint32_t at = w->first;
    w->n_tiles = w->n_items = w->rows = 0;
    while (at < w->p->n) {
        const struct token *t = &s->tokens[at];
        struct attn_tile tile = cut(w->p, t, run_of(t, min(most, w->p->n - at)));
        share(w->p, &tile, t, min(most, w->p->n * kv_heads * tile.parts / even));
        uint32_t n = min(tile.n, (s->attn.rows - w->rows) / (y->heads * tile.parts));
        if (n < tile.n) tile = cut(w->p, t, run_of(t, n));
        if (!n) break;
        n = tile.n;
        tile.token = at;
        tile.row = w->rows;
        s->attn.tiles[w->n_tiles] = tile;
        for (uint32_t h = 0; h < kv_heads; h++) {
            atomic_init(&s->attn.left[w->n_tiles * kv_heads + h], tile.parts);
            for (uint32_t g = 0; g < tile.parts; g++)
                s->attn.items[w->n_items++] = (struct attn_item){w->n_tiles, h, g};
        }
        w->n_tiles++;
        w->rows += n * y->heads * tile.parts;
        at += n;
    }
    w->n = at - w->first;
}

/* Query heads that share a KV head. */
static uint32_t sharing(const struct pass *p)
{
    return p->c->base.hparams.heads / p->heads.kv_heads;
}

/* Values that a query gets. */
static size_t width(const struct pass *p)
{
    const uint32_t rank = p->c->base.hparams.mla.kv_rank;
    return rank ? rank : p->heads.head_dim;
}

/* First row of the partial results of one item. */
static size_t item_row(const struct pass *p, const struct attn_tile *tile, uint32_t head, uint32_t part)
{
    return tile->row + (size_t)(head * tile->parts + part) * tile->n * sharing(p);
}

/* Positions [from, to) of one segment, of which a run of tokens sees something in each block. */
struct span {
    uint32_t from, to;
    bool sinks;
};

/* The span of the @n tokens of one entry from @first on, empty if they see nothing of the part. It omits blocks before
 * the first visible one: they may be released, and change no result. */
static struct span span_of(const struct pass *pass, const struct attn_tile *tile, const struct token *first, uint32_t n,
                           uint32_t part)
{
    struct span p = {.sinks = part < tile->sinks};
    uint32_t segment = p.sinks ? part : tile->segment + part - tile->sinks;
    uint32_t seen = p.sinks ? 0 : cpu_window_start(pass, first) / KV_BLOCK * KV_BLOCK;
    p.from = segment * KV_SEGMENT > seen ? segment * KV_SEGMENT : seen;
    p.to = min(p.sinks ? first->entry->sinks : token_end(pass, &first[n - 1]), (segment + 1) * KV_SEGMENT);
    if (p.to < p.from) p.to = p.from;
    return p;
}

/* The part of the sink scores: one key for each head, whose value is zero. */
static void score_sinks(const struct pass *p, const struct attn_tile *tile, const struct attn_item *item)
{
    const struct scratch *s = &p->c->scratch;
    uint32_t group = sharing(p), rows = tile->n * group;
    size_t row = item_row(p, tile, item->head, item->part);
    for (uint32_t r = 0; r < rows; r++) {
        s->attn.m[row + r] = p->w->sink_scores[item->head * group + r % group];
        s->attn.l[row + r] = 1;
    }
    memset(s->attn.o + row * p->heads.head_dim, 0, (size_t)rows * p->heads.head_dim * sizeof(*s->attn.o));
}

/* Some tokens of a tile, and the blocks that they attend to. */
struct attended {
    uint32_t first, n; /* tokens, relative to the tile's first */
    struct span span;
    bool more;               /* the rows have results of the segment's blocks before the span */
    const void *const *soon; /* [n_soon] blocks that the next tokens of the tile attend to */
    size_t n_soon;
};

/* K of one head in the block of position @at of a token's sequence. */
static const uint8_t *block_of(const struct pass *p, const struct token *t, const struct attn_item *item, uint32_t at)
{
    return kv_memory_k(&p->c->kv[p->group], p->group_layer, token_block(p, t, at), item->head);
}

/* Attend to blocks that all tokens of @x have in the same places; the queries are in scratch.attn.query. */
static void attend_to(const struct pass *p, const struct attn_tile *tile, const struct attn_item *item, uint32_t thread,
                      struct attended x)
{
    const struct cpu *c = p->c;
    const struct attn_scratch *s = &c->scratch.attn;
    const struct hparams *y = &c->base.hparams;
    const struct token *t = &c->scratch.tokens[tile->token + x.first];
    const struct kv_memory *kv = &c->kv[p->group];
    const uint32_t group = sharing(p), rows = x.n * group;
    const uint32_t n_blocks = (x.span.to - x.span.from + KV_BLOCK - 1) / KV_BLOCK;
    const void *k[KV_SEGMENT / KV_BLOCK], *v[KV_SEGMENT / KV_BLOCK];
    const size_t half = kv_memory_shape(kv, p->group_layer)->half;
    for (uint32_t i = 0; i < n_blocks; i++) {
        k[i] = block_of(p, t, item, x.span.from + i * KV_BLOCK);
        v[i] = (const uint8_t *)k[i] + half;
    }
    const size_t own = (size_t)thread * s->tile_rows + (size_t)x.first * group;
    uint32_t *begin = s->begin + own, *end = s->end + own;
    for (uint32_t r = 0; r < rows; r++) {
        const struct token *token = t + r / group;
        uint32_t first = x.span.sinks ? 0 : cpu_window_start(p, token), last = min(token_end(p, token), x.span.to);
        begin[r] = first > x.span.from ? first - x.span.from : 0;
        end[r] = last > x.span.from ? last - x.span.from : 0;
        if (c->slopes) s->slope[own + r] = c->slopes[item->head * group + r % group];
        s->at[own + r] = (int32_t)(token->pos - x.span.from);
    }
    const size_t row = item_row(p, tile, item->head, item->part) + (size_t)x.first * group;
    struct kern_attn a = {.q = s->query + own,
                          .begin = begin,
                          .end = end,
                          .n_q = rows,
                          .dim = p->heads.head_dim,
                          .k = k,
                          .v = y->mla.kv_rank ? NULL : v,
                          .v_dim = y->mla.kv_rank,
                          .n_blocks = n_blocks,
                          .soon = x.soon,
                          .n_soon = x.n_soon,
                          .scale = y->scale.attention,
                          .cap = y->cap.attention,
                          .slope = c->slopes ? s->slope + own : NULL,
                          .at = c->slopes ? s->at + own : NULL,
                          .more = x.more,
                          .m = s->m + row,
                          .l = s->l + row,
                          .o = s->o + row * width(p)};
    c->kern->attn[kv->type](&a);
}

/* Blocks that are attended to soon, the first one first. */
struct soon {
    const void *block[SOON_MOST];
    size_t n;
};

/* First position behind the blocks of the item that all sequences of its tile share; 0: none is shared. */
static uint32_t shared_end(const struct pass *p, const struct attn_item *item)
{
    const struct attn_tile *tile = &p->c->scratch.attn.tiles[item->tile];
    const struct span x = span_of(p, tile, &p->c->scratch.tokens[tile->token], 1, item->part);
    const uint32_t end = min(tile->shared, (x.from / KV_SEGMENT + 1) * KV_SEGMENT);
    return end > x.from ? end : 0;
}

/* Add to @s, until it has @most, the blocks that the item's tokens from the tile's @first one on attend to, without
 * those that all share. */
static void add_soon(const struct pass *p, const struct attn_item *item, uint32_t first, size_t most, struct soon *s)
{
    const struct attn_tile *tile = &p->c->scratch.attn.tiles[item->tile];
    const struct token *t = &p->c->scratch.tokens[tile->token];
    const uint32_t shared = shared_end(p, item);
    if (p->w->sink_scores && item->part + 1 == tile->parts) return;
    for (uint32_t n; first < tile->n; first += n) {
        n = run_of(&t[first], tile->n - first);
        const struct span x = span_of(p, tile, &t[first], n, item->part);
        for (uint32_t at = shared ? shared : x.from; at < x.to; at += KV_BLOCK) {
            if (s->n == most) return;
            s->block[s->n++] = block_of(p, &t[first], item, at);
        }
    }
}

/* The blocks that are attended to behind the tile's tokens before @first, at most @most. @next: the next item; NULL:
 * there is none. */
static struct soon find_soon(const struct pass *p, const struct attn_item *item, const struct attn_item *next,
                             uint32_t first, size_t most)
{
    struct soon s;
    s.n = 0;
    add_soon(p, item, first, most, &s);
    if (next && s.n < most) add_soon(p, next, 0, most, &s);
    return s;
}

/* Compute the part of an item: blocks that all sequences of the tile share together, then the others of each. */
static void attend(const struct pass *p, const struct attn_item *item, const struct attn_item *next, uint32_t thread)
{
    const struct scratch *s = &p->c->scratch;
    const struct attn_tile *tile = &s->attn.tiles[item->tile];
    const struct token *t = &s->tokens[tile->token];
    const uint32_t group = sharing(p), dim = p->heads.head_dim, shared = shared_end(p, item);
    const size_t own = (size_t)thread * s->attn.tile_rows;
    float *turned = s->attn.turned + own * s->attn.widest;
    for (uint32_t i = 0; i < tile->n; i++)
        cpu_query_heads(p, tile->token + i, item->head * group, group, item->part < tile->sinks,
                        turned + (size_t)i * group * dim);
    for (uint32_t r = 0; r < tile->n * group; r++) s->attn.query[own + r] = turned + (size_t)r * dim;
    struct attended x = {.n = tile->n, .span = span_of(p, tile, t, 1, item->part)};
    if (shared) {
        const struct soon soon = find_soon(p, item, next, 0, SOON_MOST);
        x.span.to = shared;
        x.soon = soon.block, x.n_soon = soon.n;
        attend_to(p, tile, item, thread, x);
    }
    for (; x.first < tile->n; x.first += x.n) {
        x.n = run_of(&t[x.first], tile->n - x.first);
        x.span = span_of(p, tile, &t[x.first], x.n, item->part);
        x.more = shared;
        if (shared) x.span.from = shared;
        const struct soon soon = find_soon(p, item, next, x.first + x.n, SOON_FEW);
        x.soon = soon.block, x.n_soon = soon.n;
        if (!shared || x.span.to > shared) attend_to(p, tile, item, thread, x);
    }
}

/* The columns of one KV head are whole quantization blocks. */
static bool whole_blocks(const struct pass *p)
{
    return sharing(p) * p->heads.head_dim % KERN_BLOCK == 0;
}

/* Merge the parts of a tile of latent attention: s->attn -> s->mla.latent. */
static void merge_latent(const struct pass *p, const struct attn_tile *tile)
{
    const struct scratch *s = &p->c->scratch;
    const struct hparams *y = &p->c->base.hparams;
    const size_t rows = (size_t)tile->n * y->heads, dim = y->mla.kv_rank;
    size_t row = item_row(p, tile, 0, 0);
    for (size_t i = tile->token; i < tile->token + tile->n; i++)
        for (uint32_t h = 0; h < y->heads; h++, row++) {
            const size_t to = (size_t)h * p->n + i;
            float *out = s->mla.latent.f + to * dim;
            p->c->kern->attn_merge(out, s->attn.m + row, s->attn.l + row, rows, s->attn.o + row * dim, rows * dim,
                                   tile->parts, dim);
            cpu_quantize(p, &s->mla.latent, &s->mla.groups[h], to, 0, out, dim);
        }
}

/* Merge the parts of a tile and KV head: s->attn -> s->att. */
static void merge(const struct pass *p, const struct attn_tile *tile, uint32_t head)
{
    const struct scratch *s = &p->c->scratch;
    const struct hparams *y = &p->c->base.hparams;
    const uint32_t group = sharing(p);
    const size_t rows = (size_t)tile->n * group, dim = p->heads.head_dim, columns = group * dim;
    if (y->mla.kv_rank) {
        merge_latent(p, tile);
        return;
    }
    size_t row = item_row(p, tile, head, 0);
    for (size_t i = tile->token; i < tile->token + tile->n; i++) {
        float *out = s->att.f + i * s->att.k + head * columns;
        for (uint32_t h = 0; h < group; h++, row++)
            p->c->kern->attn_merge(out + h * dim, s->attn.m + row, s->attn.l + row, rows, s->attn.o + row * dim,
                                   rows * dim, tile->parts, dim);
        if (p->w->q_gate.rows) p->c->kern->sigmoid_mul(out, s->q_gate + i * s->att.k + head * columns, columns);
        if (whole_blocks(p)) cpu_quantize(p, &s->att, &(struct group){.n = p->n}, i, head * columns, out, columns);
    }
}

/* The last items have the most keys: each share begins with its longest ones, so that short ones are left to steal. */
static const struct attn_item *item_of(const struct wave *w, uint32_t i)
{
    return &w->p->c->scratch.attn.items[w->n_items - 1 - i];
}

/* Store K and V of the tokens that are alone, in the part that has their positions. */
static void place(const struct pass *p, const struct attn_item *item)
{
    const struct attn_tile *tile = &p->c->scratch.attn.tiles[item->tile];
    if (!p->own_kv) return;
    for (uint32_t i = tile->token; i < tile->token + tile->n; i++) {
        const struct token *t = &p->c->scratch.tokens[i];
        if (t->alone && item->part == tile->sinks + t->pos / KV_SEGMENT - tile->segment)
            cpu_place_heads(p, i, item->head, 1);
    }
}

static void run_items(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct wave *w = ctx;
    const struct pass *p = w->p;
    const struct scratch *s = &p->c->scratch;
    for (uint32_t i = begin; i < end; i++) place(p, item_of(w, i)); /* long before the loads, which wait for them */
    for (uint32_t i = begin; i < end; i++) {
        const struct attn_item *item = item_of(w, i);
        const struct attn_tile *tile = &s->attn.tiles[item->tile];
        if (p->w->sink_scores && item->part + 1 == tile->parts)
            score_sinks(p, tile, item);
        else
            attend(p, item, i + 1 < end ? item_of(w, i + 1) : NULL, thread);
        _Atomic uint32_t *left = &s->attn.left[item->tile * p->heads.kv_heads + item->head];
        if (tile->parts == 1 || atomic_fetch_sub(left, 1) == 1) merge(p, tile, item->head);
    }
}

static void quantize_tokens(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct pass *p = ctx;
    for (size_t i = begin; i < end; i++) cpu_quantize_row(p, &p->c->scratch.att, i);
}

void cpu_attention(struct pass *p)
{
    struct wave w = {.p = p};
    uint32_t grain;
    for (; w.first < p->n; w.first += w.n) {
        plan(&w);
        grain = w.n_items / (compute_pool_threads(p->c->pool) * 4);
        cpu_run(p, TIMING_ATTENTION, run_items, &w, w.n_items, 1, grain ? grain : 1);
    }
    const struct hparams *y = &p->c->base.hparams;
    if (p->quantize && !y->mla.kv_rank && !whole_blocks(p)) cpu_each(p, quantize_tokens, p->n);
}
