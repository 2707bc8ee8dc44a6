/* SPDX-License-Identifier: MIT */
/* Loading a draft model beside a model: its part of the KV memory, and too little memory. */
#include "daemon/request/draft-model.h"
#include "libcommon/error.h"
#include "tests/engine/harness.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BLOCK (2ull * 2 * 32 * 2 * 16 * 2) /* bytes of a block of the tiny model: 2 layers, 2 heads of 16, F16 */

static uint64_t available; /* 0: as it is */

uint64_t __real_cgroup_memory_available(const char *root);
uint64_t __wrap_cgroup_memory_available(const char *root);

uint64_t __wrap_cgroup_memory_available(const char *root)
{
    return available ? available : __real_cgroup_memory_available(root);
}

struct draft_file {
    struct tiny tiny;
    char path[64];
};

static void write_draft(struct draft_file *f)
{
    snprintf(f->path, sizeof(f->path), "/tmp/hob-draft-XXXXXX");
    int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(tiny_write(&f->tiny, f->path), 0);
}

/* The tiny model with the draft model @f and @kv_bytes of KV. */
static int load(struct loaded *m, struct draft_file *f, uint64_t kv_bytes)
{
    struct engine_config c;
    struct tiny t;
    tiny_init(&t);
    engine_config_init(&c);
    write_draft(f);
    c.speculation.draft = f->path;
    c.kv_bytes = kv_bytes;
    c.parallel = 2;
    int r = harness_load(m, &t, &c);
    unlink(f->path);
    return r;
}

static struct draft_file tiny_draft(uint64_t seed)
{
    struct draft_file f;
    tiny_init(&f.tiny);
    f.tiny.seed = seed;
    return f;
}

static void test_memory_is_shared(void **state)
{
    struct loaded m;
    struct draft_file f = tiny_draft(2);
    static const struct {
        uint32_t layers;
        uint64_t blocks, model, draft; /* of all, in blocks of the model; then blocks of each */
    } cases[] = {
        {2, 40, 30, 10},   /* a quarter at most */
        {1, 40, 30, 20},   /* smaller ones */
        {2, 1000, 968, 32} /* two sequences of 512 tokens */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        f.tiny.layers = cases[i].layers;
        assert_int_equal(load(&m, &f, cases[i].blocks * BLOCK), 0);
        assert_non_null(m.draft);
        assert_int_equal(m.backend->kv_blocks[0], cases[i].model);
        assert_int_equal(m.draft->backend->kv_blocks[0], cases[i].draft);
        uint64_t draft = m.draft->backend->config.kv_bytes;
        assert_true(draft <= cases[i].blocks * BLOCK / 4);
        assert_true(m.backend->config.kv_bytes + draft <= cases[i].blocks * BLOCK);
        assert_int_equal(m.draft->backend->config.threads, 1);
        assert_ptr_equal(m.draft->backend->ops->compute_pool(m.draft->backend),
                         m.backend->ops->compute_pool(m.backend));
        loaded_fini(&m);
    }
}

static void test_without_memory_it_is_left_out(void **state)
{
    struct loaded m;
    struct draft_file f = tiny_draft(3);
    assert_int_equal(load(&m, &f, 3 * BLOCK), 0); /* a quarter is less than a block */
    assert_null(m.draft);
    assert_int_equal(m.backend->kv_blocks[0], 3); /* which the model has, then */
    loaded_fini(&m);
    available = 1000;
    assert_int_equal(load(&m, &f, 40 * BLOCK), 0);
    assert_null(m.draft);
    loaded_fini(&m);
    available = 0;
    assert_int_equal(load(&m, &f, 40 * BLOCK), 0);
    assert_non_null(m.draft);
    loaded_fini(&m);
}

/* Make the last token of the file unused. */
static void leave_unused(const char *path)
{
    static const char key[] = "tokenizer.ggml.token_type"; /* then two types, the number of tokens, these */
    static char bytes[1 << 20];
    uint64_t n;
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    const size_t len = fread(bytes, 1, sizeof(bytes), f);
    char *at = memmem(bytes, len, key, strlen(key));
    assert_non_null(at);
    at += strlen(key) + 8;
    memcpy(&n, at, sizeof(n));
    assert_int_equal(fseek(f, at + 8 + 4 * (n - 1) - bytes, SEEK_SET), 0);
    assert_int_equal(fwrite(&(int32_t){5}, 4, 1, f), 1);
    assert_int_equal(fclose(f), 0);
}

/* The vocabularies may differ by unused tokens at the end. It proposes none that the model lacks. */
static void test_tokens_of_the_draft_model_alone(void **state)
{
    static const char *const more[] = {"<|more|>", NULL};
    struct loaded m;
    struct draft_model *d;
    struct draft_file same = tiny_draft(7), f = tiny_draft(8);
    assert_int_equal(load(&m, &same, 40 * BLOCK), 0);
    f.tiny.controls = more;
    write_draft(&f);
    leave_unused(f.path);
    assert_int_equal(draft_model_open(&d, f.path, m.tokenizer), 0);
    assert_int_equal(d->vocab, tokenizer_vocab(m.tokenizer));
    assert_int_equal(d->hparams.vocab, d->vocab + 1);
    draft_model_free(d);
    unlink(f.path);
    loaded_fini(&m);
}

static void test_another_model_is_refused(void **state)
{
    static const char *const more[] = {"<|more|>", NULL};
    struct loaded m;
    struct draft_file f = tiny_draft(4);
    f.tiny.controls = more;
    assert_int_equal(load(&m, &f, 40 * BLOCK), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "draft model: /tmp/hob-draft-"));
    assert_non_null(strstr(error_text(-EINVAL), "'<|more|>'"));
    f = tiny_draft(5);
    f.tiny.arch = "mamba";
    assert_int_equal(load(&m, &f, 40 * BLOCK), -EOPNOTSUPP);
    assert_non_null(strstr(error_text(-EOPNOTSUPP), "/tmp/hob-draft-"));
    f = tiny_draft(6);
    f.tiny.arch = "lfm2";
    assert_int_equal(load(&m, &f, 40 * BLOCK), -EOPNOTSUPP);
    assert_non_null(strstr(error_text(-EOPNOTSUPP), "recurrent"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_shared),
        cmocka_unit_test(test_without_memory_it_is_left_out),
        cmocka_unit_test(test_tokens_of_the_draft_model_alone),
        cmocka_unit_test(test_another_model_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
