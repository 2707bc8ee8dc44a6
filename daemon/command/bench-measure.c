/* SPDX-License-Identifier: MIT */
/* Runs what the options of hobd bench ask for, and relates the results to the limits of the machine. */
#include "daemon/command/bench.h"
#include "daemon/model/tensor-type.h"
#include <math.h>
#include <string.h>

#define FEWER 8 /* of the steps of a decode, one in so many is enough for the passes by rows */

/* The cost of passes, on any backend. */
struct work {
    const struct hparams *hparams;
    double dense, experts;         /* bytes of the weights: read by each pass; stacked by expert */
    double vocabulary, output_ops; /* of these: bytes of the vocabulary's matrix; operations of one row of logits */
    double ops;                    /* multiplications and additions of one token in the layers' matrices */
};

/* Bytes of the stacked matrices. */
static double expert_bytes(const struct tool *l)
{
    static const char *const names[] = {"gate", "up", "down", "gate_up"};
    double sum = 0;
    char name[64];
    for (uint32_t i = 0; i < 4 * l->hparams.n_layers && l->hparams.experts.n; i++) {
        snprintf(name, sizeof(name), "blk.%u.ffn_%s_exps.weight", i / 4, names[i % 4]);
        const struct gguf_tensor *t = gguf_find_tensor(l->gguf, name);
        enum kern_type type;
        if (!t || tensor_type(t->type, &type)) continue;
        uint64_t panels = (t->dims[1] + KERN_ROWS - 1) / KERN_ROWS * t->dims[2];
        sum += (double)panels * (double)kern_panel_bytes(type, t->dims[0]);
    }
    return sum;
}

/* Multiplications of one token in the matrices of attention. */
static double attention_products(const struct hparams *y, uint32_t layer)
{
    const struct hparams_mla *m = &y->mla;
    const struct hparams_heads h = hparams_heads(y, layer);
    const double dim = y->dim, q = (double)hparams_queries(y), out = (double)hparams_attended(y) * dim;
    if (!m->kv_rank) return 2 * dim * h.head_dim * (y->heads + (hparams_own_kv(y, layer) ? h.kv_heads : 0));
    const double heads = (double)y->heads * m->kv_rank * (m->nope + m->value);
    return (m->q_rank ? m->q_rank * (dim + q) : dim * q) + dim * y->head_dim + heads + out;
}

static struct work work_of(const struct tool *l)
{
    const struct hparams *y = &l->backend->hparams;
    const double dim = y->dim;
    struct work w = {.hparams = y, .experts = expert_bytes(l), .output_ops = 2.0 * dim * y->vocab};
    w.dense = (double)l->backend->weight_bytes - w.experts;
    double mixed = (double)y->experts.used * y->experts.ffn + y->experts.shared_ffn;
    for (uint32_t i = 0; i < y->n_layers; i++) {
        double width = 0; /* products' outputs or inputs, each of dim values */
        if (y->by_layer.parts[i] & LAYER_ATTENTION) w.ops += 2.0 * attention_products(y, i);
        for (uint32_t k = 0; y->by_layer.parts[i] & LAYER_RECURRENT && k < RECURRENT_INPUTS; k++)
            width += y->recurrent.in[k];
        if (y->by_layer.parts[i] & LAYER_RECURRENT) width += y->recurrent.out;
        if (y->by_layer.parts[i] & LAYER_FFN)
            width += 3 * (hparams_mixes(y, i) ? mixed + (y->desc->experts.beside ? hparams_ffn(y, i) : 0)
                                              : hparams_ffn(y, i));
        width += 3.0 * y->per_layer + 2.0 * y->altup.rank;
        w.ops += 2.0 * dim * width;
    }
    const struct gguf_tensor *t = gguf_find_tensor(l->gguf, y->tied ? hparams_embedding(y, l->gguf) : "output.weight");
    enum kern_type type;
    if (t && !tensor_type(t->type, &type))
        w.vocabulary = (double)((y->vocab + KERN_ROWS - 1) / KERN_ROWS) * (double)kern_panel_bytes(type, y->dim);
    return w;
}

/* Bytes of weights that a pass with @rows tokens reads. Each token takes some of the experts; the estimate is that it
 * takes each with the same probability. */
static double weight_bytes(const struct work *w, double rows)
{
    const struct hparams_experts *x = &w->hparams->experts;
    return w->dense + (x->n ? w->experts * (1 - pow(1 - (double)x->used / x->n, rows)) : 0);
}

/* Bytes of KV that a token with @length tokens, its own included, sees. */
static double kv_bytes(const struct work *w, double length)
{
    const struct hparams *y = w->hparams;
    double one = (double)y->groups[0].bytes_per_token / fmax(y->groups[0].n_layers, 1), tokens = 0;
    for (uint32_t i = 0; i < y->n_layers; i++) {
        if (!(y->by_layer.parts[i] & LAYER_ATTENTION)) continue;
        uint32_t window = hparams_window(y, i);
        tokens += window && window < length ? window : length;
    }
    return one * tokens;
}

static json_t *energy(const struct bench_result *r, double tokens)
{
    return r->joules < 0 ? json_null() : json_real(r->joules / tokens);
}

static void set_real(json_t *j, const char *key, double v)
{
    json_object_set_new(j, key, json_real(v));
}

/* Milliseconds of a run by component. "all" is their sum, "other" the rest of the run. */
static json_t *parts_of(const struct bench_result *r)
{
    static const char *const names[TIMING_PARTS] = {"projections", "attention", "vectors", "logits"};
    uint64_t wait = 0, barriers = 0, known = 0;
    json_t *j = json_object();
    for (size_t i = 0; i < TIMING_PARTS; i++) {
        set_real(j, names[i], (double)r->part[i].work_ns * 1e-6);
        wait += r->part[i].wait_ns;
        barriers += r->part[i].barriers;
        known += r->part[i].work_ns + r->part[i].wait_ns;
    }
    set_real(j, "waiting", (double)wait * 1e-6);
    json_object_set_new(j, "barriers", json_integer((json_int_t)barriers));
    set_real(j, "all", (double)known * 1e-6);
    set_real(j, "other", fmax(0, r->mean * 1e3 - (double)known * 1e-6));
    return j;
}

static void add_bytes(json_t *j, const struct work *w, double rows, double kv)
{
    set_real(j, "weight_bytes", weight_bytes(w, rows));
    set_real(j, "vocabulary_bytes", w->vocabulary);
    set_real(j, "kv_bytes", kv);
}

/* What all runs of one measurement share. */
struct measuring {
    const struct bench_options *o;
    struct tool *l;
    struct work work;
    struct bench_method method;
};

static int measure_prefill(const struct measuring *m, json_t *out)
{
    struct bench_result res;
    double n = (double)m->o->prefill;
    int r = bench_prefill(m->l, (uint32_t)m->o->prefill, &m->method, &res);
    if (r) return r;
    json_t *j = json_pack("{s:I, s:f, s:f, s:o}", "tokens", (json_int_t)m->o->prefill, "tok_s", n / res.seconds, "gops",
                          m->work.ops * n / res.seconds * 1e-9, "joules_per_token", energy(&res, n));
    if (m->o->roofline) json_object_set_new(j, "ms", parts_of(&res));
    json_object_set_new(out, "prefill", j);
    return 0;
}

static int measure_decode(const struct measuring *m, uint32_t batch, uint32_t depth, json_t *list)
{
    struct bench_result res;
    int r = bench_decode(m->l, batch, depth, (uint32_t)m->o->decode, &m->method, &res);
    if (r) return r;
    double kv = batch * kv_bytes(&m->work, depth + ((double)m->o->decode + 1) / 2);
    double gbps = (weight_bytes(&m->work, batch) + kv) / res.seconds * 1e-9;
    json_t *j = json_pack("{s:I, s:I, s:f, s:f, s:o}", "batch", (json_int_t)batch, "depth", (json_int_t)depth, "tok_s",
                          batch / res.seconds, "gbps", gbps, "joules_per_token", energy(&res, batch));
    if (m->o->roofline) {
        json_t *ms = parts_of(&res);
        set_real(ms, "sampling", bench_sampling(m->l) * batch * 1e3);
        json_object_set_new(j, "ms", ms);
        add_bytes(j, &m->work, batch, kv);
    }
    json_array_append_new(list, j);
    return 0;
}

static int measure_rows(const struct measuring *m, uint32_t rows, uint32_t depth, json_t *list)
{
    struct bench_result res;
    uint32_t passes = (uint32_t)((m->o->decode + FEWER - 1) / FEWER);
    int r = bench_rows(m->l, rows, depth, passes, &m->method, &res);
    if (r) return r;
    double kv = kv_bytes(&m->work, depth + rows), bytes = weight_bytes(&m->work, rows) + kv;
    double ops = rows * (m->work.ops + m->work.output_ops);
    json_t *j = json_pack("{s:I, s:I, s:f, s:f, s:f}", "rows", (json_int_t)rows, "depth", (json_int_t)depth, "ms",
                          res.seconds * 1e3, "gbps", bytes / res.seconds * 1e-9, "gops", ops / res.seconds * 1e-9);
    if (m->o->roofline) {
        json_object_set_new(j, "ms_parts", parts_of(&res));
        add_bytes(j, &m->work, rows, kv);
    }
    json_array_append_new(list, j);
    return 0;
}

/* --- what is known only at the end --- */

static double real(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

/* The least probability of each token of a draft to be accepted with which a pass of @rows tokens is worth @cost passes
 * of one: 1 + a + … + a^(rows-1) = cost. Above 1: no probability is enough. */
static double break_even(double rows, double cost)
{
    double low = 0, high = 1;
    if (cost <= 1) return 0;
    if (cost > rows) return 2;
    for (int i = 0; i < 40; i++) {
        double a = (low + high) / 2, sum = 0;
        for (double k = 0; k < rows; k++) sum += pow(a, k);
        *(sum < cost ? &low : &high) = a;
    }
    return high;
}

/* Set break_even of the passes at the depths for which one of one row was measured. */
static void set_break_even(json_t *list)
{
    json_t *j, *one;
    size_t i, k;
    json_array_foreach(list, i, j)
    {
        double a = 2;
        json_array_foreach(list, k, one)
        {
            if (real(one, "rows") == 1 && real(one, "depth") == real(j, "depth"))
                a = break_even(real(j, "rows"), real(j, "ms") / real(one, "ms"));
        }
        json_object_set_new(j, "break_even", a > 1 ? json_null() : json_real(a));
    }
}

static void set_shares(json_t *out, const struct bench_limits *limits)
{
    json_t *j, *p = json_object_get(out, "prefill");
    size_t i;
    set_real(out, "read_gbps", limits->read_gbps);
    set_real(out, "int8_gops", limits->int8_gops);
    set_real(p, "share", real(p, "gops") / limits->int8_gops);
    json_array_foreach(json_object_get(out, "decode"), i, j) set_real(j, "share", real(j, "gbps") / limits->read_gbps);
    json_array_foreach(json_object_get(out, "rows"), i, j)
        set_real(j, "share", fmax(real(j, "gbps") / limits->read_gbps, real(j, "gops") / limits->int8_gops));
}

static int measure_runs(const struct measuring *m, json_t *out)
{
    const struct bench_options *o = m->o;
    json_t *decode = json_array(), *rows = json_array();
    json_object_set_new(out, "decode", decode);
    if (o->rows.n) json_object_set(out, "rows", rows);
    int r = measure_prefill(m, out);
    for (uint32_t d = 0; d < o->depth.n; d++) {
        for (uint32_t i = 0; !r && i < o->batch.n; i++) r = measure_decode(m, o->batch.at[i], o->depth.at[d], decode);
        for (uint32_t i = 0; !r && i < o->rows.n; i++) r = measure_rows(m, o->rows.at[i], o->depth.at[d], rows);
    }
    set_break_even(rows);
    json_decref(rows);
    return r;
}

int bench_measure(const struct bench_options *o, struct tool *l, json_t *out)
{
    struct bench_energy energy;
    struct bench_limits limits = {0};
    struct measuring m = {o, l, work_of(l), {(uint32_t)o->repeat, o->roofline, &energy}};
    const uint32_t threads = l->backend->config.threads;
    const uint64_t bytes = l->backend->weight_bytes;
    bench_energy_open(&energy);
    json_object_set_new(out, "threads", json_integer(threads));
    json_object_set_new(out, "load_s", json_real(l->seconds));
    json_object_set_new(out, "idle_watts", energy.counters.n ? json_real(energy.idle_watts) : json_null());
    /* Before and after: on a shared machine one of the two may be disturbed. */
    int r = bench_limits(&limits, threads, bytes);
    if (!r) r = measure_runs(&m, out);
    if (!r) r = bench_limits(&limits, threads, bytes);
    if (!r) set_shares(out, &limits);
    powercap_close(&energy.counters);
    return r;
}
