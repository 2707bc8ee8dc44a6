/* SPDX-License-Identifier: MIT */
#include "daemon/encoder/encoder-weights.h"
#include "daemon/encoder/encoder-tensors.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Older files of LLaVA call the matrix that leads to the FFN's width ffn_down, and the other one ffn_up. */
static bool swapped(const struct tensor_reader *r, uint32_t i, const struct encoder_hparams *p)
{
    char full[64];
    snprintf(full, sizeof(full), "%s.weight", tensor_in_block("v", i, "ffn_down").s);
    const struct gguf_tensor *t = gguf_find_tensor(r->g, full);
    return t && p->dim != p->ffn && t->dims[0] == p->dim;
}

/* A norm without bias. */
static void read_norm_weight(struct tensor_reader *r, struct encoder_norm *n, const char *name, uint32_t size,
                             bool need)
{
    n->w = tensor_read_vector(r, name, "weight", size, need);
    n->n = size;
}

/* A norm of Q or K, of the row or of each head. */
static void read_head_norm(struct tensor_reader *r, struct encoder_norm *n, const char *name,
                           const struct encoder_hparams *p)
{
    char full[64];
    snprintf(full, sizeof(full), "%s.weight", name);
    const struct gguf_tensor *t = gguf_find_tensor(r->g, full);
    const uint32_t head = p->dim / p->heads;
    read_norm_weight(r, n, name, t && t->dims[0] == head ? head : p->dim, false);
}

static void read_block(struct tensor_reader *r, struct encoder_block *b, uint32_t i, const struct encoder_hparams *p)
{
    bool swap = swapped(r, i, p);
    tensor_read_norm(r, &b->ln1, tensor_in_block("v", i, "ln1").s, p->dim, true);
    tensor_read_norm(r, &b->ln2, tensor_in_block("v", i, "ln2").s, p->dim, true);
    if (p->kind == ENCODER_INTERNVL) {
        read_head_norm(r, &b->q_norm, tensor_in_block("v", i, "attn_q_norm").s, p);
        read_head_norm(r, &b->k_norm, tensor_in_block("v", i, "attn_k_norm").s, p);
        b->scale1 = tensor_read_vector(r, tensor_in_block("v", i, "ls1").s, "weight", p->dim, false);
        b->scale2 = tensor_read_vector(r, tensor_in_block("v", i, "ls2").s, "weight", p->dim, false);
    }
    tensor_read_matrix(r, &b->q, tensor_in_block("v", i, "attn_q").s, p->dim, p->dim);
    tensor_read_matrix(r, &b->k, tensor_in_block("v", i, "attn_k").s, p->dim, p->dim);
    tensor_read_matrix(r, &b->v, tensor_in_block("v", i, "attn_v").s, p->dim, p->dim);
    tensor_read_matrix(r, &b->out, tensor_in_block("v", i, "attn_out").s, p->dim, p->dim);
    tensor_read_matrix(r, &b->up, tensor_in_block("v", i, swap ? "ffn_down" : "ffn_up").s, p->ffn, p->dim);
    tensor_read_matrix(r, &b->down, tensor_in_block("v", i, swap ? "ffn_up" : "ffn_down").s, p->dim, p->ffn);
    if (p->rope != ROPE_NONE && tensor_exists(r, tensor_in_block("v", i, "ffn_gate").s, "weight"))
        tensor_read_matrix(r, &b->gate, tensor_in_block("v", i, "ffn_gate").s, p->ffn, p->dim);
}

/* The product that makes one row of a square of them (Mistral Small 3.1). */
static void read_merge(struct tensor_reader *r, struct encoder_weights *w, const struct encoder_hparams *p)
{
    if (p->pool == 1 && !tensor_exists(r, "mm.patch_merger", "weight")) return;
    read_norm_weight(r, &w->before, "mm.input_norm", p->dim, true);
    tensor_read_matrix(r, &w->merge, "mm.patch_merger", p->dim, p->dim * p->pool * p->pool);
}

static void read_projector(struct tensor_reader *r, struct encoder_weights *w, struct encoder_hparams *p)
{
    const uint32_t square = p->dim * p->pool * p->pool;
    switch (p->kind) {
    case ENCODER_GEMMA3:
        read_norm_weight(r, &w->gathered, "mm.soft_emb_norm", p->dim, true);
        tensor_read_transposed(r, &w->project, "mm.input_projection", p->dim_out, p->dim);
        break;
    case ENCODER_MLP:
        tensor_skip(r, "model.image_newline"); /* llama.cpp does not use it either */
        tensor_skip(r, "v.image_newline");
        tensor_read_matrix(r, &w->project, "mm.0", 0, p->dim);
        if (!r->error && tensor_exists(r, "mm.2", "weight"))
            tensor_read_matrix(r, &w->then, "mm.2", 0, w->project.rows);
        break;
    case ENCODER_IDEFICS3:
        tensor_read_matrix(r, &w->project, "mm.model.fc", p->dim_out, square);
        break;
    case ENCODER_INTERNVL:
        tensor_read_norm(r, &w->gathered, "mm.model.mlp.0", square, true);
        tensor_read_matrix(r, &w->project, "mm.model.mlp.1", 0, square);
        tensor_read_matrix(r, &w->then, "mm.model.mlp.3", 0, w->project.rows);
        break;
    case ENCODER_PIXTRAL:
        read_merge(r, w, p);
        tensor_read_matrix(r, &w->project, "mm.1", 0, p->dim);
        tensor_read_matrix(r, &w->then, "mm.2", 0, w->project.rows);
        w->line_break = tensor_read_vector(r, "v.token_embd.img_break", "", w->then.rows, true);
        break;
    case ENCODER_LFM2:
        tensor_read_norm(r, &w->gathered, "mm.input_norm", square, false);
        tensor_read_matrix(r, &w->project, "mm.1", 0, square);
        tensor_read_matrix(r, &w->then, "mm.2", 0, w->project.rows);
        break;
    case ENCODER_QWEN2VL:
    case ENCODER_QWEN25VL:
        tensor_read_matrix(r, &w->project, "mm.0", 0, square);
        tensor_read_matrix(r, &w->then, "mm.2", 0, w->project.rows);
        break;
    }
    p->dim_out = w->then.panels ? w->then.rows : w->project.rows;
}

/* LFM2's are for a square of any size. */
static void read_positions(struct tensor_reader *r, struct encoder_weights *w, const struct encoder_hparams *p)
{
    if (p->rope != ROPE_NONE) return;
    w->side = p->kind == ENCODER_LFM2 ? (uint32_t)sqrt(tensor_rows(r, "v.position_embd")) : encoder_side(p);
    if (!w->side) w->side = 1;
    w->positions = tensor_read_floats(r, "v.position_embd", encoder_rows(w, w->side * w->side), p->dim);
}

static void read_all(struct tensor_reader *r, struct encoder_weights *w, struct encoder_hparams *p)
{
    if (p->rope == ROPE_HALVES)
        tensor_read_patch_sum(r, &w->patch, "v.patch_embd", "weight.1", p->dim, p->patch);
    else
        tensor_read_patches(r, &w->patch, "v.patch_embd", p->dim, p->patch);
    if (p->kind == ENCODER_MLP || p->kind == ENCODER_INTERNVL)
        w->class = tensor_read_vector(r, "v.class_embd", "", p->dim, p->kind == ENCODER_INTERNVL);
    read_positions(r, w, p);
    tensor_read_norm(r, &w->pre, "v.pre_ln", p->dim, false);
    tensor_read_norm(r, &w->post, "v.post_ln", p->dim, false);
    for (uint32_t i = 0; i < p->layers; i++) {
        if (i < p->blocks)
            read_block(r, &w->blocks[i], i, p);
        else
            tensor_skip(r, tensor_in_block("v", i, "").s);
    }
    read_projector(r, w, p);
    tensor_reader_end(r, MEDIA_IMAGE);
}

int encoder_weights_read(struct encoder_weights *w, struct encoder_hparams *p, const struct gguf *g)
{
    struct tensor_reader reader;
    *w = (struct encoder_weights){0};
    w->blocks = calloc(p->blocks ? p->blocks : 1, sizeof(*w->blocks));
    if (!w->blocks) return error_say(-ENOMEM, "%s: out of memory", gguf_path(g));
    w->n_blocks = p->blocks;
    int r = tensor_reader_init(&reader, g);
    if (r < 0) return r;
    read_all(&reader, w, p);
    tensor_reader_fini(&reader);
    return reader.error;
}

static void norm_fini(struct encoder_norm *n)
{
    free(n->w);
    free(n->b);
}

void encoder_weights_fini(struct encoder_weights *w)
{
    for (uint32_t i = 0; w->blocks && i < w->n_blocks; i++) {
        struct encoder_block *b = &w->blocks[i];
        struct encoder_matrix *const all[] = {&b->q, &b->k, &b->v, &b->out, &b->up, &b->gate, &b->down};
        for (size_t j = 0; j < sizeof(all) / sizeof(*all); j++) encoder_matrix_fini(all[j]);
        struct encoder_norm *const norms[] = {&b->ln1, &b->ln2, &b->q_norm, &b->k_norm};
        for (size_t j = 0; j < sizeof(norms) / sizeof(*norms); j++) norm_fini(norms[j]);
        free(b->scale1);
        free(b->scale2);
    }
    free(w->blocks);
    free(w->class);
    free(w->positions);
    free(w->line_break);
    norm_fini(&w->pre);
    norm_fini(&w->post);
    norm_fini(&w->before);
    norm_fini(&w->gathered);
    encoder_matrix_fini(&w->patch);
    encoder_matrix_fini(&w->merge);
    encoder_matrix_fini(&w->project);
    encoder_matrix_fini(&w->then);
    *w = (struct encoder_weights){0};
}
