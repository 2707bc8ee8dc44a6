/* SPDX-License-Identifier: MIT */
/* The runs that hobd bench measures. */
#include "daemon/command/bench.h"
#include "daemon/sample/sampling.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <string.h>
#include <time.h>

#define SAMPLINGS 5
#define IDLE_NSEC 300000000

/* The run that is repeated. */
struct run {
    struct tool *l;
    uint32_t batch, pos, n; /* prefill: batch 0, n tokens; decode: n steps of a sequence each; with rows: n passes */
    uint32_t rows;          /* of one sequence; 0: prefill or decode */
    int32_t *tokens;
    float *logits;
    int32_t *best; /* [batch] ids of the largest logits, in place of these where the backend picks; NULL: logits */
};

static int cmp_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Any valid ids: the speed does not depend on them. */
static void fill(int32_t *tokens, uint32_t n, uint32_t vocab)
{
    uint32_t x = 1;
    for (uint32_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        tokens[i] = (int32_t)((x >> 8) % vocab);
    }
}

/* One step of @r->batch sequences at position @pos, with @r->rows tokens of the sequence or one token of each. */
static int step(const struct run *r, uint32_t pos)
{
    uint8_t want[BENCH_ROWS_MAX];
    struct backend *b = r->l->backend;
    uint32_t n_blocks = (b->config.ctx + KV_BLOCK - 1) / KV_BLOCK;
    _cleanup_(freep) uint32_t *blocks = malloc((size_t)r->batch * n_blocks * sizeof(*blocks));
    _cleanup_(freep) const uint32_t **tables = malloc(r->batch * sizeof(*tables));
    _cleanup_(freep) struct batch_entry *e = calloc(r->batch, sizeof(*e));
    if (!blocks || !tables || !e) return error_origin(-ENOMEM);
    memset(want, r->best ? WANT_BEST : WANT_LOGITS, sizeof(want));
    for (uint32_t i = 0; i < r->batch; i++) {
        for (uint32_t k = 0; k < n_blocks; k++) blocks[(size_t)i * n_blocks + k] = i * n_blocks + k;
        tables[i] = blocks + (size_t)i * n_blocks;
        e[i] = (struct batch_entry){.blocks = &tables[i],
                                    .state = {.block = i},
                                    .pos = pos,
                                    .n = r->rows ? r->rows : 1,
                                    .tokens = &r->tokens[i],
                                    .want = want,
                                    .best = r->best ? &r->best[i] : NULL};
    }
    return b->ops->forward(b, e, r->batch, r->logits, NULL);
}

static int run_once(const struct run *r)
{
    if (!r->batch) return tool_forward(r->l, 0, r->tokens, 0, r->n, r->n - 1, r->logits);
    int e = 0;
    uint32_t last = r->l->backend->config.ctx - (r->rows ? r->rows : 1);
    for (uint32_t s = 0; !e && s < r->n; s++) {
        uint32_t pos = r->pos + (r->rows ? 0 : s);
        e = step(r, pos < last ? pos : last);
    }
    return e;
}

/* Copies block 0 to every block of the sequences, because the system has not allocated memory that was never written.
 */
static int fill_kv(const struct run *r)
{
    struct backend *b = r->l->backend;
    uint32_t n_blocks = (b->config.ctx + KV_BLOCK - 1) / KV_BLOCK;
    uint32_t used = r->pos / KV_BLOCK + 1 < n_blocks ? r->pos / KV_BLOCK + 1 : n_blocks;
    _cleanup_(freep) uint8_t *block = malloc(b->hparams.groups[0].bytes_per_token * KV_BLOCK);
    if (!block) return error_origin(-ENOMEM);
    int e = 0;
    uint32_t first = b->config.ctx < KV_BLOCK ? b->config.ctx : KV_BLOCK;
    _cleanup_(freep) int32_t *tokens = malloc(first * sizeof(*tokens));
    if (!tokens) return error_origin(-ENOMEM);
    fill(tokens, first, b->hparams.vocab);
    e = tool_forward(r->l, 0, tokens, 0, first, first, NULL);
    if (e) return e;
    e = b->ops->kv_read(b, 0, 0, block);
    for (uint32_t i = 0; !e && i < r->batch; i++)
        for (uint32_t k = 0; k < used; k++) b->ops->kv_write(b, 0, i * n_blocks + k, block);
    return e;
}

void bench_energy_open(struct bench_energy *e)
{
    e->idle_watts = 0;
    powercap_open(&e->counters, "");
    if (!e->counters.n) return;
    double start = tool_now();
    nanosleep(&(struct timespec){.tv_nsec = IDLE_NSEC}, NULL);
    double joules = powercap_read(&e->counters);
    if (joules > 0) e->idle_watts = joules / (tool_now() - start);
}

/* Joules since the counters had @before, without the idle power; negative: not readable. */
static double joules_since(struct bench_energy *e, double before, double seconds)
{
    double now = powercap_read(&e->counters), net = now - before - e->idle_watts * seconds;
    return before < 0 || now < 0 ? -1 : net > 0 ? net : 0;
}

/* @per: the number of steps in one run. */
static int repeat(const struct run *r, uint32_t per, const struct bench_method *method, struct bench_result *out)
{
    double took[BENCH_RUNS_MAX], sum = 0;
    uint64_t all = (uint64_t)per * method->repeats;
    struct timing part[TIMING_PARTS] = {0};
    double before = powercap_read(&method->energy->counters);
    r->l->backend->timing = method->timing ? part : NULL;
    int e = 0;
    for (uint32_t i = 0; !e && i < method->repeats; i++) {
        double start = tool_now();
        e = run_once(r);
        took[i] = tool_now() - start;
        sum += took[i];
    }
    r->l->backend->timing = NULL;
    if (e) return e;
    double joules = joules_since(method->energy, before, sum);
    out->joules = joules < 0 ? -1 : joules / (double)all;
    qsort(took, method->repeats, sizeof(*took), cmp_double);
    out->seconds = took[method->repeats / 2] / per;
    out->mean = sum / (double)all;
    for (size_t i = 0; i < TIMING_PARTS; i++)
        out->part[i] = (struct timing){part[i].work_ns / all, part[i].wait_ns / all, part[i].barriers / all};
    return 0;
}

/* Logits of @rows tokens, aligned as those of the engine. NULL: no memory. The caller frees them. */
static float *new_logits(const struct tool *l, size_t rows)
{
    return aligned_alloc(KERN_ALIGN, kern_align(rows * l->backend->hparams.vocab * sizeof(float)));
}

int bench_prefill(struct tool *l, uint32_t n, const struct bench_method *method, struct bench_result *out)
{
    uint32_t cap = l->backend->config.batch_tokens;
    _cleanup_(freep) int32_t *tokens = malloc(n * sizeof(*tokens));
    _cleanup_(freep) float *logits = new_logits(l, 1);
    if (!tokens || !logits) return error_origin(-ENOMEM);
    fill(tokens, n, l->backend->hparams.vocab);
    struct run r = {.l = l, .n = n, .tokens = tokens, .logits = logits};
    int e = tool_forward(l, 0, tokens, 0, n < cap ? n : cap, n, NULL); /* warm up */
    return e ? e : repeat(&r, 1, method, out);
}

/* Fill the KV cache and measure @r, which has @n tokens. */
static int repeat_deep(struct run *r, uint32_t n, const struct bench_method *method, struct bench_result *out)
{
    _cleanup_(freep) int32_t *tokens = malloc(n * sizeof(*tokens));
    _cleanup_(freep) float *logits = new_logits(r->l, n);
    if (!tokens || !logits) return error_origin(-ENOMEM);
    fill(tokens, n, r->l->backend->hparams.vocab);
    r->tokens = tokens;
    r->logits = logits;
    int e = fill_kv(r);
    if (!e) e = step(r, 0); /* warm up */
    return e ? e : repeat(r, r->n, method, out);
}

int bench_decode(struct tool *l, uint32_t batch, uint32_t depth, uint32_t steps, const struct bench_method *method,
                 struct bench_result *out)
{
    struct run r = {.l = l, .batch = batch, .pos = depth, .n = steps};
    _cleanup_(freep) int32_t *best = malloc(batch * sizeof(*best));
    if (!best) return error_origin(-ENOMEM);
    if (l->backend->ops->picks) r.best = best;
    return repeat_deep(&r, batch, method, out);
}

int bench_rows(struct tool *l, uint32_t rows, uint32_t depth, uint32_t passes, const struct bench_method *method,
               struct bench_result *out)
{
    struct run r = {.l = l, .batch = 1, .pos = depth, .n = passes, .rows = rows};
    return repeat_deep(&r, rows, method, out);
}

double bench_sampling(struct tool *l)
{
    uint32_t vocab = l->backend->hparams.vocab;
    struct sampling s = {0};
    struct sample_scratch *x = NULL;
    double took[SAMPLINGS] = {0};
    int32_t token = 0;
    _cleanup_(freep) float *logits = malloc(vocab * sizeof(float));
    int e = logits ? sample_scratch_new(&x, vocab) : -ENOMEM;
    if (!e) e = tool_forward(l, 0, &token, 0, 1, 0, logits);
    sample_params_init(&s.params);
    if (!e) e = sampling_start(&s, NULL, 0, NULL, 0);
    for (int i = 0; !e && i < SAMPLINGS; i++) {
        double start = tool_now();
        e = sampling_pick(&s, x, (struct logits){.row = logits}, &token, 1, &token);
        took[i] = tool_now() - start;
    }
    sampling_fini(&s);
    sample_scratch_free(x);
    qsort(took, SAMPLINGS, sizeof(*took), cmp_double);
    return e ? 0 : took[SAMPLINGS / 2];
}
