/* SPDX-License-Identifier: MIT */
/* Attention of a batch: waves of tiles, whose partial results fit into the buffers, and their merge. */
#include "daemon/backend/cuda/cuda.h"

#define THREADS       128
#define FEW_THREADS   512
#define BESIDE        384 /* for which a product of one token leaves registers */
#define SHORT_BLOCKS  4
#define SHORT_THREADS 128          /* for tiles of up to so many blocks */
#define DEEP_BLOCKS   9            /* of the largest tile, at least, for cuda_deep_* */
#define DEEP_ALONE    (110u << 10) /* shared memory of one CTA of cuda_deep_* on a multiprocessor, */
#define DEEP_TWO      (166u << 10) /* and of two */
#define DEEP_FEW      1            /* most CTAs of a multiprocessor for cuda_deep_few_* */
#define DEEP_BARRIERS 640          /* bytes that cuda_deep_* has beside */
#define MANY_PARTS    16           /* of a token on average, for cuda_merge_deep */
#define NEAR_ENDS     (16 * 8)     /* bytes of cuda_near_* for maxima and sums of rows */
#define SOME_ROWS     32 /* queries of a tile of cuda_attn_some_* and cuda_attn_capped_*, for cuda_attn_* at best */

/* The kernels for heads of up to so many values; those for many queries, of how many in a tile. */
static const struct size {
    uint32_t dim, lanes, rows;
} sizes[CUDA_ATTN_SIZES] = {{64, 2, 128}, {128, 4, 64}, {256, 8, 0}};

static unsigned size_of(uint32_t dim)
{
    return dim <= sizes[0].dim ? 0 : dim <= sizes[1].dim ? 1 : 2;
}

/* Shared memory of cuda_attn_few_* and cuda_decode_* for tiles of up to @blocks KV blocks, and of cuda_attn_* where a
 * warp has @each queries, in floats. */
static unsigned few_floats(unsigned rows, unsigned wide, unsigned blocks)
{
    return rows * (wide + blocks * KV_BLOCK + 3 * KV_SEGMENT / KV_BLOCK) + 2 * wide;
}

static unsigned any_floats(unsigned rows, unsigned wide, unsigned each)
{
    return rows * wide + THREADS * each;
}

/* Heads of more values than the kernels for many queries have registers for. */
static bool is_wide(uint32_t dim)
{
    return dim > sizes[CUDA_ATTN_SIZES - 1].dim;
}

/* How to start attention of a wave. */
struct start {
    CUfunction f;
    struct cuda_grid grid;
    bool along; /* the KV heads of a tile are CTAs behind each other, without a y */
};

static bool is_capped(const struct cuda *c)
{
    return c->host->base.hparams.cap.attention > 0;
}

/* Queries that cuda_attn_many_* can have in a tile of heads of @dim values; 0: it cannot compute these. */
static uint32_t many_rows(const struct cuda *c, uint32_t dim)
{
    return dim % 8 || is_capped(c) ? 0 : sizes[size_of(dim)].rows;
}

static struct start start_of(const struct cuda *c, const struct cuda_wave *w, uint32_t dim)
{
    const uint32_t rows = w->rows;
    const uint32_t i = size_of(dim), wide = (dim + 3) / 4 * 4, f = sizeof(float), many = many_rows(c, dim);
    if (rows <= CUDA_FEW_ROWS || c->kern.alibi || is_wide(dim))
        return (struct start){c->kern.alibi ? c->kern.alibi : c->kern.attn_few,
                              {.threads = FEW_THREADS, .shared = few_floats(rows, wide, w->blocks) * f}};
    if (rows <= SOME_ROWS && dim % 8 == 0)
        return (struct start){is_capped(c) ? c->kern.attn_capped[i] : c->kern.attn_some[i],
                              {.threads = THREADS, .shared = CUDA_ATTN_SHARED(SOME_ROWS, sizes[i].dim)},
                              .along = true};
    if (rows <= many)
        return (struct start){
            c->kern.attn_many[i], {.threads = THREADS, .shared = CUDA_ATTN_SHARED(many, sizes[i].dim)}, .along = true};
    return (struct start){c->kern.attn[i], {.threads = THREADS, .shared = any_floats(rows, wide, i == 2 ? 4 : 8) * f}};
}

/* The larger tiles read less, but there should be enough of them: half as many as multiprocessors. */
uint32_t cuda_attention_rows(const struct cuda_pass *p, uint32_t n)
{
    const struct cuda *c = p->c;
    if (c->kern.alibi || c->kern.latent.attn || is_wide(p->cpu.heads.head_dim)) return CUDA_FEW_ROWS;
    const uint32_t rows = many_rows(c, p->cpu.heads.head_dim), queries = n * c->host->base.hparams.heads;
    return queries >= rows * (uint32_t)c->device.processors / 2 && rows > SOME_ROWS ? rows : SOME_ROWS;
}

/* The kernels for tokens that see much: for so many queries of a KV head, at most. */
static const uint32_t deep_rows[CUDA_DEEP_SIZES] = {2, 4, 8};

/* Slots of their rings if so many CTAs share a multiprocessor, which keeps 1 KB for each. One or two of them leave room
 * for CTAs of the kernels before and behind, which are products of one token, so that these overlap. */
static uint32_t deep_slots(uint32_t dim, uint32_t rows, uint32_t ctas)
{
    const uint32_t all = ctas < 2 ? DEEP_ALONE : ctas < 3 ? DEEP_TWO : CUDA_ALL_SHARED, room = all / ctas - 1024;
    const uint32_t slots = (room - CUDA_DEEP_SHARED(dim, rows, 0) - DEEP_BARRIERS) / CUDA_DEEP_SLOT;
    return slots < CUDA_DEEP_SLOTS ? slots : CUDA_DEEP_SLOTS;
}

static int find_deep(struct cuda *c)
{
    int r = 0;
    if (!c->device.early || c->host->base.config.kv_type != KERN_KV_F16) return 0;
    for (uint32_t i = 0; !r && i < CUDA_DEEP_SIZES * CUDA_PLAIN_SIZES; i++) {
        const uint32_t size = i / CUDA_DEEP_SIZES, k = i % CUDA_DEEP_SIZES, dim = sizes[size].dim, rows = deep_rows[k];
        const uint32_t shared = CUDA_DEEP_SHARED(dim, rows, deep_slots(dim, rows, 1));
        r = cuda_kernel_of(&c->device, &c->kern.deep_few[size][k], shared, "cuda_deep_few_%u_%u", dim, rows);
        if (!r && k) r = cuda_kernel_of(&c->device, &c->kern.deep[size][k], shared, "cuda_deep_%u_%u", dim, rows);
    }
    return r;
}

int cuda_find_attention(struct cuda *c)
{
    const struct hparams *s = &c->host->base.hparams;
    if (!s->heads || !s->kv_heads) return 0; /* no layer has attention */
    if (s->mla.kv_rank) return cuda_find_latent(c);
    const uint32_t group = s->heads / s->kv_heads, rows = group < SOME_ROWS ? SOME_ROWS : group;
    const uint32_t other = s->heads / hparams_heads_of(s, true).kv_heads, both = group > other ? group : other;
    const uint32_t least = is_wide(hparams_widest(s)) && both > CUDA_FEW_ROWS ? both : CUDA_FEW_ROWS;
    const unsigned wide = (hparams_widest(s) + 3) / 4 * 4,
                   few = few_floats(least, wide, KV_SEGMENT / KV_BLOCK) * sizeof(float),
                   any = any_floats(rows, wide, 8) * sizeof(float);
    const char *type = kern_kv_name(c->host->base.config.kv_type);
    const struct cuda_device *d = &c->device;
    int r = cuda_kernel_of(d, &c->kern.attn_few, few, "cuda_attn_few_%s", type);
    if (!r && c->host->slopes) r = cuda_kernel(d, &c->kern.alibi, "cuda_attn_alibi", few);
    if (!r) r = cuda_kernel_of(d, &c->kern.decode, few, "cuda_decode_%s", type);
    if (!r && d->early) r = cuda_kernel_of(d, &c->kern.near, CUDA_NEAR_SHARED, "cuda_near_%s", type);
    if (!r && d->early) r = cuda_kernel_of(d, &c->kern.apart, CUDA_NEAR_SHARED, "cuda_apart_%s", type);
    for (uint32_t i = 0; !r && d->early && i < CUDA_PLAIN_SIZES; i++)
        r = cuda_kernel_of(d, &c->kern.plain[i], CUDA_NEAR_SHARED, "cuda_plain_%s_%u", type, sizes[i].dim);
    if (!r) r = find_deep(c);
    for (uint32_t i = 0; !r && i < CUDA_ATTN_SIZES; i++) {
        const uint32_t dim = sizes[i].dim, some = CUDA_ATTN_SHARED(SOME_ROWS, dim);
        r = cuda_kernel_of(d, &c->kern.attn[i], any, "cuda_attn_%s_%u", type, sizes[i].lanes);
        if (!r) r = cuda_kernel_of(d, &c->kern.attn_some[i], some, "cuda_attn_some_%s_%u", type, dim);
        if (!r) r = cuda_kernel_of(d, &c->kern.attn_capped[i], some, "cuda_attn_capped_%s_%u", type, dim);
        if (r || !sizes[i].rows) continue;
        r = cuda_kernel_of(d, &c->kern.attn_many[i], CUDA_ATTN_SHARED(sizes[i].rows, dim), "cuda_attn_many_%s_%u", type,
                           dim);
    }
    return r;
}

static struct cuda_attn attn_of(const struct cuda_pass *p, const struct cuda_view *v, const struct cuda_wave *w)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    const uint32_t kv_heads = p->cpu.heads.kv_heads;
    return (struct cuda_attn){.q = c->buf.q,
                              .q_sinks = c->buf.q_sinks,
                              .tiles = (const struct cuda_tile *)cuda_note(c, v->tiles) + w->tile,
                              .seen = cuda_note(c, v->seen),
                              .table = cuda_note(c, p->table),
                              .kv = cuda_kv_layer(c, p->cpu.group, p->cpu.group_layer),
                              .m = c->buf.m,
                              .l = c->buf.l,
                              .o = c->buf.o,
                              .scale = s->scale.attention,
                              .cap = s->cap.attention,
                              .heads = (uint16_t)s->heads,
                              .kv_heads = (uint16_t)kv_heads,
                              .dim = (uint16_t)p->cpu.heads.head_dim,
                              .group = (uint16_t)(s->heads / kv_heads),
                              .width = w->blocks * KV_BLOCK};
}

static int attend(const struct cuda_pass *p, const struct cuda_view *v, const struct cuda_wave *w)
{
    const struct cuda *c = p->c;
    /* cuda_attn_alibi takes all of this, the others its first member */
    const struct cuda_attn_alibi far = {attn_of(p, v, w), cuda_note(c, p->slopes), cuda_note(c, p->tokens)};
    const struct cuda_attn *a = &far.a;
    if (c->kern.latent.attn) return cuda_attend_latent(p, a, w);
    struct start x = start_of(c, w, a->dim);
    x.grid.x = x.along ? w->n_tiles * a->kv_heads : w->n_tiles;
    x.grid.y = x.along ? 1 : a->kv_heads;
    return cuda_launch(&c->device, x.f, x.grid, a);
}

static struct cuda_merge merge_of(const struct cuda_pass *p, const struct cuda_view *v, const struct cuda_wave *w,
                                  bool quantized)
{
    const struct cuda *c = p->c;
    struct cuda_merge a = {.m = c->buf.m,
                           .l = c->buf.l,
                           .o = c->buf.o,
                           .sink_scores = cuda_weight(c, p->cpu.w->sink_scores),
                           .seen = cuda_note(c, v->seen),
                           .list = cuda_note(c, v->list),
                           .f = c->buf.att,
                           .first = w->first,
                           .heads = c->host->base.hparams.heads,
                           .dim = p->cpu.heads.head_dim};
    if (quantized && a.dim % KERN_BLOCK == 0) a.q = cuda_acts_of(p, c->buf.att_acts);
    if (c->kern.latent.attn) cuda_merge_latent(p, &a);
    return a;
}

static int merge(const struct cuda_pass *p, const struct cuda_view *v, const struct cuda_wave *w, bool quantized)
{
    struct cuda_merge a = merge_of(p, v, w, quantized);
    const unsigned columns = 4 * CUDA_MANY_WARPS * CUDA_WARP; /* of a CTA of many */
    const struct cuda_grid one = {w->n, a.heads, CUDA_WARP, 0},
                           many = {w->n, cuda_divide(a.heads * a.dim, columns), CUDA_MANY_WARPS * CUDA_WARP, 0};
    if (!is_wide(a.dim) && !a.apart && (w->n <= CUDA_MANY_TOKENS || a.dim % 4))
        return cuda_launch(&p->c->device, p->c->kern.merge, one, &a);
    if (a.q.q && !cuda_is_adapted(p)) a.f = NULL; /* nothing reads it */
    return cuda_launch(&p->c->device, p->c->kern.merge_many, many, &a);
}

/* Quantize what no kernel of attention does, for heads of another number of values than 32, 64, …. */
static int quantize(const struct cuda_pass *p, const struct cuda_view *v)
{
    const struct cuda *c = p->c;
    const uint32_t k = c->host->base.hparams.heads * p->cpu.heads.head_dim;
    if (p->cpu.heads.head_dim % KERN_BLOCK == 0) return 0;
    return cuda_quantize_rows(p, c->buf.att, v->n, k, &c->buf.att_acts);
}

int cuda_attention(struct cuda_pass *p, const struct cuda_view *v, bool quantized)
{
    int r = 0;
    for (uint32_t i = 0; !r && i < v->n_waves; i++) {
        r = attend(p, v, &v->waves[i]);
        if (!r) r = merge(p, v, &v->waves[i], quantized);
    }
    return r || !quantized ? r : quantize(p, v);
}

bool cuda_decodes(const struct cuda_pass *p, const struct cuda_view *v)
{
    return p->alone && p->cpu.own_kv && !p->c->kern.alibi && !p->c->kern.latent.attn &&
           !is_wide(p->cpu.heads.head_dim) && v->n == p->n && v->n_waves == 1 && v->waves[0].rows <= CUDA_FEW_ROWS;
}

/* How many CTAs share the queries of a KV head: as long as each of all @ctas has a multiprocessor. */
static uint32_t share_of(const struct cuda *c, uint32_t group, uint32_t ctas)
{
    for (uint32_t k = 0; k + 1 < CUDA_DEEP_SIZES; k++) {
        const uint32_t rows = deep_rows[k];
        if (group > rows && group % rows == 0 && ctas * (group / rows) <= (unsigned)c->device.processors)
            return group / rows;
    }
    return 1;
}

/* The kernels for tokens that see much compute @a. */
static bool is_deep(const struct cuda *c, const struct cuda_wave *w, const struct cuda_decode *a)
{
    const uint32_t dim = a->attn.dim, size = size_of(dim);
    return w->blocks >= DEEP_BLOCKS && size < CUDA_PLAIN_SIZES && dim == sizes[size].dim && c->kern.deep_few[size][0] &&
           a->attn.group <= deep_rows[CUDA_DEEP_SIZES - 1] && a->heads.rot <= dim;
}

static int start_deep(const struct cuda *c, struct start *x, const struct cuda_decode *a)
{
    struct cuda_deep deep = {
        .a = *a, .plain = cuda_only_rotates(&a->heads), .share = share_of(c, a->attn.group, x->grid.x * x->grid.y)};
    const uint32_t dim = a->attn.dim, group = a->attn.group / deep.share;
    x->grid.y *= deep.share;
    deep.a.attn.group = (uint16_t)group;
    deep.a.attn.kv_heads = (uint16_t)x->grid.y;
    const uint32_t ctas = cuda_divide(x->grid.x * x->grid.y, (unsigned)c->device.processors);
    const bool few = ctas <= DEEP_FEW;
    uint32_t k = !few;
    while (deep_rows[k] < group) k++;
    const uint32_t rows = deep_rows[k], most = CUDA_DEEP_CTAS(few);
    deep.slots = deep_slots(dim, rows, ctas < most ? ctas : most);
    x->grid.threads = CUDA_DEEP_THREADS(few);
    x->grid.shared = CUDA_DEEP_SHARED(dim, rows, deep.slots);
    return cuda_launch(&c->device, (few ? c->kern.deep_few : c->kern.deep)[size_of(dim)][k], x->grid, &deep);
}

/* Start the kernel that has copies of the KV blocks in shared memory, where there is room for those of the largest
 * tile, or that which has K and then V; else the other one. */
static int start_decode(const struct cuda_pass *p, const struct cuda_wave *w, const struct cuda_decode *a)
{
    const struct cuda *c = p->c;
    struct start x = start_of(c, w, a->attn.dim);
    const unsigned f = sizeof(float), both = w->blocks * a->attn.kv.each, half = w->blocks * a->attn.kv.half;
    /* near() of attn-decode.cu rounds alike */
    const unsigned shared = cuda_divide(x.grid.shared + NEAR_ENDS + a->heads.rot * f, CUDA_COPY_TO) * CUDA_COPY_TO;
    if (c->device.together && p->n == 1) x.grid.threads = BESIDE;
    x.f = c->kern.decode;
    x.grid.x = w->n_tiles;
    x.grid.y = a->attn.kv_heads;
    if (is_deep(c, w, a)) return start_deep(c, &x, a);
    /* of many short tiles, more are computed at once with few threads */
    if (w->blocks <= SHORT_BLOCKS && x.grid.x * x.grid.y > 2 * (unsigned)c->device.processors)
        x.grid.threads = SHORT_THREADS;
    if (c->kern.near && shared + both <= CUDA_NEAR_SHARED) {
        x.f = cuda_is_plain(a) && !cuda_is_adapted(p) ? c->kern.plain[size_of(a->attn.dim)] : c->kern.near;
        x.grid.shared = shared + both;
    } else if (c->kern.apart && shared + half <= CUDA_NEAR_SHARED) {
        x.f = c->kern.apart;
        x.grid.shared = shared + half;
    }
    return cuda_launch(&c->device, x.f, x.grid, a);
}

int cuda_decode(const struct cuda_pass *p, const struct cuda_view *v, bool quantized)
{
    const struct cuda *c = p->c;
    const struct cuda_wave *w = &v->waves[0];
    const uint32_t heads = c->host->base.hparams.heads, dim = p->cpu.heads.head_dim;
    const bool later = w->n_tiles > MANY_PARTS * w->n && dim % KERN_BLOCK == 0;
    const struct cuda_grid parts = {w->n, heads * dim / KERN_BLOCK, CUDA_MERGE_WARPS * KERN_BLOCK, 0};
    const struct cuda_decode a = {.heads = cuda_heads_of(p),
                                  .attn = attn_of(p, v, w),
                                  .merge = merge_of(p, v, w, quantized),
                                  .done = later ? NULL : c->buf.done};
    int r = start_decode(p, w, &a);
    if (!r && later) r = cuda_launch(&c->device, c->kern.merge_deep, parts, &a.merge);
    return r || !quantized ? r : quantize(p, v);
}
