/* SPDX-License-Identifier: MIT */
/* The forward pass, in the order of daemon/backend/cpu/forward.c. All kernels of a pass follow each other in one
 * stream of each device; the host waits for the logits alone. */
#include "daemon/backend/cuda/cuda.h"
#include "libcommon/error.h"

/* Leave the block's result in h. The next norm applies @bias and @post and adds it. */
static void leave(struct cuda_pass *p, const float *bias, const float *post, const float *out_scale)
{
    p->pending = true;
    p->bias = bias;
    p->post = post;
    p->out_scale = out_scale;
}

/* --- blocks --- */

/* In the last layer only tokens of which something is wanted are computed further: move their rows together. */
static int keep_wanted(struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    if (p->n_kept == p->n) return 0;
    struct cuda_norm a = {.x = p->x, .k = c->host->base.hparams.dim};
    if (p->pending) a = cuda_join_of(p, &(struct cuda_norm_by){.w = NULL}); /* of the layer before */
    a.gather = cuda_note(c, c->views[VIEW_LAST].list);
    a.to = c->buf.kept;
    p->pending = false;
    p->n = p->n_kept;
    p->dropped = true;
    p->x = c->buf.kept;
    return cuda_start_norm(c, p->n, &a);
}

/* The product of what the heads got is not its input: products, gates or a norm come before it. */
static bool changes_heads(const struct layer *w)
{
    return w->mla.v_b.rows || w->q_gate.rows || w->attn_sub_norm;
}

/* What the heads got, -> what is pending. */
static int finish_heads(struct cuda_pass *p, const struct product *out, bool last)
{
    const struct cuda *c = p->c;
    const struct layer *w = p->cpu.w;
    int r = 0;
    if (w->mla.v_b.rows) r = cuda_latent_values(p, out);
    if (w->q_gate.rows) r = cuda_gate_heads(p, last ? cuda_note(c, c->views[VIEW_LAST].list) : NULL, out);
    if (w->attn_sub_norm) r = cuda_sub_norm(p, c->buf.att, out->m->k, w->attn_sub_norm, out, &c->buf.att_acts);
    if (!r) r = cuda_products(p, out, 1, c->buf.att, &c->buf.att_acts);
    leave(p, w->o.bias, w->attn_post_norm, NULL);
    return r;
}

/* The products of a layer's input: their number. */
static uint32_t heads_products(const struct cuda_pass *p, struct product set[CUDA_PRODUCTS])
{
    const struct cuda *c = p->c;
    const struct layer *w = p->cpu.w;
    uint32_t n = 1;
    if (w->mla.v_b.rows) return cuda_latent_products(p, set);
    set[0] = (struct product){&w->q, c->buf.q};
    if (p->cpu.own_kv) set[n++] = (struct product){&w->k, c->buf.k};
    if (p->cpu.own_kv && w->v.rows) set[n++] = (struct product){&w->v, c->buf.v};
    if (c->host->base.hparams.altup.streams) set[n++] = (struct product){&w->altup.laurel_in, c->buf.altup.low};
    if (w->q_gate.rows) set[n++] = (struct product){&w->q_gate, c->buf.q_gate};
    return n;
}

/* The layer is recurrent, and has attention of the same input beside it. */
static bool both(const struct cuda_pass *p)
{
    return !(~p->c->host->base.hparams.by_layer.parts[p->cpu.layer] & (LAYER_ATTENTION | LAYER_RECURRENT));
}

static int scan_beside(const struct cuda_pass *p)
{
    struct product set[RECURRENT_INPUTS];
    int r = cuda_products(p, set, cuda_state_products(p, set), p->c->buf.h, &p->c->buf.h_acts);
    return r ? r : cuda_scan(p);
}

static int attention_block(struct cuda_pass *p, bool last)
{
    const struct cuda *c = p->c;
    const struct layer *w = p->cpu.w;
    const struct cuda_norm_by by = {.w = w->attn_norm, .bias = w->attn_norm_bias};
    const struct product out = {&w->o, c->host->base.hparams.parallel ? c->buf.beside : c->buf.h};
    const bool quantized = !changes_heads(w) && cpu_quantized(&out, 1);
    const struct cuda_view *view =
        &c->views[last ? VIEW_LAST : hparams_window(&c->host->base.hparams, p->cpu.layer) > 0];
    struct product in[CUDA_PRODUCTS];
    const uint32_t n = heads_products(p, in);
    const bool altup = c->host->base.hparams.altup.streams > 0;
    int r = cuda_norm_products(p, &by, in, n, NULL);
    const bool joined = cuda_decodes(p, view);
    if (!r && c->host->base.hparams.desc->experts.early && w->router.rows) r = cuda_early_router(p);
    if (!r && altup) r = cuda_laurel(p);
    if (!r && both(p)) r = scan_beside(p);
    if (!r && cuda_norms_heads(p)) r = cuda_norm_heads(p);
    if (!r && joined) r = cuda_decode(p, view, quantized);
    if (!r && !joined) r = cuda_place_heads(p);
    if (!r && last) r = keep_wanted(p);
    if (!r && p->n && !joined) r = cuda_attention(p, view, quantized);
    if (!r && p->n) r = finish_heads(p, &out, last);
    p->laurel = altup;
    return r;
}

/* Behind attention, if the layer has it. */
static int recurrent_block(struct cuda_pass *p, bool last)
{
    const struct cuda *c = p->c;
    const struct layer *w = p->cpu.w;
    const struct cuda_norm_by by = {.w = w->attn_norm, .bias = w->attn_norm_bias}, none = {.w = NULL};
    struct product set[RECURRENT_INPUTS];
    struct cuda_norm join;
    int r;
    if (both(p)) {
        join = cuda_join_of(p, &none);
        r = cuda_join(p, &none, &join);
    } else {
        r = cuda_norm_products(p, &by, set, cuda_state_products(p, set), NULL);
        if (!r) r = cuda_scan(p);
        if (!r && last) r = keep_wanted(p);
    }
    if (!r && p->n) r = cuda_state_output(p, last ? cuda_note(c, c->views[VIEW_LAST].list) : NULL);
    leave(p, NULL, w->attn_post_norm, NULL);
    return r;
}

/* The activation of the products @in, and the product behind it. */
static int finish(const struct cuda_pass *p, const struct product in[2], const struct product *down)
{
    const struct cuda *c = p->c;
    struct cuda_gated a = cuda_gated_of(c, in);
    const float *sub_norm = p->cpu.w->ffn_sub_norm;
    if (cuda_reads_plain(p, down, 1) || sub_norm) a.f = c->buf.gate;
    if (cpu_quantized(down, 1) && !sub_norm) a.q = cuda_acts_of(p, c->buf.gated_acts);
    int r = cuda_activates(p) ? cuda_activate(p, &a)
                              : cuda_launch(&c->device, c->kern.gated, cuda_rows_grid(a.k, p->n), &a);
    if (!r && sub_norm) r = cuda_sub_norm(p, c->buf.gate, a.k, sub_norm, down, &c->buf.gated_acts);
    return r ? r : cuda_products(p, down, 1, c->buf.gate, &c->buf.gated_acts);
}

/* The norm, the products and the activation are one kernel. */
static bool one_kernel(const struct cuda_pass *p, const struct product *in, const struct product *down)
{
    const struct layer *w = p->cpu.w;
    return w->ffn_norm && cuda_usual_norms(&p->c->host->base.hparams) && !w->ffn_sub_norm &&
           w->gate.type == w->up.type && w->gate.rows == w->up.rows && cuda_alone(p, in, 2) && cuda_alone(p, down, 1);
}

static int feed_forward_block(struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct layer *w = p->cpu.w;
    const struct product in[] = {{&w->up, c->buf.up}, {&w->gate, c->buf.gate}};
    const struct product down = {&w->down, c->buf.h};
    const bool joined = cuda_gate_products(p) == 2 && one_kernel(p, in, &down);
    struct cuda_gated a = cuda_gated_of(c, in);
    a.f = c->buf.gate;
    const struct cuda_norm_by by = {w->ffn_norm, w->ffn_norm_bias, w->encoder.second_norm, w->encoder.second_norm_bias};
    int r = cuda_norm_products(p, &by, in, cuda_gate_products(p), joined ? &a : NULL);
    const struct cuda_one row = {.row = c->buf.gate};
    if (!r) r = joined ? cuda_multiply_alone(p, &down, 1, &row) : finish(p, in, &down);
    leave(p, w->down.bias, w->ffn_post_norm, c->host->base.hparams.per_layer ? NULL : w->out_scale);
    return r;
}

static int experts_block(struct cuda_pass *p, bool last)
{
    const struct cuda *c = p->c;
    const struct layer *w = p->cpu.w;
    const bool early = c->host->base.hparams.desc->experts.early;
    int r = cuda_compute_experts(p, early && last ? cuda_note(c, c->views[VIEW_LAST].list) : NULL);
    leave(p, NULL, w->ffn_post_norm, c->host->base.hparams.per_layer ? NULL : w->out_scale);
    return r;
}

/* Add the layer's embedding of each token. */
static int embedding_block(struct cuda_pass *p, bool last)
{
    const struct cuda *c = p->c;
    const struct layer *w = p->cpu.w;
    int r = 0;
    if (c->host->base.hparams.altup.streams) {
        r = cuda_altup_correct(p);
    } else {
        const struct cuda_norm_by none = {.w = NULL};
        struct cuda_norm join = cuda_join_of(p, &none);
        join.f = c->buf.h;
        if (cpu_quantized(&(struct product){&w->embedding.gate, NULL}, 1)) join.q = cuda_acts_of(p, c->buf.h_acts);
        r = cuda_join(p, &none, &join);
    }
    if (!r) r = cuda_layer_embedding(p, last ? cuda_note(c, c->views[VIEW_LAST].list) : NULL);
    leave(p, NULL, w->embedding.norm, w->out_scale);
    return r;
}

/* Attention and feed-forward of the same residual. Its norm is in h, unless tokens were dropped (@last) or the
 * feed-forward has its own. */
static int parallel_block(struct cuda_pass *p, bool last)
{
    const struct cuda *c = p->c;
    const struct layer *w = p->cpu.w;
    const struct product in[] = {{&w->up, c->buf.up}, {&w->gate, c->buf.gate}};
    const struct product down = {&w->down, c->buf.h};
    const struct cuda_norm_by shared = {.w = w->attn_norm, .bias = w->attn_norm_bias},
                              own = {.w = w->ffn_norm, .bias = w->ffn_norm_bias};
    const uint32_t all = p->n;
    int r = attention_block(p, last);
    p->pending = false;
    if (r || !p->n) return r;
    if (p->n == all && !own.w)
        r = cuda_products(p, in, cuda_gate_products(p), c->buf.h, &c->buf.h_acts);
    else
        r = cuda_norm_products(p, own.w ? &own : &shared, in, cuda_gate_products(p), NULL);
    if (!r) r = finish(p, in, &down);
    leave(p, w->down.bias, w->ffn_post_norm, w->out_scale);
    p->beside = true;
    p->beside_bias = w->o.bias;
    return r;
}

/* --- the pass --- */

/* The KV of the pass's layer, as in daemon/backend/cpu/forward.c. */
static void choose_kv(struct cuda_pass *p, uint32_t layers[KV_GROUPS_MAX], uint32_t last[2])
{
    const struct hparams *s = &p->c->host->base.hparams;
    const uint32_t l = p->cpu.layer;
    const bool slides = hparams_window(s, l) > 0;
    p->cpu.heads = hparams_heads(s, l);
    p->cpu.group = hparams_group(s, l);
    p->cpu.own_kv = hparams_own_kv(s, l);
    if (p->cpu.own_kv) last[slides] = layers[p->cpu.group];
    layers[p->cpu.group] += p->cpu.own_kv && s->by_layer.parts[l] & LAYER_ATTENTION;
    p->cpu.group_layer = s->embedding.whole ? 0 : last[slides];
}

/* @last: tokens of which nothing is wanted are dropped in this layer. */
static int compute_layer(struct cuda_pass *p, bool last)
{
    const struct hparams *s = &p->c->host->base.hparams;
    if (s->parallel) return parallel_block(p, last);
    const uint8_t parts = s->by_layer.parts[p->cpu.layer];
    int r = s->altup.streams ? cuda_altup_predict(p) : 0;
    if (!r && parts & LAYER_ATTENTION) r = attention_block(p, last);
    if (!r && parts & LAYER_RECURRENT && p->n) r = recurrent_block(p, last);
    if (!r && last && parts == LAYER_FFN) r = keep_wanted(p);
    if (!r && p->n && parts & LAYER_FFN)
        r = hparams_mixes(s, p->cpu.layer) ? experts_block(p, last) : feed_forward_block(p);
    return r || !p->n || !s->per_layer ? r : embedding_block(p, last);
}

/* What comes before the first layer. */
static int begin_layers(struct cuda_pass *p)
{
    const struct hparams *s = &p->c->host->base.hparams;
    if (s->mtp.first) return cuda_mtp_input(p);
    int r = s->per_layer ? cuda_embed_layers(p) : 0;
    return r || !s->altup.streams ? r : cuda_altup_begin(p);
}

/* What comes behind the device's last layer. */
static int end_layers(struct cuda_pass *p)
{
    const struct cuda_norm_by none = {.w = NULL};
    const bool altup = p->c->host->base.hparams.altup.streams > 0;
    if (p->c->next) { /* it has no weights to join what is pending with */
        const struct cuda_norm join = cuda_join_of(p, &none);
        return altup ? cuda_altup_join(p) : cuda_join(p, &none, &join);
    }
    int r = altup ? cuda_altup_end(p) : 0;
    return r || !altup ? r : keep_wanted(p); /* all streams stay in place */
}

/* Those of the pass's device. */
static int compute_layers(struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    const bool altup = s->altup.streams > 0;
    uint32_t layers[KV_GROUPS_MAX] = {0}, last[2] = {0};
    p->cpu.state_layer = 0;
    int r = c->first ? 0 : begin_layers(p);
    for (uint32_t l = s->mtp.first; !r && l < c->end && p->n; l++) {
        p->cpu.layer = l;
        p->cpu.w = &c->host->weights.layers[l];
        choose_kv(p, layers, last);
        if (l >= c->first) r = compute_layer(p, !altup && l + 1 == s->n_layers);
        p->cpu.state_layer += (s->by_layer.parts[l] & LAYER_RECURRENT) != 0;
    }
    return r ? r : end_layers(p);
}

/* A pass of which all kept tokens want logits alone. */
static int compute(struct cuda_pass *p)
{
    int r = compute_layers(p);
    return r || !p->n || p->c->next ? r : cuda_compute_logits(p, 0, p->n);
}

/* Nothing but logits is wanted. */
static bool plain_logits(const struct cuda_pass *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (token_wants(&p->c->host->scratch.tokens[i]) & WANT_HIDDEN) return false;
    return true;
}

/* The layers of the pass's device; behind the last one, what the tokens want. */
static int run_device(struct cuda_pass *p, float *logits, float *hidden)
{
    struct cuda_shape shape;
    const bool last = !p->c->next;
    int r;
    if (plain_logits(p) && cuda_graph_shape(p, &shape)) {
        r = cuda_graph_run(p, &shape, compute);
        return r || !last || !p->n_kept ? r : cuda_hand_over(p, 0, p->n_kept, &logits);
    }
    r = compute_layers(p);
    return r || !last || !p->n ? r : cuda_output(p, logits, hidden);
}

static int run(struct cuda_pass *p, float *logits, float *hidden)
{
    int r = cuda_upload_batch(p);
    if (!r && p->overlaps) r = cuda_mark(&p->c->device, MARK_GIVEN);
    if (!r) r = run_device(p, logits, hidden);
    while (!r && p->c->next) {
        r = cuda_go_on(p);
        if (!r) r = run_device(p, logits, hidden);
    }
    return r || (p->more && !p->n_kept) ? r : cuda_wait(&p->c->device);
}

/* A pass has failed: wait for what it has started, which reads what the next pass writes. The first message stays. */
static void stop(const struct cuda_backend *x)
{
    for (uint32_t i = 0; i < x->n; i++) {
        const struct cuda_device *d = &x->devices[i].device;
        d->driver->cuCtxSetCurrent(d->context);
        d->driver->cuStreamSynchronize(d->stream);
    }
}

/* The pass of entries that are laid out. */
static int pass(struct cuda_pass *p, const struct batch_entry *e, size_t n, float *logits, float *hidden)
{
    p->n = p->cpu.n;
    p->x = p->c->buf.x;
    int r = cuda_device_use(&p->c->device);
    if (!r) r = cuda_embed_batch(p);
    if (!r) r = cuda_upload_layers(p);
    if (!r && p->c->host->base.hparams.mtp.first) r = cuda_upload_pairs(p);
    if (!r) r = cuda_write_notes(p, e, n);
    return r ? r : run(p, logits, hidden);
}

/* The passes of pieces of @tokens tokens. */
static int passes(struct cuda_backend *x, const struct batch_entry *e, size_t n, uint32_t tokens, float *logits,
                  float *hidden)
{
    struct cuda_pieces *s = &x->pieces;
    int r = 0;
    s->e = e, s->n = n, s->dim = x->host.base.hparams.dim, s->entry = s->token = 0;
    for (size_t some, first = 1; !r && (some = cuda_next_piece(s, tokens)); first = 0) {
        struct cuda_pass p = {.c = &x->devices[0], .cpu = {.c = &x->host}, .overlaps = true, .more = s->entry < n};
        if (!first) r = cuda_begin_piece(p.c);
        if (!r) r = cpu_lay_out(&p.cpu, s->part, some, logits, hidden);
        if (!r) r = pass(&p, s->part, some, logits, hidden);
        logits += s->logits * x->host.base.hparams.vocab;
        hidden += s->hidden * s->dim;
    }
    return r;
}

int cuda_forward(struct backend *b, const struct batch_entry *e, size_t n, float *logits, float *hidden)
{
    struct cuda_backend *x = (struct cuda_backend *)b;
    struct cuda_pass p = {.c = &x->devices[0], .cpu = {.c = &x->host}};
    if (atomic_load(&x->alone)) return cpu_forward(b, e, n, logits, hidden);
    int r = cpu_lay_out(&p.cpu, e, n, logits, hidden);
    if (r || !p.cpu.n) return r;
    if (atomic_load(&x->failed)) return error_say(-EIO, "the GPU has failed (%s)", x->name);
    const uint32_t tokens = cuda_piece_tokens(p.cpu.n, x->n);
    r = tokens ? passes(x, e, n, tokens, logits, hidden) : pass(&p, e, n, logits, hidden);
    if (r) stop(x);
    return r ? cuda_lost(x, r) : 0;
}
