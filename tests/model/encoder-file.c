/* SPDX-License-Identifier: MIT */
#include "tests/model/encoder-file.h"
#include "tests/model/model-file.h"

#include "tests/libcommon/check.h"

enum { DIM = 8, FFN = 16, EDGE = 8, PATCH = 2, ROWS = 16, POOL = 2 };

struct tensor {
    const char *name;
    uint64_t dims[4]; /* 0: the values of an embedding */
};

static const struct tensor tensors[] = {
    {"v.patch_embd.weight", {PATCH, PATCH, 3, DIM}}, {"v.patch_embd.bias", {DIM, 1, 1, 1}},
    {"v.position_embd.weight", {DIM, ROWS, 1, 1}},   {"v.blk.0.ln1.weight", {DIM, 1, 1, 1}},
    {"v.blk.0.ln2.weight", {DIM, 1, 1, 1}},          {"v.blk.0.attn_q.weight", {DIM, DIM, 1, 1}},
    {"v.blk.0.attn_k.weight", {DIM, DIM, 1, 1}},     {"v.blk.0.attn_v.weight", {DIM, DIM, 1, 1}},
    {"v.blk.0.attn_out.weight", {DIM, DIM, 1, 1}},   {"v.blk.0.ffn_up.weight", {DIM, FFN, 1, 1}},
    {"v.blk.0.ffn_down.weight", {FFN, DIM, 1, 1}},   {"mm.soft_emb_norm.weight", {DIM, 1, 1, 1}},
    {"mm.input_projection.weight", {0, DIM, 1, 1}},
};
enum { N_TENSORS = sizeof(tensors) / sizeof(*tensors) };

static struct tensor tensor_at(int i, uint32_t dim)
{
    struct tensor t = tensors[i];
    if (!t.dims[0]) t.dims[0] = dim;
    return t;
}

static size_t count(const struct tensor *t)
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

void encoder_file_bytes(struct buf *b, uint32_t dim, uint64_t seed)
{
    put_header(b, 3, N_TENSORS, 12);
    put_key_str(b, "general.architecture", "clip");
    put_key_str(b, "clip.projector_type", "gemma3");
    put_key_u32(b, "clip.vision.image_size", EDGE);
    put_key_u32(b, "clip.vision.patch_size", PATCH);
    put_key_u32(b, "clip.vision.embedding_length", DIM);
    put_key_u32(b, "clip.vision.feed_forward_length", FFN);
    put_key_u32(b, "clip.vision.block_count", 1);
    put_key_u32(b, "clip.vision.attention.head_count", 2);
    put_key_u32(b, "clip.vision.projector.scale_factor", POOL);
    put_key_f32(b, "clip.vision.attention.layer_norm_epsilon", 1e-6f);
    put_colors(b, "clip.vision.image_mean");
    put_colors(b, "clip.vision.image_std");
    uint64_t at = 0;
    for (int i = 0; i < N_TENSORS; i++) {
        const struct tensor x = tensor_at(i, dim);
        put_tensor(b, x.name, 0, at, 4, x.dims);
        at += (count(&x) * sizeof(float) + 31) / 32 * 32;
    }
    for (int i = 0; i < N_TENSORS; i++) {
        const struct tensor x = tensor_at(i, dim);
        put_padding(b, 32);
        for (size_t j = count(&x); j; j--) {
            float v = (float)(next_random(&seed) % 1000) / 1000 - 0.4f;
            assert_int_equal(buf_append(b, &v, sizeof(v)), 0);
        }
    }
}
