/* SPDX-License-Identifier: MIT */
/*
 * The CUDA backend when the driver fails: with the library of fake-cuda.c, each call of a start in turn, and each call
 * of a step, with one device and with two that share the layers. What was allocated is freed, the message names what is
 * wrong, and after recover the CPU's bits come. Without a GPU; tests/e2e/test_gpu.py does the same with a whole daemon.
 */
#include "daemon/backend/cuda/driver.h"
#include "daemon/model/adapter.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "tests/backend/backend-seq.h"
#include "tests/support/lora-file.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LENGTH 80
#define CHUNK  70

static void (*fake_set)(const char *), (*fake_forget)(void);
static long (*fake_live)(void), (*fake_calls)(void);
static struct gguf *g;

/* A model in F32. */
static struct gguf *open_tiny(uint32_t ctx, uint32_t layers, uint32_t ffn)
{
    struct buf b = BUF_INIT;
    struct gguf *out;
    struct tiny t;
    tiny_init(&t);
    t.ctx = ctx, t.layers = layers, t.ffn = ffn, t.type = 0;
    model_file_tiny_bytes(&b, &t);
    assert_int_equal(model_file_open(&out, b.data, b.len), 0);
    buf_fini(&b);
    return out;
}

static int setup(void **state)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    struct buf b = BUF_INIT;
    struct tiny t;
    if (!library || !(*(void **)&fake_set = dlsym(library, "fake_cuda_set"))) return -1;
    *(void **)&fake_live = dlsym(library, "fake_cuda_live");
    *(void **)&fake_calls = dlsym(library, "fake_cuda_calls");
    *(void **)&fake_forget = dlsym(library, "fake_cuda_forget");
    tiny_init(&t);
    model_file_tiny_bytes(&b, &t);
    int r = model_file_open(&g, b.data, b.len);
    buf_fini(&b);
    return r;
}

static int teardown(void **state)
{
    gguf_close(g);
    return 0;
}

static struct device_choice devices = {DEVICE_CUDA, 0, {0}}; /* the first one, or more if they are needed */
static uint32_t tokens = 128, chunk = CHUNK;                 /* of a batch at most; those that run() computes at once */
static const struct device_choice first = {DEVICE_CUDA, 0, {0}}, two = {DEVICE_CUDA, 2, {0, 1}};

static int open_backend(struct backend **out, const char *backend)
{
    struct backend_config c = {.backend = backend,
                               .device = devices,
                               .threads = 1,
                               .ctx = 2 * tokens,
                               .kv_type = KERN_KV_F32,
                               .kv_bytes = 4 << 20,
                               .batch_tokens = tokens};
    return backend_new(out, g, &c);
}

static void refused(const char *settings, int expected, const char *part)
{
    struct backend *b = NULL;
    fake_set(settings);
    const int r = open_backend(&b, "cuda");
    if (r != expected) print_error("%s: %d\n", settings, r);
    assert_int_equal(r, expected);
    if (!strstr(error_text(r), part)) fail_msg("%s: \"%s\" has no \"%s\"", settings, error_text(r), part);
    assert_null(b);
    if (!strncmp(settings, "fail=", 5)) fake_forget(); /* a lost device frees nothing */
    assert_int_equal(fake_live(), 0);
}

/* The driver is opened once in a process, so its own failures come first. */
static void test_the_driver(void **state)
{
    refused("fail=cuInit:1:100", -ENODEV, "the CUDA driver does not start: the fake driver fails");
    refused("fail=cuDeviceGetCount:1:999", -ENODEV, "does not start");
    refused("version=11080", -ENODEV, "too old: it has CUDA 11.8");
    refused("devices=0", -ENODEV, "finds no device");
    refused("major=7", -ENODEV, "fake, sm_70: too old");
    refused("fail=cuDevicePrimaryCtxRetain:1:46", -EIO, "fake, sm_90: cannot be used: the fake driver fails");
    refused("fail=cuModuleLoadData:3:222", -EIO, "fake, sm_90: cannot load the kernels: ");
    refused("memory=1", -ENOMEM, "MiB are free");
    refused("fail1=cuModuleLoadData:3:222", -EIO, "cannot load the kernels");
    refused("fail1=cuMemAlloc:1:2", -ENOMEM, "for the weights");
    refused("fail1=cuMemAlloc:2:2", -ENOMEM, "for the buffers of a step");
    refused("fail1=cuMemAlloc:3:2", -ENOMEM, "for the KV pool");
}

/* Whatever fails at a start, once: an error or a backend, and nothing stays allocated. */
static void each_call_of_a_start(const char *some)
{
    long calls, made = 0;
    struct backend *b = NULL;
    fake_set(some);
    assert_int_equal(open_backend(&b, "cuda"), 0);
    calls = fake_calls();
    b = backend_free(b);
    assert_int_equal(fake_live(), 0);
    assert_true(calls > 50);
    for (long n = 1; n <= calls; n++) {
        char settings[64];
        snprintf(settings, sizeof(settings), "%s,fail1=any:%ld:%d", some, n, n % 2 ? 700 : 2);
        fake_set(settings);
        int r = open_backend(&b, "cuda");
        assert_true(r == 0 || r == -ENODEV || r == -EIO || r == -ENOMEM);
        if (r) assert_true(*error_text(r));
        made += r == 0;
        b = r ? NULL : backend_free(b);
        if (fake_live()) fail_msg("%s: %ld things stay", settings, fake_live());
    }
    assert_true(made < calls * 3 / 4); /* pinned memory is the speed's alone, and any module has a kernel of any name */
}

static void test_each_call_of_a_start(void **state)
{
    each_call_of_a_start("devices=1");
    devices = two;
    each_call_of_a_start("devices=2");
    devices = first;
}

/* Compute @s up to its end: many tokens without a graph, then few with one. */
static int run(struct backend *b, struct backend_seq *s)
{
    int r = 0;
    for (uint32_t n; !r && (n = s->n - s->done); s->done += n) {
        if (n > chunk) n = chunk;
        struct batch_entry e = backend_seq_entry(s, n);
        memset(s->want, WANT_LOGITS, s->n);
        r = b->ops->forward(b, &e, 1, s->logits + (size_t)s->done * s->vocab, NULL);
    }
    return r;
}

/* The same. -EIO: the device has failed, and the CPU goes on from the beginning. */
static bool compute(struct backend *b, struct backend_seq *s)
{
    int r = run(b, s);
    if (!r) return false;
    assert_int_equal(r, -EIO);
    assert_true(strstr(error_text(r), "fake") != NULL);
    assert_int_equal(b->ops->recover(b), 0);
    s->done = 0;
    assert_int_equal(run(b, s), 0);
    return true;
}

/* A device that is lost at each call of some steps: after it, the CPU's logits and blocks. */
static void each_call_of_a_step(const char *some)
{
    struct backend *cpu, *b;
    struct backend_seq want, s;
    long start, all, lost = 0;
    assert_int_equal(open_backend(&cpu, "cpu"), 0);
    backend_seq_init(&want, cpu, LENGTH, 5, 0);
    backend_seq_run(cpu, &want, 20);
    fake_set(some);
    assert_int_equal(open_backend(&b, "cuda"), 0);
    start = fake_calls();
    backend_seq_init(&s, b, LENGTH, 5, 0);
    assert_int_equal(run(b, &s), 0);
    all = fake_calls();
    backend_seq_fini(&s);
    backend_free(b);
    assert_true(all > start + 20);
    for (long n = start + 1; n <= all; n++) {
        char settings[64];
        snprintf(settings, sizeof(settings), "%s,fail=any:%ld:700", some, n);
        fake_set(settings);
        assert_int_equal(open_backend(&b, "cuda"), 0);
        backend_seq_init(&s, b, LENGTH, 5, 0);
        if (compute(b, &s)) {
            lost++;
            backend_seq_same_logits(&want, &s);
            assert_string_equal(b->isa, cpu->isa);
        }
        backend_seq_fini(&s);
        backend_free(b);
    }
    assert_true(lost >= all - start - 2);
    backend_seq_fini(&want);
    backend_free(cpu);
}

static void test_each_call_of_a_step(void **state)
{
    each_call_of_a_step("devices=1");
    devices = two;
    each_call_of_a_step("devices=2");
    devices = first;
}

/* Errors name the device. */
static void test_two_devices(void **state)
{
    struct backend *b = NULL;
    devices = two;
    refused("devices=1", -ENODEV, "cuda:1: there is no CUDA device 1; there are 1");
    refused("devices=2,memory=600", -ENOMEM, "fake, sm_90, cuda:0: layers 0 to 0 and the buffers need ");
    refused("devices=2,fail1=cuModuleLoadData:30:222", -EIO, "cuda:1: fake, sm_90: cannot load the kernels: ");
    refused("devices=2,fail1=cuMemAlloc:2:2", -ENOMEM, "fake, sm_90, cuda:0: no device memory for the weights");
    refused("devices=2,fail1=cuMemAlloc:7:2", -ENOMEM, "fake, sm_90, cuda:1: no device memory for the buffers");
    fake_set("devices=2");
    assert_int_equal(open_backend(&b, "cuda"), 0);
    assert_string_equal(b->isa, "fake, sm_90 (cuda:0,1)");
    b = backend_free(b);
    devices.number[0] = 3, devices.number[1] = 1;
    fake_set("devices=4");
    assert_int_equal(open_backend(&b, "cuda"), 0);
    assert_string_equal(b->isa, "fake, sm_90 (cuda:3,1)");
    backend_free(b);
    assert_int_equal(fake_live(), 0);
    devices = first;
}

#define PIECES 1100 /* tokens of a batch in pieces */
#define SOME   12

/* A device that is lost at some calls of a step whose pieces overlap. */
static void test_some_calls_of_pieces(void **state)
{
    struct backend *cpu, *b;
    struct backend_seq want, s;
    struct gguf *usual = g;
    long start, all;
    tokens = chunk = PIECES, devices = two, g = open_tiny(2 * PIECES, 2, 96);
    assert_int_equal(open_backend(&cpu, "cpu"), 0);
    backend_seq_init(&want, cpu, PIECES, 5, 0);
    backend_seq_run(cpu, &want, 500);
    fake_set("devices=2");
    assert_int_equal(open_backend(&b, "cuda"), 0);
    start = fake_calls();
    backend_seq_init(&s, b, PIECES, 5, 0);
    assert_int_equal(run(b, &s), 0);
    all = fake_calls();
    backend_seq_fini(&s);
    backend_free(b);
    for (long i = 0; i < SOME; i++) {
        char settings[64];
        snprintf(settings, sizeof(settings), "devices=2,fail=any:%ld:700",
                 start + 1 + (all - start - 1) * i / (SOME - 1));
        fake_set(settings);
        assert_int_equal(open_backend(&b, "cuda"), 0);
        backend_seq_init(&s, b, PIECES, 5, 0);
        assert_true(compute(b, &s));
        backend_seq_same_logits(&want, &s);
        backend_seq_fini(&s);
        backend_free(b);
    }
    backend_seq_fini(&want);
    backend_free(cpu);
    gguf_close(g);
    fake_forget();
    tokens = 128, chunk = CHUNK, devices = first, g = usual;
}

/* A start with so many devices that have @mib MiB each: 0 or -ENOMEM. */
static int start_with(uint32_t n, uint32_t mib, struct backend **out)
{
    char settings[64];
    snprintf(settings, sizeof(settings), "devices=%u,memory=%u", n, mib);
    fake_set(settings);
    return open_backend(out, "cuda");
}

/* The second device has no memory at all: the first one's message counts. */
static void with_a_full_one(uint32_t mib)
{
    char settings[64];
    struct backend *b;
    snprintf(settings, sizeof(settings), "devices=3,full=1,memory=%u", mib);
    fake_set(settings);
    assert_int_equal(open_backend(&b, "cuda"), -ENOMEM);
    assert_non_null(strstr(error_text(-ENOMEM), "fake, sm_90: the weights and buffers"));
}

/* Without a number a model gets as many devices as it needs: 8 layers of 6 MiB, which the first one has just no room
 * for, or for half of them. */
static void test_as_many_as_needed(void **state)
{
    static const char *const names[] = {"fake, sm_90", "fake, sm_90 (cuda:0,1)", "fake, sm_90 (cuda:0,1,2)"};
    static const uint32_t less[] = {0, 1, 26};
    struct gguf *usual = g;
    struct backend *b = NULL;
    uint32_t few = 0, many = 4096;
    g = open_tiny(512, 8, 8192);
    while (few + 1 < many) { /* the least memory with which one device is enough */
        const uint32_t half = (few + many) / 2;
        int r = start_with(1, half, &b);
        assert_true(r == 0 || r == -ENOMEM);
        *(r ? &few : &many) = half;
        b = r ? NULL : backend_free(b);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(start_with(4, many - less[i], &b), 0);
        assert_string_equal(b->isa, names[i]);
        b = backend_free(b);
    }
    assert_int_equal(start_with(1, many - 1, &b), -ENOMEM);
    with_a_full_one(many - 26);
    assert_int_equal(start_with(2, many - 45, &b), -ENOMEM);
    assert_non_null(strstr(error_text(-ENOMEM), "fake, sm_90, cuda:"));
    assert_int_equal(fake_live(), 0);
    gguf_close(g);
    g = usual;
}

static struct adapter *make_adapter(void)
{
    struct lora_file l;
    struct buf bytes = BUF_INIT;
    struct adapter *a = NULL;
    lora_file_init(&l);
    assert_int_equal(lora_file_bytes(&bytes, &l, g), 0);
    _cleanup_(freep) char *path = model_file_write(bytes.data, bytes.len);
    assert_int_equal(adapter_open(&a, path, g), 0);
    unlink(path);
    buf_fini(&bytes);
    return a;
}

/* Whatever fails while an adapter is loaded: it is not there, and the next one gets its number. */
static void test_each_call_of_an_adapter(void **state)
{
    struct adapter *a = make_adapter();
    long calls = 100, refused = 0;
    fake_forget(); /* what tests before lost */
    devices = two;
    for (long n = 0; n <= calls; n++) { /* 0: none fails */
        struct backend *b;
        uint32_t number = 0;
        uint64_t bytes;
        char settings[64];
        fake_set("devices=2");
        assert_int_equal(open_backend(&b, "cuda"), 0);
        snprintf(settings, sizeof(settings), "devices=2,fail1=any:%ld:%d", n, n % 2 ? 700 : 2);
        fake_set(settings);
        int r = b->ops->adapter_load(b, a, &number, &bytes);
        if (!n) calls = fake_calls();
        assert_true(r == 0 || (n && (r == -EIO || r == -ENOMEM)));
        if (r) assert_non_null(strstr(error_text(r), "fake"));
        if (r) assert_int_equal(b->ops->adapter_load(b, a, &number, &bytes), 0);
        assert_int_equal(number, 1);
        refused += r != 0;
        backend_free(b);
        if (fake_live()) fail_msg("%s: %ld things stay", settings, fake_live());
    }
    assert_true(refused > 10);
    devices = first;
    adapter_close(a);
}

/* A device that fails leaves the adapters to the CPU. */
static void test_an_adapter_that_stays(void **state)
{
    struct adapter *a = make_adapter();
    struct backend *b[2];
    struct backend_seq s[2];
    fake_set("");
    for (int i = 0; i < 2; i++) {
        uint32_t number = 0;
        uint64_t bytes;
        assert_int_equal(open_backend(&b[i], i ? "cuda" : "cpu"), 0);
        assert_int_equal(b[i]->ops->adapter_load(b[i], a, &number, &bytes), 0);
        backend_seq_init(&s[i], b[i], LENGTH, 5, 0);
        s[i].adapter = number, s[i].adapter_scale = 0.5f;
    }
    fake_set("fail=cuStreamSynchronize:1:700");
    backend_seq_run(b[0], &s[0], 20);
    assert_true(compute(b[1], &s[1]));
    backend_seq_same_logits(&s[0], &s[1]);
    for (int i = 0; i < 2; i++) backend_seq_fini(&s[i]), backend_free(b[i]);
    fake_forget(); /* a lost device frees nothing */
    adapter_close(a);
}

/* The device fails while the layer computes, or the model: both go on without it, and call it no more. */
static void fail_together(struct backend *model, struct backend *layer, const struct batch_entry *e, float *logits,
                          bool by_model)
{
    struct backend_seq s;
    if (by_model) backend_seq_init(&s, model, LENGTH, 5, 0);
    fake_set("fail=cuStreamSynchronize:1:700");
    if (by_model) {
        assert_true(compute(model, &s));
        backend_seq_fini(&s);
    } else {
        assert_int_equal(layer->ops->forward(layer, e, 1, logits, NULL), -EIO);
        assert_int_equal(model->ops->recover(model), 0);
    }
    assert_int_equal(layer->ops->recover(layer), 0);
}

/* An MTP layer of a model on a device that fails. The layer has the model's output matrix. */
static void an_mtp_layer(bool by_model)
{
    struct gguf *usual = g;
    struct backend *model[2], *layer[2];
    float *logits[2];
    struct tiny t;
    tiny_init(&t);
    t.arch = "glm4moe";
    g = model_file_tiny(&t);
    for (int i = 0; i < 2; i++) {
        static const uint32_t table[] = {0, 1, 2};
        static const uint32_t *const tables[] = {table};
        int32_t ids[LENGTH];
        uint8_t want[LENGTH];
        fake_set("");
        assert_int_equal(open_backend(&model[i], i ? "cuda" : "cpu"), 0);
        struct backend_config c = model[i]->config;
        c.mtp_of = model[i];
        c.pool = model[i]->ops->compute_pool(model[i]);
        assert_int_equal(backend_new(&layer[i], g, &c), 0);
        const struct hparams *y = &layer[i]->hparams;
        float *states = calloc(LENGTH, y->dim * sizeof(float));
        logits[i] = calloc(LENGTH, y->vocab * sizeof(float));
        assert_true(states && logits[i]);
        seeded_tokens(ids, LENGTH, y->vocab, 3);
        memset(want, WANT_LOGITS, sizeof(want));
        for (size_t n = 0; n < (size_t)LENGTH * y->dim; n++) states[n] = (float)(n % 17) - 8;
        const struct batch_entry e = {.blocks = tables, .n = LENGTH, .tokens = ids, .states = states, .want = want};
        if (i) fail_together(model[i], layer[i], &e, logits[i], by_model);
        assert_int_equal(layer[i]->ops->forward(layer[i], &e, 1, logits[i], NULL), 0);
        free(states);
    }
    assert_memory_equal(logits[0], logits[1], (size_t)LENGTH * layer[0]->hparams.vocab * sizeof(float));
    const long calls = fake_calls();
    for (int i = 0; i < 2; i++) backend_free(layer[i]), backend_free(model[i]), free(logits[i]);
    assert_int_equal(fake_calls(), calls);
    fake_forget(); /* a lost device frees nothing */
    gguf_close(g);
    g = usual;
}

static void test_an_mtp_layer(void **state)
{
    an_mtp_layer(false);
    an_mtp_layer(true);
}

/* The KV pool leaves room for the layer, unless that is a large part of what it could have. */
static void test_room_for_an_mtp_layer(void **state)
{
    static const struct {
        const char *settings;
        bool follows, fits;
    } cases[] = {{"memory=1800", true, true}, {"memory=1800", false, false}, {"memory=1000", true, false}};
    struct gguf *usual = g;
    struct tiny t;
    uint64_t kv[3];
    tiny_init(&t);
    t.arch = "glm4moe";
    g = model_file_tiny(&t);
    for (int i = 0; i < 3; i++) {
        struct backend *model, *layer = NULL;
        struct backend_config c = {
            .backend = "cuda", .threads = 1, .ctx = 2 * LENGTH, .kv_bytes = (uint64_t)4 << 30, .batch_tokens = LENGTH};
        const uint64_t own = 1 << 20;
        c.mtp.kv_bytes = cases[i].follows ? own : 0;
        c.mtp.batch_tokens = LENGTH;
        fake_set(cases[i].settings);
        assert_int_equal(backend_new(&model, g, &c), 0);
        kv[i] = model->config.kv_bytes;
        c.mtp_of = model;
        c.pool = model->ops->compute_pool(model);
        c.kv_bytes = own;
        assert_int_equal(backend_new(&layer, g, &c), cases[i].fits ? 0 : -ENOMEM);
        if (layer) assert_int_equal(layer->config.kv_bytes, own);
        if (layer) backend_free(layer);
        backend_free(model);
        assert_int_equal(fake_live(), 0);
    }
    assert_true(kv[2] < kv[0] && kv[0] + (128 << 20) < kv[1]);
    gguf_close(g);
    g = usual;
}

/* Code that the driver translates starts no kernel before the end of the one before it, on whatever device. */
static void test_translated_code(void **state)
{
    static const char *const settings[] = {"major=8", "major=10", "major=9,ptx=80"};
    struct backend *b;
    struct backend_seq s;
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
        fake_set(settings[i]);
        assert_int_equal(open_backend(&b, "cuda"), 0);
        backend_seq_init(&s, b, LENGTH, 5, 0);
        assert_int_equal(run(b, &s), 0);
        backend_seq_fini(&s);
        backend_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_driver),
                                       cmocka_unit_test(test_translated_code),
                                       cmocka_unit_test(test_two_devices),
                                       cmocka_unit_test(test_as_many_as_needed),
                                       cmocka_unit_test(test_some_calls_of_pieces),
                                       cmocka_unit_test(test_each_call_of_a_start),
                                       cmocka_unit_test(test_each_call_of_a_step),
                                       cmocka_unit_test(test_each_call_of_an_adapter),
                                       cmocka_unit_test(test_an_adapter_that_stays),
                                       cmocka_unit_test(test_an_mtp_layer),
                                       cmocka_unit_test(test_room_for_an_mtp_layer)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
