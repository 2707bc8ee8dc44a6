/* SPDX-License-Identifier: MIT */
#include "tests/model/encoder-file.h"
#include "tests/model/model-file.h"

#include "tests/libcommon/check.h"

enum { DIM = 8, FFN = 16, EDGE = ENCODER_FILE_EDGE, PATCH = 2, ROWS = 16, POOL = 2 };

static const struct encoder_tensor gemma3[] = {
    {"v.patch_embd.weight", {PATCH, PATCH, 3, DIM}}, {"v.patch_embd.bias", {DIM, 1, 1, 1}},
    {"v.position_embd.weight", {DIM, ROWS, 1, 1}},   {"v.blk.0.ln1.weight", {DIM, 1, 1, 1}},
    {"v.blk.0.ln2.weight", {DIM, 1, 1, 1}},          {"v.blk.0.attn_q.weight", {DIM, DIM, 1, 1}},
    {"v.blk.0.attn_k.weight", {DIM, DIM, 1, 1}},     {"v.blk.0.attn_v.weight", {DIM, DIM, 1, 1}},
    {"v.blk.0.attn_out.weight", {DIM, DIM, 1, 1}},   {"v.blk.0.ffn_up.weight", {DIM, FFN, 1, 1}},
    {"v.blk.0.ffn_down.weight", {FFN, DIM, 1, 1}},   {"mm.soft_emb_norm.weight", {DIM, 1, 1, 1}},
    {"mm.input_projection.weight", {0, DIM, 1, 1}},
};

static const struct encoder_tensor qwen[] = {
    {"v.patch_embd.weight", {PATCH, PATCH, 3, DIM}},
    {"v.patch_embd.weight.1", {PATCH, PATCH, 3, DIM}},
    {"v.post_ln.weight", {DIM, 1, 1, 1}},
    {"v.blk.0.ln1.weight", {DIM, 1, 1, 1}},
    {"v.blk.0.ln2.weight", {DIM, 1, 1, 1}},
    {"v.blk.0.attn_q.weight", {DIM, DIM, 1, 1}},
    {"v.blk.0.attn_k.weight", {DIM, DIM, 1, 1}},
    {"v.blk.0.attn_v.weight", {DIM, DIM, 1, 1}},
    {"v.blk.0.attn_out.weight", {DIM, DIM, 1, 1}},
    {"v.blk.0.ffn_up.weight", {DIM, FFN, 1, 1}},
    {"v.blk.0.ffn_gate.weight", {DIM, FFN, 1, 1}},
    {"v.blk.0.ffn_down.weight", {FFN, DIM, 1, 1}},
    {"mm.0.weight", {4 * DIM, FFN, 1, 1}},
    {"mm.2.weight", {FFN, 0, 1, 1}},
};

#define TENSORS(list) .tensors = (list), .n = sizeof(list) / sizeof(*(list))

const struct encoder_file encoder_file_gemma3 = {.projector = "gemma3",
                                                 TENSORS(gemma3),
                                                 .key = "clip.vision.projector.scale_factor",
                                                 .value = POOL,
                                                 .last = "mm.input_projection"};
const struct encoder_file encoder_file_qwen = {.projector = "qwen2.5vl_merger",
                                               TENSORS(qwen),
                                               .key = "clip.vision.n_wa_pattern",
                                               .value = 2,
                                               .last = "mm.2.weight"};

static struct encoder_tensor with_dim(struct encoder_tensor t, uint32_t dim)
{
    for (int i = 0; i < 4; i++)
        if (!t.dims[i]) t.dims[i] = dim;
    return t;
}

static size_t count(const struct encoder_tensor *t)
{
    return t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
}

static void put_colors(struct buf *b, const char *key)
{
    const float half[3] = {0.5f, 0.5f, 0.5f};
    put_str(b, key);
    put_u32(b, GGUF_ARRAY);
    put_u32(b, GGUF_F32);
    put_u64(b, 3);
    assert_int_equal(buf_append(b, half, sizeof(half)), 0);
}

void encoder_file_tensors(struct buf *out, const struct encoder_tensor *t, size_t n, uint32_t dim, uint64_t seed)
{
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const struct encoder_tensor x = with_dim(t[i], dim);
        put_tensor(out, x.name, 0, at, 4, x.dims);
        at += (count(&x) * sizeof(float) + 31) / 32 * 32;
    }
    for (size_t i = 0; i < n; i++) {
        const struct encoder_tensor x = with_dim(t[i], dim);
        put_padding(out, 32);
        for (size_t j = count(&x); j; j--) {
            float v = (float)(next_random(&seed) % 1000) / 1000 - 0.4f;
            assert_int_equal(buf_append(out, &v, sizeof(v)), 0);
        }
    }
}

void encoder_file_bytes(struct buf *out, const struct encoder_file *f, uint32_t dim, uint64_t seed)
{
    put_header(out, 3, f->n, 12);
    put_key_str(out, "general.architecture", "clip");
    put_key_str(out, "clip.projector_type", f->projector);
    put_key_u32(out, "clip.vision.image_size", EDGE);
    put_key_u32(out, "clip.vision.patch_size", PATCH);
    put_key_u32(out, "clip.vision.embedding_length", DIM);
    put_key_u32(out, "clip.vision.feed_forward_length", FFN);
    put_key_u32(out, "clip.vision.block_count", 1);
    put_key_u32(out, "clip.vision.attention.head_count", 2);
    put_key_u32(out, f->key, f->value);
    put_key_f32(out, "clip.vision.attention.layer_norm_epsilon", 1e-6f);
    put_colors(out, "clip.vision.image_mean");
    put_colors(out, "clip.vision.image_std");
    encoder_file_tensors(out, f->tensors, f->n, dim, seed);
}
