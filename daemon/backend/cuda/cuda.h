/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Private to the CUDA backend: its state, and the parts of a forward pass. Its type is backend_cuda (backends.h).
 *
 * The backend begins with that of the CPU, which loads the weights, checks batches, embeds tokens, takes the angles
 * of RoPE, and computes what is not done on the device: the head behind pooling, and logsumexp. The image of the
 * weights has a copy on the device, and the KV blocks lie there alone, both in the layout of the CPU.
 */
#include "daemon/backend/cpu/cpu.h"
#include "daemon/backend/cuda/pieces.h"
#include "daemon/backend/cuda/products.h"
#include "kernels/cuda/deep-args.h"
#include "kernels/cuda/expert-args.h"
#include "kernels/cuda/lora-args.h"
#include "kernels/cuda/state-args.h"
#include "kernels/cuda/variant-args.h"
#include <assert.h>

#define CUDA_NEAR_SHARED (216u << 10) /* most shared memory of cuda_near_* */
#define CUDA_ATTN_SIZES  3            /* kernels of attention, for heads of up to 64, 128 and 256 values */
#define CUDA_DEEP_SIZES  3            /* kernels for tokens that see much: up to 2, 4 and 8 queries of a KV head */
#define CUDA_PLAIN_SIZES 2            /* the first of these sizes have cuda_plain_* */

/* Those of the layers' embeddings of tokens. */
struct cuda_layer_buffers {
    float *rows, *e; /* [tokens][layers][per_layer] of the table; the embeddings */
    float *gate;     /* [tokens][per_layer] */
    struct cuda_acts gate_acts;
};

/* Those of AltUp and LAuReL. */
struct cuda_altup_buffers {
    float *streams; /* [tokens][streams][dim] */
    float *side;    /* [tokens][dim] LAuReL's output; at both ends of the pass, that of a product */
    float *low;     /* [tokens][rank] */
    struct cuda_acts low_acts;
};

/* Of a mixture of experts: expert-args.h has the choices and rows. */
struct cuda_expert_buffers {
    float *route, *shared; /* [tokens][experts], [tokens] scores of the routers */
    uint32_t *chosen;      /* [choices] */
    float *share;          /* [choices] */
    uint32_t *row;         /* [choices] */
    struct cuda_tile_rows *tiles;
    float *mix;       /* [rows][dim] inputs, then outputs */
    float *gate, *up; /* [rows][expert_ffn]; the activated gates lie in gate */
    struct cuda_acts mix_acts, gated_acts;
};

/* Of recurrent layers. */
struct cuda_state_buffers {
    float *in[RECURRENT_INPUTS]; /* [tokens][hparams.recurrent.in[i]] products of the input */
    float *conv;                 /* [tokens][channels] convolved */
    float *out, *rows;         /* [tokens][hparams.recurrent.out] of the scan; what is multiplied last, not quantized */
    struct cuda_acts out_acts; /* the same, quantized */
};

/* Of latent attention; rows by head: latent-args.h. */
struct cuda_latent_buffers {
    float *low; /* [tokens][q_rank] */
    struct cuda_acts low_acts;
    float *parts;               /* [heads][tokens][nope] of the queries; [heads][tokens][value] what a head gives */
    struct cuda_acts part_acts; /* the former, quantized */
    float *absorbed;            /* [heads][tokens][kv_rank] queries; what attention gives, in rows that are not read
                                 * any more */
    struct cuda_acts acts;      /* the latter, quantized */
};

/* Buffers of one batch of up to batch_tokens, in device memory. */
struct cuda_buffers {
    void *mem;
    float *x, *kept;            /* [tokens][dim] residual stream; that of the tokens that are kept in the last layer */
    float *h;                   /* [tokens][dim] output of a block; normed input */
    struct cuda_acts h_acts;    /* the normed input, quantized */
    float *q, *q_sinks, *k, *v; /* [tokens][heads or kv_heads][head_dim] */
    float *att, *gate, *up;     /* [tokens][heads][head_dim], [tokens][ffn]; the activated gates lie in gate */
    float *beside; /* [tokens][dim] attention's output, where the feed-forward reads the same residual, or that of a
                    * feed-forward beside experts */
    float *q_gate; /* [tokens][heads][head_dim] where the architecture has them */
    struct cuda_layer_buffers layers;
    struct cuda_altup_buffers altup;
    struct cuda_expert_buffers moe;
    struct cuda_state_buffers states;
    struct cuda_latent_buffers latent;
    float *pairs; /* [tokens][2 dim] normed embeddings and states, of an MTP layer */
    struct cuda_acts pair_acts;
    struct cuda_acts att_acts, gated_acts;
    float *m, *l, *o;   /* [attn_rows][heads], of o [head_dim] each: partial results of a wave of attention */
    float *logits;      /* [logit_rows][vocab] */
    uint32_t *done;     /* [tokens][kv_heads] of cuda_decode, all 0 between kernels */
    uint32_t *row_done; /* [logit_rows] of cuda_largest, behind done, the same */
    uint64_t *tops;     /* [logit_rows][parts] of cuda_largest */
    int32_t *best;      /* [logit_rows] ids of the largest logits */
};

#define CUDA_NOTED_ROWS 8 /* most embeddings that are among the notes */

/* What the host tells the device about a batch: arrays one behind the other, copied at once. */
struct cuda_notes {
    uint8_t *host, *device; /* [size]; the host's are those of the first device */
    size_t size, used;
};

/* Tokens that attention computes at once. Their partial results fill a part of the buffers. */
struct cuda_wave {
    uint32_t first, n; /* in the view's list */
    uint32_t tile, n_tiles;
    uint32_t rows;   /* query heads of a KV head in the largest tile */
    uint32_t blocks; /* KV blocks of the tile with the most, rounded up to 2, 4, 8 or 16 */
};

/* Some tokens of the batch, and what they see in the layers of one kind. Places are in the notes. */
struct cuda_view {
    uint32_t n;
    size_t list;        /* uint32_t [n]: the tokens */
    size_t seen, tiles; /* struct cuda_seen [tokens of the batch], struct cuda_tile [n_tiles] */
    uint32_t n_waves, n_tiles;
    struct cuda_wave *waves; /* [batch_tokens] */
};

/* Where an entry's block table would begin in the notes, modulo 2^32: it has only what its tokens see. */
struct cuda_tables {
    uint32_t sinks, others;
};

enum { VIEW_FULL, VIEW_WINDOW, VIEW_LAST, CUDA_VIEWS }; /* layers that see everything; with a window; the last one */

struct cuda_kernels {
    CUfunction norm, quantize, gated, logits, largest, heads, heads_many, heads_plain, kv_copy, merge, merge_many,
        merge_deep, attn_few, decode;
    CUfunction norm_any, xielu, head_gate, sparse_gate, layer_rows, layer_gate; /* norms.c, variants.c */
    struct {
        CUfunction route, sort, gather, gated, add;
    } experts; /* experts.c; of models that have them */
    struct {
        CUfunction conv, keep, scan, out, copy;
    } states; /* states.c; the same */
    struct {
        CUfunction heads, attn, join;
    } latent; /* latent.c; the same */
    struct {
        CUfunction begin, predict, correct, join, take, end;
    } altup;          /* altup.c */
    CUfunction alibi; /* NULL: the model has none */
    CUfunction attn[CUDA_ATTN_SIZES], attn_some[CUDA_ATTN_SIZES], attn_capped[CUDA_ATTN_SIZES];
    CUfunction attn_many[CUDA_ATTN_SIZES];                  /* or NULL */
    CUfunction near, apart;                                 /* NULL: the device has no bulk copies */
    CUfunction plain[CUDA_PLAIN_SIZES];                     /* the same of usual models: cuda_is_plain() */
    CUfunction deep_few[CUDA_PLAIN_SIZES][CUDA_DEEP_SIZES]; /* up to 2, 4 and 8 for a KV head; NULL: not f16 either */
    CUfunction deep[CUDA_PLAIN_SIZES][CUDA_DEEP_SIZES];     /* NULL for up to 2, too */
    struct cuda_kind kinds[KERN_TYPES];
};

/* Low-rank adapters: copies of the host's (cpu.lora). */
struct cuda_adapters {
    uint8_t *panels[LORA_MOST];
    struct cuda_lora_part *parts; /* [LORA_MOST][slots] */
    float *low;                   /* [CUDA_PRODUCTS][batch_tokens][rank] */
    uint32_t slots, rank;         /* of matrices; the largest of the adapters, a multiple of 16 */
    CUfunction make_low, add;
};

/* The rows of a batch that have adapters, for the kernels (lora-args.h). Places are in the notes. */
struct cuda_adapted {
    size_t order, scales, tiles;
    uint32_t n_tiles; /* 0: no row has any */
};

/* All that the kernels of a pass and their arguments depend on. */
struct cuda_shape {
    const uint8_t *notes;
    size_t tokens, table, warmth;
    size_t runs, run_of, saves, adapted[2];
    uint32_t n, n_kept, n_runs, slides, alone, picks;
    struct {
        size_t list, seen, tiles;
        uint32_t n_tiles, rows, blocks;
    } views[CUDA_VIEWS];
};

#define CUDA_GRAPHS 24 /* that are kept */
#define CUDA_GRAPH_TOKENS                                                                                              \
    64 /* most tokens of a batch with a graph: of more the kernels take longer than their starts */

struct cuda_graph {
    struct cuda_shape shape;
    CUgraphExec exec; /* NULL: none */
    float *x;         /* the residual stream behind it */
    uint64_t used;    /* when, in passes */
};

/* Bytes [from, to) of the image of the weights. */
struct cuda_weights {
    uint8_t *mem;
    size_t from, to;
};

/* The KV blocks of a group in consecutive layers, or states. A block that the host has, of all layers, has those of
 * this device from byte @at on, @bytes of each layer. */
struct cuda_kv_part {
    uint8_t *mem;           /* [layers][blocks][stride] */
    uint32_t first, layers; /* of the group; layers of states are one */
    size_t stride, bytes, at;
};

/* What a device has of the model: layers [first, end). */
struct cuda {
    struct cpu *host;         /* of the backend */
    struct cuda *next;        /* the device with the layers from end on; NULL: this one has the last layer */
    const struct cuda *model; /* of an MTP layer: the model's last device, which is the same, with weights that it
                               * borrows; else NULL */
    struct cuda_device device;
    struct cuda_kernels kern;
    uint32_t first, end;
    struct cuda_weights weights[2]; /* the second is behind the first */
    struct cuda_kv_part kv[KV_GROUPS_MAX];
    struct cuda_buffers buf;
    struct cuda_adapters adapters;
    uint32_t attn_rows, logit_rows;
    float *staging; /* [logit_rows][vocab] pinned, or NULL */
    int32_t *best;  /* [logit_rows] pinned, of the last device */
    struct cuda_notes notes;
    struct cuda_view *views; /* [CUDA_VIEWS] of the backend */
    struct cuda_graph graphs[CUDA_GRAPHS];
    uint64_t graph_clock;
    struct cuda_tables *tables; /* [batch_tokens][KV_GROUPS_MAX] of the entries; of the backend */
};

/*
 * The layers of the model are split over the devices (shares.h). A pass goes through them one after the other: each
 * computes its layers, in a stream and with graphs of its own, and all that is pending then joins the residual stream,
 * since the next device lacks the weights for it. The host waits for the last device alone. Functions of a pass see one
 * device, cuda_pass.c. A large batch is several passes, of its pieces, which overlap.
 */
struct cuda_backend {
    struct cpu host; /* first: see above */
    struct backend_ops ops;
    struct cuda devices[DEVICES_MAX];
    uint32_t n;     /* devices */
    char name[512]; /* of all */
    struct cuda_view views[CUDA_VIEWS];
    struct cuda_tables *tables;
    struct cuda_pieces pieces;
    bool pinned;        /* host.scratch.x is */
    bool tokens_given;  /* config.batch_tokens is configured */
    atomic_bool failed; /* a device has; its driver is not called any more, which might wait for ever, */
    atomic_bool alone;  /* and the host computes alone */
};

/* Marks of devices in overlapping passes. A device reaches MARK_DONE when its layers are computed; MARK_TAKEN when what
 * the one before gives is copied, so that this may compute the next piece; the first one MARK_GIVEN when all is copied
 * that the host gives. */
enum { MARK_DONE, MARK_TAKEN, MARK_GIVEN };

/* One forward, or a piece of it. */
struct cuda_pass {
    struct cuda *c;
    struct pass cpu;                /* of the same batch: its layer, KV group, … */
    uint32_t n;                     /* tokens that are computed now: all, or in the last layer those that are kept */
    uint32_t n_kept;                /* tokens of which something is wanted */
    float *x;                       /* their residual stream */
    size_t tokens, table, warmth;   /* in the notes: struct cuda_token [tokens], block tables, factors of queries */
    size_t slopes;                  /* the same: [heads] of ALiBi */
    size_t runs, run_of, saves;     /* the same: state-args.h; run_of: uint32_t [tokens] */
    uint32_t n_runs;                /* entries of the batch */
    struct cuda_adapted adapted[2]; /* of all tokens; of those that are kept */
    bool dropped;                   /* the tokens are those that are kept, */
    uint32_t first;                 /* from number @first of them on */
    size_t rows, angles[3];         /* the same: embeddings of a few tokens; angles as cs and sink_cs below */
    const float *cs[2], *sink_cs;   /* [tokens][rope_dim], of the device */
    bool slides, alone;             /* some token does; each token is the only one of its entry */
    bool overlaps, more;            /* it is a piece; there are more pieces behind it */
    bool picks;                     /* of some token the id of the largest logit is wanted */
    const struct batch_entry *of;   /* the entry of the last id that was given; how many it has got */
    uint32_t given;
    const float *bias, *post; /* of the pending result in h, or NULL */
    const float *out_scale;
    bool pending;
    bool beside;              /* buf.beside is pending too, with */
    const float *beside_bias; /* this bias, or NULL */
    bool laurel;              /* buf.altup.side is pending, too */
};

/* Weights of a norm and its bias, or NULL; those of the second one behind it, of an encoder. */
struct cuda_norm_by {
    const float *w, *bias, *second, *second_bias;
};

/* A token of the batch has an adapter. */
static inline bool cuda_is_adapted(const struct cuda_pass *p)
{
    return p->adapted[0].n_tiles > 0;
}

/* The quantized activations @a of the tokens that are computed now. */
static inline struct cuda_acts cuda_acts_of(const struct cuda_pass *p, struct cuda_acts a)
{
    a.wide = cuda_is_wide(&p->c->device, p->n);
    return a;
}

/* The device's copy of a vector or of panels of the weights; NULL: NULL. */
static inline const void *cuda_weight(const struct cuda *c, const void *p)
{
    size_t at = (size_t)((const uint8_t *)p - (const uint8_t *)c->host->weights.mem);
    if (!p) return NULL;
    if (c->model && at >= c->host->weights.table.size) {
        c = c->model;
        at = (size_t)((const uint8_t *)p - (const uint8_t *)c->host->weights.mem);
    }
    const struct cuda_weights *w = &c->weights[at >= c->weights[1].from];
    assert(at >= w->from && at < w->to);
    return w->mem + (at - w->from);
}

static inline void *cuda_note(const struct cuda *c, size_t at)
{
    return c->notes.device + at;
}

/* The model can be computed: 0; or -EOPNOTSUPP and an error message that names the first part that cannot. */
int cuda_supports(const struct gguf *g, const struct hparams *s);

/* Open the devices of the configuration, or as many as the model needs; decide which layers each of them has, and limit
 * the KV pool to what is left. 0, or -errno and the error message; x->n devices are open in both cases. */
int cuda_open_devices(struct cuda_backend *x, const struct gguf *g, const struct hparams *s,
                      struct backend_config *config);

/* Find the kernels, and allocate the buffers and the KV blocks of a device. 0, or -errno and the error message;
 * cuda_fini_buffers is allowed in both cases. */
int cuda_find_kernels(struct cuda *c);
int cuda_init_buffers(struct cuda *c);
void cuda_fini_buffers(struct cuda *c);

/* The same for what the host needs to lay out a batch. */
int cuda_init_batch(struct cuda_backend *x);
void cuda_fini_batch(struct cuda_backend *x);

/* Bytes of the buffers of @tokens tokens, and rows of partial results in them. */
size_t cuda_buffers_bytes(const struct hparams *s, uint32_t tokens, uint32_t ctx, uint32_t *attn_rows,
                          uint32_t *logit_rows);

/* As in struct backend_ops. */
int cuda_forward(struct backend *b, const struct batch_entry *e, size_t n, float *logits, float *hidden);
void cuda_kv_copy(struct backend *b, uint32_t group, uint32_t dst, uint32_t src, uint32_t tokens);
int cuda_kv_read(struct backend *b, uint32_t group, uint32_t block, void *out);
void cuda_kv_write(struct backend *b, uint32_t group, uint32_t block, const void *in);
void cuda_kv_release(struct backend *b, uint32_t group, uint32_t first, uint32_t n);
int cuda_host_alloc(struct backend *b, size_t bytes, void **out);
void cuda_host_free(struct backend *b, void *p);
int cuda_kv_save(struct backend *b, uint32_t group, uint32_t block, void *out);
int cuda_kv_saved(struct backend *b);
int cuda_recover(struct backend *b);

/* The device has failed with @r, whose message is set: returns -EIO. */
int cuda_lost(struct cuda_backend *x, int r);

/* The parts of the KV blocks that the device's layers need; nothing is allocated. */
void cuda_take_kv(struct cuda *c);

/* K and V of a layer of a group, for the kernels. */
struct cuda_kv cuda_kv_layer(const struct cuda *c, uint32_t group, uint32_t layer);

/* Write the notes of the batch, which cpu_lay_out has laid out. */
int cuda_write_notes(struct cuda_pass *p, const struct batch_entry *e, size_t n);

/* What attention needs of the heads of the pass's layer; do it. */
struct cuda_heads cuda_heads_of(const struct cuda_pass *p);
int cuda_place_heads(const struct cuda_pass *p);

/* Heads and attention of all tokens, in one kernel. cuda_decodes: it can. */
bool cuda_decodes(const struct cuda_pass *p, const struct cuda_view *view);
int cuda_decode(const struct cuda_pass *p, const struct cuda_view *view, bool quantized);

/* Attention of the tokens of @view in the pass's layer: queries -> att, quantized too if @quantized. */
int cuda_attention(struct cuda_pass *p, const struct cuda_view *view, bool quantized);

/* Queries that a tile of attention should have in the pass's layer, for @n tokens in all. */
uint32_t cuda_attention_rows(const struct cuda_pass *p, uint32_t n);

#define CUDA_MANY_WARPS  8  /* of a CTA of cuda_heads_many, cuda_heads_plain and cuda_merge_many, */
#define CUDA_MANY_TOKENS 64 /* which are used for more tokens than that */

#define CUDA_FEW_ROWS 16 /* most queries of a tile for which the kernels for few are used */

/* Find the kernels of attention. */
int cuda_find_attention(struct cuda *c);

/* All products have a kernel for the pass's only token. Start them, with what comes before them in @in. */
bool cuda_alone(const struct cuda_pass *p, const struct product *set, uint32_t n);
int cuda_multiply_alone(const struct cuda_pass *p, const struct product *set, uint32_t n, const struct cuda_one *in);

/* Some product needs f32 input. cuda_reads_plain: or an adapter that adds to it does. */
bool cuda_some_plain(const struct product *set, uint32_t n);
bool cuda_reads_plain(const struct cuda_pass *p, const struct product *set, uint32_t n);

/* Quantize the rows @x[@n][@k] to @to, as the batch's activations are. */
int cuda_quantize_rows(const struct cuda_pass *p, const float *x, uint32_t n, uint32_t k, const struct cuda_acts *to);

/* Matrices that the feed-forward's input is multiplied with: up, and gate. */
uint32_t cuda_gate_products(const struct cuda_pass *p);

/* The activation of the products @in, up and gate, which has no rows where there is none; without f and q. */
struct cuda_gated cuda_gated_of(const struct cuda *c, const struct product in[2]);

/* The products of @set that have the type of the first, for @a. Returns their number. */
uint32_t cuda_take_products(const struct cuda_pass *p, const struct product *set, uint32_t n, struct cuda_matmul *a);

/* Products of one input, @n <= CUDA_PRODUCTS: the tokens' rows of @f, or their quantized @acts -> the products' out,
 * which are addresses of the device. */
int cuda_products(const struct cuda_pass *p, const struct product *set, uint32_t n, const float *f,
                  const struct cuda_acts *acts);

/* Let the host embed the batch. The embeddings of more than a few tokens are copied to the device in pieces, each while
 * the host computes the next, and the last while it writes the notes. */
int cuda_embed_batch(struct cuda_pass *p);

/* Copy the notes and the angles of the batch, and the embeddings of a few tokens, to the device: at once, since the
 * start of a copy takes longer than the copy. */
int cuda_upload_batch(struct cuda_pass *p);

/* Copy the notes and the angles alone; where the latter are then, on the pass's device. */
int cuda_upload_notes(struct cuda_pass *p);
void cuda_find_angles(struct cuda_pass *p);

/* Let the next device continue the pass: what it needs is copied there, in its stream. */
int cuda_go_on(struct cuda_pass *p);

/* Before a piece is laid out: wait until the host's buffers are free, and let the first device wait until the next one
 * has taken what it gave of the piece before. */
int cuda_begin_piece(struct cuda *first);

/* Wait for all work of a device, which is the thread's, and of those behind it. */
int cuda_wait_all(const struct cuda *c);

/* Norm and logits of the kept tokens [first, first + n), n <= logit_rows: buf.logits, and buf.best if the pass picks.
 */
int cuda_compute_logits(const struct cuda_pass *p, uint32_t first, uint32_t n);

/* Wait for the logits of the kept tokens [first, first + n) and hand over what they want: the entries get ids, and
 * *logits, which is moved behind them, rows. */
int cuda_hand_over(struct cuda_pass *p, uint32_t first, uint32_t n, float **logits);

/* What follows the last layer: the logits and states that the kept tokens want. */
int cuda_output(struct cuda_pass *p, float *logits, float *hidden);

/* The shape of the pass. False: a pass of this kind gets no graph. */
bool cuda_graph_shape(const struct cuda_pass *p, struct cuda_shape *out);

/* Start what @compute starts: by the graph of the shape, which is made if there is none yet. */
int cuda_graph_run(struct cuda_pass *p, const struct cuda_shape *shape, int (*compute)(struct cuda_pass *p));
void cuda_forget_graphs(struct cuda *c);

/* cuda_join, and multiply @set with the result. @gated: what follows the products up and gate of one token, or NULL. */
int cuda_norm_products(struct cuda_pass *p, const struct cuda_norm_by *by, const struct product *set, uint32_t n,
                       const struct cuda_gated *gated);

/* --- norms.c --- */

/* Find its kernels. */
int cuda_find_norms(struct cuda *c);

/* The model's norms are RMSNorm without a bias, and one result of a block is pending at a time: cuda_norm. */
bool cuda_usual_norms(const struct hparams *s);

/* Start cuda_norm for @n rows. */
int cuda_start_norm(const struct cuda *c, uint32_t n, const struct cuda_norm *a);

/* What is pending joins the residual stream, and the norm @by of it is computed (@by.w NULL: the stream itself): the
 * arguments, without f and q; start them. Nothing is pending then. */
struct cuda_norm cuda_join_of(const struct cuda_pass *p, const struct cuda_norm_by *by);
int cuda_join(struct cuda_pass *p, const struct cuda_norm_by *by, const struct cuda_norm *a);

/* cuda_norms_heads: the heads of q and k of the pass's layer have a norm that cuda_heads does not. Then cuda_norm_heads
 * applies their biases and this norm, in place. */
bool cuda_norms_heads(const struct cuda_pass *p);
int cuda_norm_heads(const struct cuda_pass *p);

/* Norm the rows @x of @k values, the input of the product @out: in place, or quantized to @acts. */
int cuda_sub_norm(const struct cuda_pass *p, float *x, uint32_t k, const float *w, const struct product *out,
                  const struct cuda_acts *acts);

/* side = x + the norm @w of side; x is lost. [tokens][dim] each. */
int cuda_norm_side(const struct cuda_pass *p, float *x, float *side, const float *w);

/* --- altup.c, layer-embedding.c: as in struct pass of the CPU --- */

int cuda_find_altup(struct cuda *c);

/* The embedded tokens -> the streams; predict those of a layer; correct them, once it is computed; the streams ->
 * p->x. */
int cuda_altup_begin(struct cuda_pass *p);
int cuda_altup_predict(struct cuda_pass *p);
int cuda_altup_correct(struct cuda_pass *p);
int cuda_altup_end(struct cuda_pass *p);

/* What is pending joins the streams. */
int cuda_altup_join(struct cuda_pass *p);

/* LAuReL: the normed input buf.h of a layer and buf.altup.low -> buf.altup.side. */
int cuda_laurel(const struct cuda_pass *p);

/* Copy the table's rows of the batch's tokens to the device; the product with the embedded tokens, which are in p->x.
 */
int cuda_upload_layers(struct cuda_pass *p);
int cuda_embed_layers(struct cuda_pass *p);

/* The products of a layer's embedding: buf.h, and quantized -> buf.h. @list: where rows are of other tokens, their
 * numbers, in the notes; or NULL. */
int cuda_layer_embedding(const struct cuda_pass *p, const uint32_t *list);

/* --- variants.c: what only some architectures have --- */

/* Find its kernels. */
int cuda_find_variants(struct cuda *c);

/* buf.att times the sigmoids of the gates of queries, the input of the product @out. @list: where the rows of gates are
 * those of other tokens, their numbers, in the notes; or NULL. */
int cuda_gate_heads(const struct cuda_pass *p, const uint32_t *list, const struct product *out);

/* cuda_gated of an activation that it does not have. False: it does. */
bool cuda_activates(const struct cuda_pass *p);
int cuda_activate(const struct cuda_pass *p, const struct cuda_gated *a);

/* --- experts.c --- */

int cuda_find_experts(struct cuda *c);

/* Rows of experts, and tiles of them, that a batch of @tokens tokens has at most. */
size_t cuda_expert_rows(const struct hparams *s, size_t tokens);
size_t cuda_expert_tiles(const struct hparams *s, size_t tokens);

/* p->x -> buf.moe.route: the scores of a router that reads the residual stream before attention. */
int cuda_early_router(const struct cuda_pass *p);

/* Join what is pending, norm, and compute the layer's mixture of experts: -> buf.h. @list: where rows of scores are of
 * other tokens, their numbers, in the notes; or NULL. */
int cuda_compute_experts(struct cuda_pass *p, const uint32_t *list);

/* --- adapters.c: low-rank adapters --- */

/* As in struct backend_ops. */
int cuda_adapter_load(struct backend *b, const struct adapter *a, uint32_t *number, uint64_t *bytes);
void cuda_fini_adapters(struct cuda *c);

/* Add to the results of the products @set of @f what the tokens' adapters give. */
int cuda_add_adapters(const struct cuda_pass *p, const struct product *set, uint32_t n, const float *f);

/* --- mtp.c: the input of an MTP layer --- */

/* The embeddings on the host and the states of the entries -> buf.pairs; these -> p->x. */
int cuda_upload_pairs(struct cuda_pass *p);
int cuda_mtp_input(struct cuda_pass *p);

/* --- latent.c: latent attention --- */

int cuda_find_latent(struct cuda *c);

/* The products of a layer's input: their number. */
uint32_t cuda_latent_products(const struct cuda_pass *p, struct product set[CUDA_PRODUCTS]);

/* cuda_place_heads: these -> K's blocks, and the queries. */
int cuda_place_latent(const struct cuda_pass *p);

/* Attention of a wave, whose arguments for other models are @attn; those of the merge behind it, from the same. */
int cuda_attend_latent(const struct cuda_pass *p, const struct cuda_attn *attn, const struct cuda_wave *w);
void cuda_merge_latent(const struct cuda_pass *p, struct cuda_merge *a);

/* What the heads got -> the input of the product @out. */
int cuda_latent_values(const struct cuda_pass *p, const struct product *out);

/* --- states.c --- */

int cuda_find_states(struct cuda *c);

/* Shared memory of a scan: bytes. */
unsigned cuda_scan_bytes(const struct hparams *s);

/* The products of a recurrent layer's input: their number. */
uint32_t cuda_state_products(const struct cuda_pass *p, struct product set[RECURRENT_INPUTS]);

/* These products of all tokens -> the layer's output before its last product; the states are brought up to date. */
int cuda_scan(const struct cuda_pass *p);

/* The last product: -> buf.h. @list: where the rows are of other tokens, their numbers, in the notes; or NULL. */
int cuda_state_output(const struct cuda_pass *p, const uint32_t *list);

/* Copy the device's part of a state. */
int cuda_copy_state(const struct cuda *c, uint32_t group, uint32_t dst, uint32_t src);
