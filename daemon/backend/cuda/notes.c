/* SPDX-License-Identifier: MIT */
/* What the device must know about a batch: positions, block tables, and the tiles of attention. */
#include "daemon/backend/cuda/cuda.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

#define FIRST_NOTES  (1 << 20) /* bytes */
#define WAVES_APART  8         /* up to so many, decoding tokens of a large batch get other waves than prompts */
#define LEAST_BLOCKS 2         /* of a wave's largest tile: few different numbers share a graph */

static uint32_t min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Make room for @bytes: -ENOMEM. What was written stays on the host's side. */
static int reserve(struct cuda *c, size_t bytes)
{
    struct cuda_notes *n = &c->notes;
    size_t size = n->size ? n->size : FIRST_NOTES;
    void *host = NULL, *device = NULL;
    while (size < n->used + bytes) size *= 2;
    if (size == n->size) return 0;
    int r = cuda_wait_all(c); /* for a piece that is computed */
    if (!r) r = cuda_alloc_host(&c->device, &host, size);
    if (!r) r = cuda_alloc(&c->device, &device, size, "the places of a step");
    if (r) {
        cuda_free_host(&c->device, host);
        return r;
    }
    if (n->used) memcpy(host, n->host, n->used);
    cuda_free_host(&c->device, n->host);
    cuda_free(&c->device, n->device);
    n->host = host, n->device = device, n->size = size;
    return 0;
}

/* Add @n elements of @size bytes. 0 and their place. */
static int add(struct cuda *c, size_t n, size_t size, size_t *at)
{
    const size_t bytes = (n * size + 63) / 64 * 64;
    int r = reserve(c, bytes);
    *at = c->notes.used;
    c->notes.used += r ? 0 : bytes;
    return r;
}

/* Add @bytes directly behind what was added before. */
static int put(struct cuda *c, const void *from, size_t bytes)
{
    int r = reserve(c, bytes);
    if (r || !bytes) return r;
    memcpy(c->notes.host + c->notes.used, from, bytes);
    c->notes.used += bytes;
    return 0;
}

/* --- tiles --- */

/* A tile of attention, all its parts. */
struct cut {
    uint32_t token, n;     /* consecutive tokens of one entry */
    uint32_t parts, sinks; /* the first of them are the sinks' */
    uint32_t segment;      /* of the first other part */
};

/* Of @n tokens from batch row @at on. */
static struct cut cut_tile(const struct pass *p, uint32_t at, uint32_t n)
{
    const struct token *t = &p->c->scratch.tokens[at];
    struct cut x = {.token = at, .n = n, .segment = cpu_window_start(p, t) / KV_SEGMENT};
    if (token_slides(t)) x.sinks = (t->entry->sinks + KV_SEGMENT - 1) / KV_SEGMENT;
    x.parts = x.sinks + (token_end(p, &t[n - 1]) - 1) / KV_SEGMENT - x.segment + 1;
    return x;
}

/* Tokens of a tile that begins with list[0]: of one entry, one behind the other, all sliding or none. */
static uint32_t run_of(const struct pass *p, const uint32_t *list, uint32_t most)
{
    const struct token *t = &p->c->scratch.tokens[list[0]];
    uint32_t n = 1;
    while (n < most && list[n] == list[0] + n && t[n].entry == t->entry && token_slides(&t[n]) == token_slides(t)) n++;
    return n;
}

/* Positions [from, to) of a part of a tile. */
static struct cuda_tile part_of(const struct pass *p, const struct cut *x, uint32_t part, uint32_t table)
{
    const struct token *first = &p->c->scratch.tokens[x->token];
    const bool sinks = part < x->sinks;
    const uint32_t segment = sinks ? part : x->segment + part - x->sinks;
    const uint32_t seen = sinks ? 0 : cpu_window_start(p, first) / KV_BLOCK * KV_BLOCK, begin = segment * KV_SEGMENT;
    const uint32_t end = sinks ? first->entry->sinks : token_end(p, &first[x->n - 1]);
    struct cuda_tile t = {x->token, x->n, part, begin > seen ? begin : seen, min(end, begin + KV_SEGMENT),
                          table,    sinks};
    if (t.to < t.from) t.to = t.from;
    return t;
}

/* The tile of list[0] …, of at most @most tokens; at most @rows partial results. */
static struct cut next_tile(const struct cuda_pass *p, const uint32_t *list, uint32_t most, uint32_t rows)
{
    const struct pass *cpu = &p->cpu;
    uint32_t n = run_of(cpu, list, most);
    struct cut x = cut_tile(cpu, list[0], n);
    while (x.n > 1 && x.n * x.parts > rows) x = cut_tile(cpu, list[0], x.n / 2);
    return x;
}

/* Write the parts of a tile: row @row of the partial results is its first. */
static int put_tile(struct cuda_pass *p, struct cuda_view *v, const struct cut *x, uint32_t row)
{
    struct cuda *c = p->c;
    const struct token *t = &c->host->scratch.tokens[x->token];
    const uint32_t group = p->cpu.group, entry = (uint32_t)(t->entry - p->cpu.c->scratch.tokens[0].entry);
    const struct cuda_tables *tables = &c->tables[entry * KV_GROUPS_MAX + group];
    for (uint32_t i = 0; i < x->parts; i++) {
        const struct cuda_tile tile = part_of(&p->cpu, x, i, i < x->sinks ? tables->sinks : tables->others);
        struct cuda_wave *w = &v->waves[v->n_waves - 1];
        while (w->blocks * KV_BLOCK < tile.to - tile.from) w->blocks *= 2;
        int r = put(c, &tile, sizeof(tile));
        if (r) return r;
    }
    v->n_tiles += x->parts;
    for (uint32_t i = 0; i < x->n; i++) {
        struct cuda_seen *s = (struct cuda_seen *)(c->notes.host + v->seen) + x->token + i;
        *s = (struct cuda_seen){cpu_window_start(&p->cpu, &t[i]), token_end(&p->cpu, &t[i]), row + i * x->parts,
                                x->parts};
    }
    return 0;
}

static int longer(const void *a, const void *b)
{
    const struct cuda_tile *x = a, *y = b;
    const uint32_t m = x->to - x->from, n = y->to - y->from;
    return m < n ? 1 : m > n ? -1 : 0;
}

/* Long tiles first: short ones then fill the multiprocessors that are done early. */
static void sort_tiles(struct cuda *c, const struct cuda_view *v)
{
    for (uint32_t i = 0; i < v->n_waves; i++) {
        struct cuda_tile *tiles = (struct cuda_tile *)(void *)(c->notes.host + v->tiles) + v->waves[i].tile;
        const uint32_t n = v->waves[i].n_tiles;
        uint32_t sorted = 1;
        while (sorted < n && longer(&tiles[sorted - 1], &tiles[sorted]) <= 0) sorted++;
        if (sorted < n) qsort(tiles, n, sizeof(*tiles), longer);
    }
}

/* Few numbers of tiles share a graph (graph.c): add empty ones to a view of one wave, and make the notes end at a
 * multiple of 64 bytes, within the room, whose size is a power of two. */
static int pad_tiles(struct cuda *c, struct cuda_view *v)
{
    static const struct cuda_tile none;
    uint32_t most = 8;
    int r = 0;
    while (most < v->n_tiles) most += most < 64 ? most : 64;
    for (; !r && v->n_waves == 1 && v->n_tiles < most; v->n_tiles++) r = put(c, &none, sizeof(none));
    if (v->n_waves == 1) v->waves[0].n_tiles = v->n_tiles;
    c->notes.used = (c->notes.used + 63) / 64 * 64;
    return r;
}

/* The kernel for few queries is best for a tile of @rows queries, which begins with list[0], number @i of the list. It
 * would delay the end of a long run. */
static bool few_rows(const struct pass *p, const uint32_t *list, uint32_t i, uint32_t rows)
{
    const struct token *t = p->c->scratch.tokens;
    return rows <= CUDA_FEW_ROWS && (i == 0 || t[list[-1]].entry != t[list[0]].entry);
}

/* Cut the tokens of the view's list into waves and tiles, as they are in layer @layer. */
static int write_view(struct cuda_pass *p, struct cuda_view *v, uint32_t layer)
{
    struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    p->cpu.layer = layer;
    p->cpu.heads = hparams_heads(s, layer);
    p->cpu.group = hparams_group(s, layer);
    const uint32_t sharing = s->heads / p->cpu.heads.kv_heads, rows = cuda_attention_rows(p, v->n),
                   most = sharing < rows ? rows / sharing : 1;
    const bool apart = p->cpu.n > CUDA_GRAPH_TOKENS;
    uint32_t row = c->attn_rows; /* full: the first tile begins a wave */
    bool was_few = false;
    int r = add(c, p->cpu.n, sizeof(struct cuda_seen), &v->seen);
    v->tiles = c->notes.used;
    v->n_tiles = v->n_waves = 0;
    for (uint32_t i = 0; !r && i < v->n;) {
        const uint32_t *list = (const uint32_t *)(c->notes.host + v->list) + i;
        const struct cut x = next_tile(p, list, min(most, v->n - i), c->attn_rows);
        const bool few = few_rows(&p->cpu, list, i, x.n * sharing);
        if (x.n * x.parts > c->attn_rows - row || (few != was_few && apart && v->n_waves < WAVES_APART)) {
            v->waves[v->n_waves++] = (struct cuda_wave){.first = i, .tile = v->n_tiles, .blocks = LEAST_BLOCKS};
            row = 0;
            was_few = few;
        }
        struct cuda_wave *w = &v->waves[v->n_waves - 1];
        r = put_tile(p, v, &x, row);
        row += x.n * x.parts;
        w->n += x.n;
        w->n_tiles += x.parts;
        if (x.n * sharing > w->rows) w->rows = x.n * sharing;
        i += x.n;
    }
    if (!r) sort_tiles(c, v);
    if (!r) r = pad_tiles(c, v);
    return r;
}

/* --- the batch --- */

/* The group, one with KV, has blocks: those of a table, or those of texts that are computed whole. */
static bool has_blocks(const struct hparams *s, uint32_t g)
{
    return s->groups[g].n_layers || (s->embedding.whole && !g);
}

static uint32_t block_of(const struct hparams *s, const struct token *t, uint32_t g)
{
    return s->embedding.whole ? t->block + t->pos / KV_BLOCK : t->entry->blocks[g][t->pos / KV_BLOCK];
}

static int write_tokens(struct cuda_pass *p)
{
    struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    int r = add(c, p->cpu.n, sizeof(struct cuda_token), &p->tokens);
    for (uint32_t i = 0; !r && i < p->cpu.n; i++) {
        const struct token *t = &c->host->scratch.tokens[i];
        struct cuda_token x = {.pos = t->pos, .slides = token_slides(t)};
        for (uint32_t g = 0; g < hparams_kv_groups(s) && g < 2; g++)
            if (has_blocks(s, g)) x.block[g] = block_of(s, t, g);
        ((struct cuda_token *)(c->notes.host + p->tokens))[i] = x;
        p->slides |= token_slides(t);
    }
    return r;
}

/* The blocks of an entry in group @g: [0, *sinks) and [*first, end) are seen. */
static void seen_blocks(const struct hparams *s, const struct batch_entry *e, uint32_t g, uint32_t *sinks,
                        uint32_t *first)
{
    const struct token t = {.entry = e, .pos = e->pos};
    const bool slides = token_slides(&t);
    *sinks = slides ? (e->sinks + KV_BLOCK - 1) / KV_BLOCK : 0;
    *first = (slides ? e->pos + 1 - e->window : kv_group_first(&s->groups[g], e->pos)) / KV_BLOCK;
}

/* Decide where the block tables of all entries and groups will begin, relative to the first. */
static void place_tables(const struct cuda_pass *p, const struct batch_entry *e, size_t n)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    uint32_t at = 0;
    for (size_t i = 0; i < n; i++)
        for (uint32_t g = 0; g < hparams_kv_groups(s); g++) {
            const uint32_t end = (e[i].pos + e[i].n + KV_BLOCK - 1) / KV_BLOCK;
            uint32_t sinks, first;
            if (!has_blocks(s, g)) continue;
            seen_blocks(s, &e[i], g, &sinks, &first);
            c->tables[i * KV_GROUPS_MAX + g] = (struct cuda_tables){at, at + sinks - first};
            at += sinks + end - first;
        }
}

/* Write them. They are the last notes: the places of all others do not depend on their sizes. */
static int write_tables(struct cuda_pass *p, const struct batch_entry *e, size_t n)
{
    struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    uint32_t whole = 0; /* the next block of texts that are computed whole */
    int r = 0;
    p->table = c->notes.used;
    for (size_t i = 0; !r && i < n; i++)
        for (uint32_t g = 0; !r && g < hparams_kv_groups(s); g++) {
            const uint32_t end = (e[i].pos + e[i].n + KV_BLOCK - 1) / KV_BLOCK;
            uint32_t sinks, first;
            if (!has_blocks(s, g)) continue;
            seen_blocks(s, &e[i], g, &sinks, &first);
            if (s->embedding.whole) {
                for (uint32_t j = 0; !r && j < end; j++, whole++) r = put(c, &whole, sizeof(whole));
                continue;
            }
            r = put(c, e[i].blocks[g], sinks * sizeof(uint32_t));
            if (!r) r = put(c, e[i].blocks[g] + first, (end - first) * sizeof(uint32_t));
        }
    return r;
}

/* Factors of the queries, in the first layer that has any. */
static int write_warmth(struct cuda_pass *p)
{
    struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    if (s->temperature.scale == 0) return 0;
    int r = add(c, p->cpu.n, sizeof(float), &p->warmth);
    for (uint32_t i = 0; !r && i < p->cpu.n; i++) {
        float by = 1;
        for (uint32_t l = 0; by == 1 && l < s->n_layers; l++) {
            p->cpu.layer = l;
            by = cpu_temperature(&p->cpu, c->host->scratch.tokens[i].pos);
        }
        ((float *)(void *)(c->notes.host + p->warmth))[i] = by;
    }
    return r;
}

static int write_slopes(struct cuda_pass *p)
{
    struct cuda *c = p->c;
    const uint32_t heads = c->host->base.hparams.heads;
    if (!c->host->slopes) return 0;
    int r = add(c, heads, sizeof(float), &p->slopes);
    if (!r) memcpy(c->notes.host + p->slopes, c->host->slopes, heads * sizeof(float));
    return r;
}

/* The tokens of the batch, or those of which something is wanted. */
static int write_list(struct cuda_pass *p, struct cuda_view *v, bool wanted)
{
    int r = add(p->c, p->cpu.n, sizeof(uint32_t), &v->list);
    v->n = 0;
    for (uint32_t i = 0; !r && i < p->cpu.n; i++)
        if (!wanted || token_wants(&p->c->host->scratch.tokens[i]))
            ((uint32_t *)(void *)(p->c->notes.host + v->list))[v->n++] = i;
    for (uint32_t i = 0; i < p->cpu.n; i++) p->picks |= (token_wants(&p->c->host->scratch.tokens[i]) & WANT_BEST) > 0;
    return r;
}

/* Room for what the host computes (cuda_upload_batch): the angles, and the embeddings of a few tokens. */
static int leave_room(struct cuda_pass *p)
{
    const struct hparams *s = &p->c->host->base.hparams;
    int r = 0;
    if (p->cpu.n <= CUDA_NOTED_ROWS) r = add(p->c, (size_t)p->cpu.n * s->dim, sizeof(float), &p->rows);
    for (uint32_t i = 0; !r && i < 3; i++)
        r = add(p->c, (size_t)p->cpu.n * (i < 2 ? hparams_rotated(s, i) : s->rope_dim), sizeof(float), &p->angles[i]);
    return r;
}

/* The view of the last layer: that of other layers of its kind, if all tokens are kept and there are such. */
static int write_last(struct cuda_pass *p, const bool has[2])
{
    struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    const uint32_t last = s->n_layers - 1;
    const bool window = hparams_window(s, last) > 0;
    struct cuda_view *v = &c->views[VIEW_LAST];
    if (!(s->by_layer.parts[last] & LAYER_ATTENTION)) return 0;
    const struct cuda_view *same = &c->views[window];
    if (!has[window] || v->n != p->cpu.n) return write_view(p, v, last);
    struct cuda_wave *waves = v->waves;
    memcpy(waves, same->waves, same->n_waves * sizeof(*waves));
    *v = *same;
    v->waves = waves;
    return 0;
}

/* The runs of recurrent layers. There is room for all saves that there can be, so that the places of the notes behind
 * them do not depend on these. */
static int write_runs(struct cuda_pass *p, const struct batch_entry *e, size_t n)
{
    struct cuda *c = p->c;
    uint32_t saves = 0, row = 0;
    if (!c->host->base.hparams.recurrent.taps) return 0;
    p->n_runs = (uint32_t)n;
    int r = add(c, n, sizeof(struct cuda_run), &p->runs);
    if (!r) r = add(c, p->cpu.n, sizeof(uint32_t), &p->run_of);
    if (!r) r = add(c, p->cpu.n, sizeof(struct cuda_save), &p->saves);
    for (uint32_t i = 0; !r && i < n; i++) {
        const struct batch_state *s = &e[i].state;
        ((struct cuda_run *)(void *)(c->notes.host + p->runs))[i] =
            (struct cuda_run){row, e[i].n, !e[i].pos, s->block, saves, s->n_saves};
        for (uint32_t j = 0; j < s->n_saves; j++)
            ((struct cuda_save *)(void *)(c->notes.host + p->saves))[saves++] =
                (struct cuda_save){s->saves[j].n, s->saves[j].block};
        for (uint32_t j = 0; j < e[i].n; j++) ((uint32_t *)(void *)(c->notes.host + p->run_of))[row++] = i;
    }
    return r;
}

/* --- adapters --- */

/* Write the tiles of the @n rows of @order from @first on, which have adapter number @adapter: their number. */
static uint32_t put_rows(struct cuda_lora_tile *tiles, uint32_t adapter, uint32_t first, uint32_t n)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i += CUDA_LORA_ROWS)
        tiles[at++] = (struct cuda_lora_tile){adapter, first + i, min(n - i, CUDA_LORA_ROWS)};
    return at;
}

/* Sort the rows with adapters, of all tokens or (@kept) of those of which something is wanted. There are as many tiles
 * as for any adapters, so that graphs can be used again. */
static int write_adapted(struct cuda_pass *p, struct cuda_adapted *to, bool kept)
{
    struct cuda *c = p->c;
    const uint32_t adapters = c->host->lora.n, n = kept ? c->views[VIEW_LAST].n : p->cpu.n;
    uint32_t at = 0, tile = 0;
    to->n_tiles = n / CUDA_LORA_ROWS + min(n, adapters);
    int r = add(c, n, sizeof(uint32_t), &to->order);
    if (!r) r = add(c, n, sizeof(float), &to->scales);
    if (!r) r = add(c, to->n_tiles, sizeof(struct cuda_lora_tile), &to->tiles);
    if (r) return r;
    uint32_t *order = (uint32_t *)(void *)(c->notes.host + to->order);
    const uint32_t *list = (const uint32_t *)(const void *)(c->notes.host + c->views[VIEW_LAST].list);
    float *scales = (float *)(void *)(c->notes.host + to->scales);
    struct cuda_lora_tile *tiles = (struct cuda_lora_tile *)(void *)(c->notes.host + to->tiles);
    for (uint32_t k = 0; k < adapters; k++) {
        const uint32_t first = at;
        for (uint32_t i = 0; i < n; i++) {
            const struct batch_entry *e = c->host->scratch.tokens[kept ? list[i] : i].entry;
            if (e->adapter == k + 1) order[at] = i, scales[at++] = e->adapter_scale;
        }
        tile += put_rows(tiles + tile, k, first, at - first);
    }
    memset(tiles + tile, 0, (to->n_tiles - tile) * sizeof(*tiles));
    return 0;
}

static int write_adapters(struct cuda_pass *p, const struct batch_entry *e, size_t n)
{
    size_t i = 0;
    while (i < n && !e[i].adapter) i++;
    if (i == n) return 0;
    int r = write_adapted(p, &p->adapted[0], false);
    return r ? r : write_adapted(p, &p->adapted[1], true);
}

int cuda_write_notes(struct cuda_pass *p, const struct batch_entry *e, size_t n)
{
    struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    bool has[2] = {false, false};
    c->notes.used = 0;
    for (uint32_t v = 0; v < CUDA_VIEWS; v++) c->views[v].n = c->views[v].n_tiles = c->views[v].n_waves = 0;
    place_tables(p, e, n);
    int r = write_tokens(p);
    if (!r) r = write_warmth(p);
    if (!r) r = write_slopes(p);
    if (!r) r = write_runs(p, e, n);
    if (!r) r = leave_room(p);
    if (!r) r = write_list(p, &c->views[VIEW_LAST], true);
    if (!r) r = write_adapters(p, e, n);
    const uint32_t end = s->n_layers - !s->altup.streams; /* with AltUp, no layer drops tokens */
    for (uint32_t l = s->mtp.first; !r && l < end; l++) {
        const bool window = hparams_window(s, l) > 0;
        if (has[window] || !(s->by_layer.parts[l] & LAYER_ATTENTION)) continue;
        has[window] = true;
        r = write_list(p, &c->views[window], false);
        if (!r) r = write_view(p, &c->views[window], l);
    }
    if (!r) r = write_last(p, has);
    if (!r) r = write_tables(p, e, n);
    p->n_kept = c->views[VIEW_LAST].n;
    p->alone = n == p->cpu.n;
    return r;
}
