/* SPDX-License-Identifier: MIT */
/* Also encoding-sound and encoding-mel: the interface, and files damaged anywhere. What is computed is compared in
 * e2e/test_encode_sounds.py. */
#include "daemon/backend/cpu/compute-pool.h"
#include "daemon/encoder/encoder-sound.h"
#include "libcommon/error.h"
#include "tests/model/encoder-file.h"
#include "tests/model/model-file.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/libcommon/check.h"

enum { DIM = 8, FFN = 16, BINS = 20, STACK = 60, ITEMS = 25, HALF = 6, OUT = 5, DAMAGED = 400 };

static const struct encoder_tensor tensors[] = {
    {"a.conv1d.1.weight", {SOUND_TAPS, BINS, DIM, 1}},
    {"a.conv1d.1.bias", {1, DIM, 1, 1}},
    {"a.conv1d.2.weight", {SOUND_TAPS, DIM, DIM, 1}},
    {"a.conv1d.2.bias", {1, DIM, 1, 1}},
    {"a.blk.0.ln1.weight", {DIM, 1, 1, 1}},
    {"a.blk.0.ln2.weight", {DIM, 1, 1, 1}},
    {"a.blk.0.attn_q.weight", {DIM, DIM, 1, 1}},
    {"a.blk.0.attn_k.weight", {DIM, DIM, 1, 1}},
    {"a.blk.0.attn_v.weight", {DIM, DIM, 1, 1}},
    {"a.blk.0.attn_out.weight", {DIM, DIM, 1, 1}},
    {"a.blk.0.ffn_up.weight", {DIM, FFN, 1, 1}},
    {"a.blk.0.ffn_down.weight", {FFN, DIM, 1, 1}},
    {"a.post_ln.weight", {DIM, 1, 1, 1}},
    {"mm.a.norm_pre.weight", {DIM * STACK, 1, 1, 1}},
    {"mm.a.mlp.1.weight", {DIM * STACK, 2 * HALF, 1, 1}},
    {"mm.a.norm_mid.weight", {HALF, 1, 1, 1}},
    {"mm.a.mlp.2.weight", {HALF, OUT, 1, 1}},
    {"a.position_embd.weight", {DIM, SOUND_ROWS, 1, 1}},
};
enum { N_TENSORS = sizeof(tensors) / sizeof(*tensors) };

static void put_keys(struct buf *b)
{
    put_key_str(b, "general.architecture", "clip");
    put_key_str(b, "clip.projector_type", "ultravox");
    put_str(b, "clip.has_audio_encoder");
    put_u32(b, GGUF_BOOL);
    assert_int_equal(buf_append(b, "\1", 1), 0);
    put_key_u32(b, "clip.audio.num_mel_bins", BINS);
    put_key_u32(b, "clip.audio.embedding_length", DIM);
    put_key_u32(b, "clip.audio.feed_forward_length", FFN);
    put_key_u32(b, "clip.audio.block_count", 1);
    put_key_u32(b, "clip.audio.attention.head_count", 2);
    put_key_u32(b, "clip.audio.projector.stack_factor", STACK);
    put_key_f32(b, "clip.audio.attention.layer_norm_epsilon", 1e-5f);
}

/* A file of random weights. */
static void make(struct buf *b)
{
    put_header(b, 3, N_TENSORS, 10);
    put_keys(b);
    encoder_file_tensors(b, tensors, N_TENSORS, 0, 1);
}

static int open_bytes(struct encoder **e, const void *bytes, size_t n, const struct encoder_config *config)
{
    char *path = model_file_write(bytes, n);
    int r = encoder_open(e, path, config);
    if (r < 0) assert_ptr_equal(strstr(error_text(r), path), error_text(r));
    unlink(path);
    free(path);
    return r;
}

static struct encoder *open_whole(void)
{
    struct buf b = BUF_INIT;
    struct encoder *e = NULL;
    make(&b);
    int r = open_bytes(&e, b.data, b.len, NULL);
    if (r < 0) fail_msg("%s", error_text(r));
    buf_fini(&b);
    return e;
}

static float *sound(size_t n)
{
    float *s = malloc(n * sizeof(*s));
    uint64_t seed = n;
    assert_non_null(s);
    for (size_t i = 0; i < n; i++) s[i] = (float)(next_random(&seed) % 1000) / 1000 - 0.5f;
    return s;
}

/* Returns the number of steps, or what the last one returned. @out [items][OUT] may be NULL. */
static int encode(const struct encoder *e, size_t n, struct compute_pool *pool, float *out)
{
    float *s = sound(n);
    struct encoder_plan plan;
    struct encoding *x = NULL;
    int r, steps = 0;
    assert_int_equal(encoder_plan_sound(e, n, &plan), 0);
    assert_int_equal(encoding_new_sound(&x, e, s, n), 0);
    do {
        assert_null(encoding_result(x));
        assert_true(++steps < 10000);
    } while ((r = encoding_step(x, pool)) > 0);
    assert_non_null(encoding_result(x));
    assert_int_equal(encoding_step(x, pool), r); /* done stays done */
    if (r == 0 && out) memcpy(out, encoding_result(x), sizeof(float) * plan.items * encoder_dim(e));
    encoding_free(x);
    free(s);
    return r < 0 ? r : steps;
}

static uint32_t chunks(const struct encoder *e, uint64_t samples)
{
    struct encoder_plan p;
    assert_int_equal(encoder_plan_sound(e, samples, &p), 0);
    assert_int_equal(p.items, p.chunks * ITEMS);
    assert_int_equal(p.tile_items, ITEMS);
    assert_int_equal(p.width, 0);
    return p.chunks;
}

static void test_plan(void **state)
{
    struct encoder *e = open_whole();
    struct encoder_plan p;
    assert_string_equal(encoder_projector(e), "ultravox");
    assert_int_equal(encoder_takes(e), MEDIA_SOUND);
    assert_int_equal(encoder_dim(e), OUT);
    assert_int_equal(chunks(e, 1), 1);
    assert_int_equal(chunks(e, 479839), 1);
    assert_int_equal(chunks(e, 479840), 2); /* as llama.cpp has it */
    assert_int_equal(chunks(e, 45 * 16000), 2);
    assert_int_equal(chunks(e, 60 * 16000), 3);
    assert_int_equal(chunks(e, (uint64_t)MEDIA_SECONDS_MAX * MEDIA_RATE), 61);
    assert_int_equal(encoder_plan_sound(e, 0, &p), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "a sound of 0 s has no samples");
    assert_int_equal(encoder_plan_sound(e, MEDIA_SAMPLES_MAX + 1, &p), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "a sound of 1802 s is over 1800 s");
    encoder_close(e);
}

static void test_images_are_refused(void **state)
{
    struct encoder *e = open_whole();
    struct encoder_plan p;
    struct encoding *x = NULL;
    const uint8_t pixel[3] = {0};
    assert_int_equal(encoder_plan(e, 1, 1, &p), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "the encoder takes sounds, not images");
    assert_int_equal(encoding_new(&x, e, pixel, 1, 1), -EINVAL);
    assert_null(x);
    assert_int_equal(encoder_fits(e, 7, false), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "the sound encoder makes embeddings of 5 values, the model takes 7: it is "
                                             "for another model");
    encoder_close(e);
}

static void test_samples_that_are_no_numbers(void **state)
{
    struct encoder *e = open_whole();
    static const float bad[] = {NAN, INFINITY, -2e6f};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct encoding *x = NULL;
        float samples[500] = {[300] = bad[i]};
        assert_int_equal(encoding_new_sound(&x, e, samples, 500), -EINVAL);
        assert_string_equal(error_text(-EINVAL), "a sample of the sound is no number, or too large");
        assert_null(x);
    }
    encoder_close(e);
}

/* Without a pool, and with another one for each sound. */
static void test_pools_and_lengths(void **state)
{
    struct encoder *e = open_whole();
    static const size_t lengths[] = {1, 159, 160, 201, 16000, 479840};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        float alone[2 * ITEMS * OUT] = {0}, shared[2 * ITEMS * OUT] = {0};
        struct compute_pool *pool = NULL;
        int steps = encode(e, lengths[i], NULL, alone);
        assert_true(steps >= 6); /* one for each stage */
        assert_int_equal(compute_pool_new(&pool, 1 + (uint32_t)i % 3), 0);
        assert_int_equal(encode(e, lengths[i], pool, shared), steps);
        assert_memory_equal(alone, shared, sizeof(alone));
        compute_pool_free(pool);
    }
    encoder_close(e);
}

/* What a file with both encoders, or with none of the one that is meant, gives. */
static void test_which_encoder(void **state)
{
    struct buf b = BUF_INIT;
    struct encoder *e = NULL;
    make(&b);
    assert_int_equal(open_bytes(&e, b.data, b.len, &(struct encoder_config){.takes = MEDIA_IMAGE}), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), ": this encoder takes sounds, not images"));
    assert_int_equal(open_bytes(&e, b.data, b.len, &(struct encoder_config){.takes = MEDIA_SOUND}), 0);
    e = encoder_close(e);
    memcpy(b.data + model_file_find(&b, "clip.has_audio_encoder"), "clip.has_xudio_encoder", 22);
    assert_int_equal(open_bytes(&e, b.data, b.len, &(struct encoder_config){.takes = MEDIA_SOUND}), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), ": this encoder takes images, not sounds"));
    assert_int_equal(open_bytes(&e, b.data, b.len, NULL), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "projector type 'ultravox' is not supported; supported: gemma3"));
    buf_fini(&b);
}

/* Files cut anywhere and with bytes changed anywhere are refused, or encode. */
static void test_damaged_files(void **state)
{
    struct buf whole = BUF_INIT;
    uint64_t random = 7;
    int opened = 0, refused = 0;
    make(&whole);
    const size_t head = model_file_find(&whole, "a.position_embd") + 60;
    uint8_t *copy = malloc(whole.len);
    assert_non_null(copy);
    for (int i = 0; i < DAMAGED; i++) {
        struct encoder *e = NULL;
        size_t n = whole.len;
        memcpy(copy, whole.data, n);
        if (i % 8 == 0) n = next_random(&random) % n;
        for (uint32_t k = next_random(&random) % 3 + (i % 8 ? 1 : 0); k; k--) {
            size_t at = next_random(&random) % (k % 4 ? head : whole.len);
            copy[at] = (uint8_t)(next_random(&random) % 2 ? next_random(&random) : copy[next_random(&random) % head]);
        }
        if (open_bytes(&e, copy, n, NULL) == 0 && encoder_takes(e) == MEDIA_SOUND) {
            opened++;
            int r = encode(e, 1000, NULL, NULL);
            assert_true(r > 0 || r == -EINVAL);
        } else {
            refused++;
        }
        encoder_close(e);
    }
    assert_true(opened > DAMAGED / 50 && refused > DAMAGED / 4);
    free(copy);
    buf_fini(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_images_are_refused),
        cmocka_unit_test(test_samples_that_are_no_numbers),
        cmocka_unit_test(test_pools_and_lengths),
        cmocka_unit_test(test_which_encoder),
        cmocka_unit_test(test_damaged_files),
    };
    return cmocka_run_group_tests_name("encoder-sound", tests, NULL, NULL);
}
