/* SPDX-License-Identifier: MIT */
/* The prefix cache through the engine: who finds what, and that finding changes no bit. */
#include "tests/engine/harness.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* A text of some hundred tokens that @seed and @part tell apart from others. */
static void text(char *out, size_t size, unsigned seed, unsigned words)
{
    size_t n = 0;
    harness_seed = seed;
    for (unsigned i = 0; i < words && n + 10 < size; i++)
        n += (size_t)snprintf(out + n, size - n, " %s", harness_word());
}

static struct proto_request ask(const char *first, const char *second)
{
    char both[8192];
    snprintf(both, sizeof(both), "%s%s", first, second);
    struct proto_request r = harness_raw(both);
    r.gen.sampling.temperature = 1;
    r.gen.sampling.seed = 7;
    r.gen.max_tokens = 40;
    r.gen.ignore_eos = true;
    return r;
}

static struct answer *run(struct harness *h, uid_t uid, const char *first, const char *second)
{
    struct proto_request r = ask(first, second);
    struct answer *a = harness_wait(h, harness_submit_as(h, 1, uid, &r));
    assert_done(a, PROTO_STOP_LENGTH);
    return a;
}

static void test_again_and_variants(void **state)
{
    struct harness *h = *state;
    char doc[4096];
    text(doc, sizeof(doc), 1, 200);
    harness_start(h);
    struct answer *cold = run(h, 1000, doc, " one?");
    uint64_t n = cold->last.usage_prompt;
    assert_int_equal(cold->last.usage_cached, 0);
    assert_true(n > 100);
    struct answer *warm = run(h, 1000, doc, " one?");
    assert_int_equal(warm->last.usage_cached, n - 1); /* to the token; the last is asked again */
    assert_same(cold, warm);
    struct answer *other = run(h, 1001, doc, " one?");
    assert_int_equal(other->last.usage_cached, 0); /* somebody else's is not found */
    assert_same(cold, other);
    struct proto_request r = ask(doc, " one?");
    assert_int_equal(proto_text_set(&r.gen.salt, "pepper", 6), 0);
    struct answer *salted = harness_run(h, &r);
    assert_int_equal(salted->last.usage_cached, 0);
    assert_same(cold, salted);
    struct answer *beginning = run(h, 1000, doc, " and two");
    assert_true(beginning->last.usage_cached > n - 12 && beginning->last.usage_cached < n);
    struct answer *alone = run(h, 1002, doc, " and two");
    assert_same(beginning, alone);
    assert_int_equal(harness_status(h, 1000, "tokens_found"), 2 * n - 1 + (long long)beginning->last.usage_cached - n);
}

/* Each prefix of a text, against the same cold: whole blocks and partial ones. */
static void test_every_length(void **state)
{
    struct harness *h = *state;
    char doc[1024];
    text(doc, sizeof(doc), 3, 60);
    harness_start(h);
    run(h, 1000, doc, "");
    for (unsigned words = 1; words < 60; words += 4) {
        char part[1024];
        text(part, sizeof(part), 3, words);
        struct answer *warm = run(h, 1000, part, "!"), *cold = run(h, 2000 + words, part, "!");
        assert_int_equal(cold->last.usage_cached, 0);
        assert_true(warm->last.usage_cached + 4 > warm->last.usage_prompt);
        assert_same(cold, warm);
    }
}

/* Room for about three texts: what was evicted is computed again, to the same bits, and nobody is refused. */
static void test_eviction(void **state)
{
    struct harness *h = *state;
    struct answer *first[8];
    h->config.kv_bytes = 2 * 32 * 2 * 2 * 16 * 2 * 40;
    harness_start(h);
    for (int round = 0; round < 3; round++)
        for (unsigned i = 0; i < 8; i++) {
            char doc[4096];
            text(doc, sizeof(doc), 10 + i, 120);
            struct answer *a = run(h, 1000 + i % 2, doc, "");
            if (round == 0)
                first[i] = a;
            else
                assert_same(first[i], a);
        }
    assert_true(harness_status(h, 0, "evictions") > 20);
    /* nothing leaks: all blocks are free or unused */
    assert_int_equal(harness_status(h, 0, "kv_blocks_free") + harness_status(h, 0, "kv_blocks_unused"), 40);
}

/* Many at once with common beginnings, cancels among them; then each alone in a fresh engine. */
static void test_together(void **state)
{
    struct harness *h = *state;
    struct answer *a[24];
    uint64_t id[24];
    char doc[2][4096];
    h->config.kv_bytes = 2 * 32 * 2 * 2 * 16 * 2 * 64;
    h->config.batch_tokens = 40;
    h->forgetful = true; /* the pool is tight and the users are three: who is preempted may lose blocks */
    text(doc[0], sizeof(doc[0]), 21, 100);
    text(doc[1], sizeof(doc[1]), 22, 100);
    harness_start(h);
    for (unsigned i = 0; i < 24; i++) {
        char tail[32];
        snprintf(tail, sizeof(tail), " number %u", i / 2);
        struct proto_request r = ask(doc[i % 2], tail);
        id[i] = harness_submit_as(h, 10 + i, 1000 + i % 3, &r);
    }
    for (unsigned i = 0; i < 24; i += 5) engine_cancel(h->engine, 10 + i, id[i]);
    for (unsigned i = 0; i < 24; i++)
        if (i % 5) a[i] = harness_wait(h, id[i]);
    for (unsigned i = 0; i < 24; i++) {
        char tail[32];
        if (i % 5 == 0) continue;
        assert_done(a[i], PROTO_STOP_LENGTH);
        snprintf(tail, sizeof(tail), " number %u", i / 2);
        assert_same(a[i], run(h, 3000 + i, doc[i % 2], tail)); /* a uid that has nothing yet */
    }
}

/* The next process finds on disk what this one has computed, all types of KV. */
static void on_disk(struct harness *h, enum kern_kv type)
{
    char doc[4096];
    h->config.kv_type = type;
    harness_dirs(h);
    text(doc, sizeof(doc), 5, 220);
    harness_start(h);
    harness_wait_disk(h);
    struct answer keep = {0}, *cold = run(h, 1000, doc, " what?");
    uint64_t n = cold->last.usage_prompt;
    keep = *cold;
    cold->ids = NULL;
    cold->logprobs = NULL;
    harness_stop(h);
    for (int i = 0; i < 2; i++) {
        harness_start(h);
        struct answer *warm = run(h, 1000, doc, " what?");
        assert_int_equal(warm->last.usage_cached, n - 1);
        assert_same(&keep, warm);
        assert_int_equal(run(h, 1001 + 10 * (uid_t)i, doc, " what?")->last.usage_cached, 0);
        struct answer *b = run(h, 1000, doc, " and then?");
        assert_true(b->last.usage_cached > n - 20);
        assert_same(b, run(h, 1002 + 10 * (uid_t)i, doc, " and then?"));
        harness_wait_disk(h);
        harness_stop(h);
    }
    free(keep.ids);
    free(keep.logprobs);
}

static void test_restart_f16(void **state)
{
    on_disk(*state, KERN_KV_F16);
}

static void test_restart_f32(void **state)
{
    on_disk(*state, KERN_KV_F32);
}

static void test_restart_q8(void **state)
{
    on_disk(*state, KERN_KV_Q8);
}

/* Blocks that left memory for the disk come back; a little memory, a lot on disk. */
static void test_disk_behind_memory(void **state)
{
    struct harness *h = *state;
    struct answer *first[6];
    h->config.kv_bytes = 2 * 32 * 2 * 2 * 16 * 2 * 40;
    harness_dirs(h);
    harness_start(h);
    harness_wait_disk(h);
    uint64_t cached = 0;
    for (int round = 0; round < 4; round++)
        for (unsigned i = 0; i < 6; i++) {
            char doc[4096];
            text(doc, sizeof(doc), 10 + i, 120);
            struct answer *a = run(h, 1000, doc, "");
            if (round == 0)
                first[i] = a;
            else
                assert_same(first[i], a);
            if (round) cached += a->last.usage_cached;
        }
    assert_true(cached > 0);
    assert_true(harness_status(h, 0, "disk_read") > 0);
    assert_int_equal(harness_status(h, 0, "kv_blocks_free") + harness_status(h, 0, "kv_blocks_unused"), 40);
}

/* The disk has room for less than memory: writing comes to an end all the same, when nothing is done and at the stop,
 * and what was used last is what stays. */
static void test_disk_smaller_than_memory(void **state)
{
    struct harness *h = *state;
    const long long file = 2 * 32 * 2 * 2 * 16 * 2 + 256, files = 10;
    char doc[4096];
    h->config.cache_bytes = (uint64_t)(files * file);
    harness_dirs(h);
    harness_start(h);
    harness_wait_disk(h);
    for (unsigned i = 0; i < 6; i++) {
        text(doc, sizeof(doc), 10 + i, 120);
        run(h, 1000, doc, "");
    }
    assert_true(harness_status(h, 0, "blocks_memory") > 6 * files);
    while (harness_status(h, 0, "disk_written") < files * file) usleep(1000);
    usleep(300000); /* room for many more than there should be */
    assert_in_range(harness_status(h, 0, "disk_written"), files * file, 4 * files * file);
    harness_stop(h); /* does not take all the time it may */
    harness_start(h);
    struct answer *again = run(h, 1000, doc, "");
    assert_true(again->last.usage_cached >= (uint64_t)(files - 1) * 32);
}

/* A slot changes hands and there is no room for both: what the one who resumes reads back was computed by itself. */
static void test_disk_behind_a_slot(void **state)
{
    struct harness *h = *state;
    uint64_t id[2];
    h->config.kv_bytes = 2 * 32 * 2 * 2 * 16 * 2 * 40;
    h->config.parallel = 1;
    harness_dirs(h);
    harness_start(h);
    harness_wait_disk(h);
    for (unsigned i = 0; i < 2; i++) {
        struct proto_request r = ask(harness_story, "");
        r.gen.max_tokens = 1100;
        id[i] = harness_submit_as(h, 5 + i, 1000 + i, &r);
    }
    for (unsigned i = 0; i < 2; i++) {
        struct answer *a = harness_wait(h, id[i]);
        assert_done(a, PROTO_STOP_LENGTH);
        assert_int_equal(a->last.usage_cached, 0);
        assert_same(a, &h->answers[id[0]]);
    }
    assert_true(harness_status(h, 0, "preemptions") > 0);
    assert_true(harness_status(h, 0, "disk_read") > 0);
}

/* It has its blocks and waits for the job pool to read them, which has something else of its user's to do: it is ended
 * there, by a cancel or with the engine. */
static void test_ended_before_it_is_read(void **state)
{
    struct harness *h = *state;
    char doc[4096];
    size_t len = 900000;
    harness_dirs(h);
    text(doc, sizeof(doc), 5, 220);
    harness_start(h);
    harness_wait_disk(h);
    run(h, 1000, doc, " what?");
    harness_stop(h);
    h->config.parallel = 1;
    for (int stop = 0; stop < 2; stop++) {
        harness_start(h);
        harness_wait_disk(h);
        struct proto_request before = ask(harness_story, ""), r = ask(doc, " what?");
        before.gen.max_tokens = 1500;
        uint64_t first = harness_submit_as(h, 2, 1000, &before);
        harness_wait_texts(h, first, 1);
        uint64_t id = harness_submit(h, &r);
        harness_wait_any(h, id); /* it has its place in the queue */
        for (int i = 0; i < 3; i++) {
            struct proto_request busy = harness_simple(PROTO_TOKENIZE);
            busy.text.data = malloc(len + 1);
            assert_non_null(busy.text.data);
            for (size_t k = 0; k < len; k++) busy.text.data[k] = "the little house "[k % 17];
            busy.text.data[len] = 0;
            busy.text.len = len;
            harness_submit_as(h, 3, 1000, &busy);
        }
        harness_status(h, 0, "queued"); /* they are taken */
        engine_cancel(h->engine, 2, first);
        harness_wait(h, first);
        harness_status(h, 0, "queued"); /* so is the slot */
        if (!stop) {
            engine_cancel(h->engine, 1, id);
            assert_done(harness_wait(h, id), PROTO_STOP_CANCEL);
            run(h, 1000, doc, " and then?");
            assert_int_equal(harness_status(h, 0, "kv_blocks_free") + harness_status(h, 0, "kv_blocks_unused"),
                             harness_status(h, 0, "kv_blocks"));
        }
        harness_stop(h);
    }
}

static void test_warm(void **state)
{
    struct harness *h = *state;
    char doc[4096];
    text(doc, sizeof(doc), 8, 150);
    harness_start(h);
    struct proto_request r = ask(doc, "");
    r.type = PROTO_WARM;
    struct answer *a = harness_run(h, &r);
    assert_int_equal(a->last.type, PROTO_EV_DONE);
    assert_int_equal(a->n, 0);
    assert_int_equal(a->last.usage_completion, 0);
    struct answer *b = run(h, 1000, doc, "");
    assert_int_equal(b->last.usage_cached, b->last.usage_prompt - 1);
    assert_same(b, run(h, 1001, doc, ""));
}

/* A full context: what comes out is a function of the tokens, not of steps, company or cache. */
static void full(struct harness *h, enum proto_context policy)
{
    struct answer *a[3], *cold[3];
    h->config.ctx = 256;
    harness_start(h);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < 3; i++) {
            char doc[1024];
            text(doc, sizeof(doc), 30 + i, 60);
            struct proto_request r = harness_raw(doc);
            assert_int_equal(proto_text_set(&r.gen.session, "long", 4), 0);
            r.gen.context = i == 0 ? policy : PROTO_CONTEXT_UNSET; /* the session remembers */
            r.gen.max_tokens = 150;
            r.gen.ignore_eos = true;
            struct answer *x = harness_wait(h, harness_submit_as(h, 1, 1000 + pass, &r));
            assert_done(x, PROTO_STOP_LENGTH);
            assert_int_equal(x->n, 150);
            (pass ? cold : a)[i] = x;
        }
    for (int i = 0; i < 3; i++) {
        assert_same(a[i], cold[i]);
        assert_int_equal(a[i]->last.shifted, cold[i]->last.shifted);
    }
    assert_int_equal(a[2]->last.shifted > 0, policy == PROTO_CONTEXT_SHIFT);
    struct proto_request r = harness_raw(harness_story); /* refuse is the default still */
    r.gen.max_tokens = -1;
    r.gen.ignore_eos = true;
    assert_done(harness_run(h, &r), PROTO_STOP_CONTEXT);
}

static void full_both(struct harness *h, enum proto_context policy)
{
    struct answer keep[3] = {0};
    for (int pass = 0; pass < 2; pass++) {
        h->config.batch_tokens = pass ? 9 : 512;
        h->config.threads = pass ? 2 : 1;
        full(h, policy);
        for (int i = 0; i < 3; i++) {
            struct answer *a = &h->answers[i + 1];
            if (pass) {
                assert_same(&keep[i], a);
                free(keep[i].ids);
                free(keep[i].logprobs);
            } else {
                keep[i] = *a;
                a->ids = NULL;
                a->logprobs = NULL;
            }
        }
        harness_stop(h);
    }
}

static void test_shift(void **state)
{
    full_both(*state, PROTO_CONTEXT_SHIFT);
}

static void test_rotate(void **state)
{
    full_both(*state, PROTO_CONTEXT_ROTATE);
}

/* What the administrator installs is found by all, and nothing else is. */
static void test_public_prefix(void **state)
{
    struct harness *h = *state;
    char path[128], doc[2048];
    harness_dirs(h);
    snprintf(path, sizeof(path), "%s/prefixes", h->dir);
    assert_int_equal(mkdir(path, 0755), 0);
    h->config.prefixes_dir = path;
    text(doc, sizeof(doc), 77, 100);
    char file[160];
    snprintf(file, sizeof(file), "%s/a.txt", path);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", doc);
    fclose(f);
    harness_start(h);
    struct answer *a[2];
    for (unsigned i = 0; i < 2; i++) {
        while (harness_status(h, 0, "running") || harness_status(h, 0, "queued")) usleep(1000);
        struct proto_request r = harness_user(NULL, i ? "you" : "me");
        struct proto_message *m = calloc(2, sizeof(*m));
        assert_non_null(m);
        m[1] = r.gen.messages[0];
        free(r.gen.messages);
        r.gen.messages = m;
        r.gen.n_messages = 2;
        assert_int_equal(proto_text_set(&m[0].role, "system", 6), 0);
        assert_int_equal(proto_text_set(&m[0].content, doc, strlen(doc)), 0);
        a[i] = harness_wait(h, harness_submit_as(h, 1, 1000 + i, &r));
        assert_int_equal(a[i]->last.type, PROTO_EV_DONE);
        assert_true(a[i]->last.usage_cached > 80);
    }
    harness_stop(h);
    h->config.queue_timeout_usec = 0; /* nobody waits for them, so that they cannot be too late */
    harness_start(h);
    while (harness_status(h, 0, "running") || harness_status(h, 0, "queued")) usleep(1000);
    assert_true(harness_status(h, 0, "tokens_computed") > 0);
}

/* A context that shifts has other tokens from then on: its last block is not found under them. Token 0 is the byte
 * 0, and no token of the text merges with its neighbours. */
static void test_shifted_block(void **state)
{
    struct harness *h = *state;
    char prompt[128] = {0};
    h->config.ctx = 128;
    harness_start(h);
    memset(prompt, '~', 110);
    struct proto_request r = ask(prompt, "");
    r.gen.context = PROTO_CONTEXT_SHIFT;
    struct answer *a = harness_run(h, &r);
    assert_done(a, PROTO_STOP_LENGTH);
    assert_int_equal(a->last.usage_prompt, 110);
    assert_true(a->last.shifted > 0);
    memset(prompt + 96, 0, 14);
    for (uid_t i = 0; i < 2; i++) {
        r = ask("", "");
        r.gen.max_tokens = 20;
        assert_int_equal(proto_text_set(&r.gen.prompt, prompt, 104), 0);
        struct answer *b = harness_wait(h, harness_submit_as(h, 1, 1000 + i, &r));
        assert_int_equal(b->last.usage_prompt, 104);
        assert_int_equal(b->last.usage_cached, i ? 0 : 96);
        assert_same(&h->answers[2], b);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_again_and_variants),
        TEST(test_every_length),
        TEST(test_eviction),
        TEST(test_together),
        TEST(test_restart_f16),
        TEST(test_restart_f32),
        TEST(test_restart_q8),
        TEST(test_disk_behind_memory),
        TEST(test_disk_smaller_than_memory),
        TEST(test_disk_behind_a_slot),
        TEST(test_warm),
        TEST(test_shift),
        TEST(test_rotate),
        TEST(test_public_prefix),
        TEST(test_ended_before_it_is_read),
        TEST(test_shifted_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
