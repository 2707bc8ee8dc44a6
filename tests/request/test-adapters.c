/* SPDX-License-Identifier: MIT */
/* Requests with adapters: covers adapters.c and sequence/adapted.c. An answer is, bit for bit, the same alone, beside
 * others with other adapters, from a warm cache, from the disk, after preemptions and with proposed tokens. Catches: KV
 * of another adapter or scale, blocks before an invocation that are not shared, a session that forgets its adapter. */
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "tests/engine/harness.h"
#include "tests/support/lora-file.h"
#include <stdio.h>
#include <unistd.h>

#define KINDS 8

static const char document[] = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
                               "fifteen sixteen seventeen eighteen nineteen twenty one two three four five six seven";
static const char call[] = "~~";

/* The ids of the invocation: twice the token of '~'. */
static void invocation(struct harness *h, int32_t ids[2])
{
    struct proto_request r = harness_simple(PROTO_TOKENIZE);
    assert_int_equal(proto_text_set(&r.text, call, 2), 0);
    harness_start(h);
    struct answer *a = harness_run(h, &r);
    assert_int_equal(a->last.tokens.n, 2);
    memcpy(ids, a->last.tokens.ids, 2 * sizeof(*ids));
    harness_stop(h);
}

static void write_adapter(const struct harness *h, const char *name, const struct lora_file *l)
{
    char path[96];
    struct buf b = BUF_INIT;
    struct gguf *g;
    assert_int_equal(gguf_open(&g, h->path), 0);
    assert_int_equal(lora_file_bytes(&b, l, g), 0);
    snprintf(path, sizeof(path), "%s.%s", h->path, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b.data, 1, b.len, f), b.len);
    fclose(f);
    buf_fini(&b);
    gguf_close(g);
}

/* The adapters "one", "two" and "called", which is activated by "~~". */
static void give_adapters(struct harness *h)
{
    static const char *const names[] = {"one", "two", "called"};
    struct adapter_config *c = &h->config.adapters;
    int32_t ids[2];
    invocation(h, ids);
    c->list = calloc(3, sizeof(*c->list));
    assert_non_null(c->list);
    for (uint32_t i = 0; i < 3; i++) {
        struct lora_file l;
        lora_file_init(&l);
        l.seed = 20 + i;
        l.rank = 4 << i;
        l.size = 1;
        l.invocation = ids;
        l.n_invocation = i == 2 ? 2 : 0;
        write_adapter(h, names[i], &l);
        c->list[i].name = strdup(names[i]);
        assert_true(asprintf(&c->list[i].path, "%s.%s", h->path, names[i]) > 0);
        c->list[i].required = true;
    }
    c->n = 3;
}

static void take_adapters(struct harness *h)
{
    struct adapter_config *c = &h->config.adapters;
    for (size_t i = 0; i < c->n; i++) {
        unlink(c->list[i].path);
        free(c->list[i].name);
        free(c->list[i].path);
    }
    free(c->list);
    *c = (struct adapter_config){0};
}

static struct proto_request ask(const char *adapter, const char *more)
{
    char prompt[512];
    snprintf(prompt, sizeof(prompt), "%s%s", document, more);
    struct proto_request r = harness_raw(prompt);
    r.gen.ignore_eos = true;
    if (adapter) assert_int_equal(proto_text_set(&r.adapter, adapter, strlen(adapter)), 0);
    return r;
}

/* Always the same for one @kind. */
static struct proto_request make(unsigned kind)
{
    static const struct {
        const char *adapter, *more;
    } kinds[KINDS] = {{NULL, ""},
                      {"one", ""},
                      {"two", ""},
                      {"one=0.5", ""},
                      {"one=-1e0", " a"},
                      {"called", " ~~ now"},
                      {"called=2", " ~~ now"},
                      {"two", " ~~ now"}};
    struct proto_request r = ask(kinds[kind].adapter, kinds[kind].more);
    r.gen.max_tokens = 40;
    return r;
}

/* Each in an engine that has nothing else. They all differ. */
static void run_alone(struct harness *h, struct answer alone[KINDS])
{
    for (unsigned k = 0; k < KINDS; k++) {
        struct proto_request r = make(k);
        harness_start(h);
        assert_done(harness_run(h, &r), PROTO_STOP_LENGTH);
        alone[k] = answer_take(&h->answers[1]);
        harness_stop(h);
        for (unsigned i = 0; i < k; i++)
            assert_true(alone[i].n != alone[k].n ||
                        memcmp(alone[i].logprobs, alone[k].logprobs, alone[k].n * sizeof(float)) != 0);
    }
}

/* All together; @cached: all of their prompts but the last tokens are. */
static void run_together(struct harness *h, const struct answer alone[KINDS], bool cached)
{
    uint64_t id[KINDS];
    harness_hold(h);
    for (unsigned k = 0; k < KINDS; k++) {
        struct proto_request r = make(k);
        id[k] = harness_submit_as(h, 10 + k, 1000, &r);
    }
    harness_go(h);
    for (unsigned k = 0; k < KINDS; k++) {
        const struct answer *a = harness_wait(h, id[k]);
        assert_done(a, PROTO_STOP_LENGTH);
        assert_same(&alone[k], a);
        if (cached) assert_true(a->last.usage_cached + KV_BLOCK >= a->last.usage_prompt);
    }
}

static void test_in_company(void **state)
{
    struct harness *h = *state;
    struct answer alone[KINDS];
    give_adapters(h);
    run_alone(h, alone);
    h->config.threads = 2;
    harness_start(h);
    run_together(h, alone, false);
    run_together(h, alone, true);
    /* The answers before are drafts, when the time of steps says that drafts pay. */
    for (int i = 0; i < 6 && harness_status(h, 0, "accepted") == 0; i++) run_together(h, alone, true);
    harness_stop(h);
    h->config.batch_tokens = 9; /* chunks */
    harness_start(h);
    run_together(h, alone, false);
    harness_stop(h);
    for (unsigned k = 0; k < KINDS; k++) answer_fini(&alone[k]);
    take_adapters(h);
}

static void test_preempted(void **state)
{
    struct harness *h = *state;
    struct answer alone[KINDS];
    give_adapters(h);
    run_alone(h, alone);
    h->config.kv_bytes = 24 * 8192; /* three sequences */
    h->config.parallel = 4;
    harness_start(h);
    for (int i = 0; i < 3; i++) run_together(h, alone, false);
    assert_true(harness_status(h, 0, "evictions") > 0);
    harness_stop(h);
    for (unsigned k = 0; k < KINDS; k++) answer_fini(&alone[k]);
    take_adapters(h);
}

static void test_from_disk(void **state)
{
    struct harness *h = *state;
    struct answer alone[KINDS];
    give_adapters(h);
    run_alone(h, alone);
    harness_dirs(h);
    harness_start(h);
    harness_wait_disk(h);
    run_together(h, alone, false);
    harness_stop(h);
    harness_start(h);
    run_together(h, alone, true);
    harness_stop(h);
    for (unsigned k = 0; k < KINDS; k++) answer_fini(&alone[k]);
    take_adapters(h);
}

/* Several answers to one prompt. */
static void test_several_answers(void **state)
{
    struct harness *h = *state;
    give_adapters(h);
    harness_start(h);
    struct answer *one[2];
    for (int i = 0; i < 2; i++) {
        struct proto_request r = ask(i ? "called" : "two", " ~~ now");
        r.gen.n = 3;
        uint64_t id = harness_submit(h, &r);
        for (uint32_t k = 0; k < 3; k++) assert_done(harness_wait(h, id + k), PROTO_STOP_LENGTH);
        assert_same(&h->answers[id], &h->answers[id + 2]);
        one[i] = &h->answers[id];
    }
    assert_true(one[0]->n != one[1]->n || memcmp(one[0]->logprobs, one[1]->logprobs, one[0]->n * sizeof(float)));
    harness_stop(h);
    take_adapters(h);
}

/* What comes before the invocation is the model's own, in both directions; another adapter finds nothing of it. */
static void test_invocation_keeps_the_blocks(void **state)
{
    static const char *const order[2][2] = {{NULL, "called"}, {"called", NULL}};
    struct harness *h = *state;
    give_adapters(h);
    for (int i = 0; i < 2; i++) {
        harness_start(h);
        struct proto_request first = ask(order[i][0], " ~~ now"), second = ask(order[i][1], " ~~ now"),
                             other = ask("one", " ~~ now"), twice = ask("called", " ~~ now ~~"),
                             without = ask("called", ""), base = ask(NULL, "");
        struct answer *a = harness_run(h, &first);
        const uint64_t call_at = a->last.usage_prompt - 8; /* " ~~ now": at most 8 tokens */
        assert_int_equal(a->last.usage_cached, 0);
        struct answer *b = harness_run(h, &second);
        assert_true(b->last.usage_cached >= call_at / KV_BLOCK * KV_BLOCK && b->last.usage_cached > 64);
        assert_true(b->last.usage_cached < a->last.usage_prompt - 2); /* not what the adapter sees */
        assert_true(memcmp(a->logprobs, b->logprobs, a->n * sizeof(float)) != 0);
        assert_int_equal(harness_run(h, &other)->last.usage_cached, 0);
        assert_true(harness_run(h, &twice)->last.usage_cached > 64);
        struct answer *x = harness_run(h, &without), *y = harness_run(h, &base); /* no invocation: no adapter */
        assert_same(x, y);
        harness_stop(h);
    }
    take_adapters(h);
}

/* A turn of @session; with @fork, of a new session that begins as it. */
static struct answer *turn(struct harness *h, const char *session, const char *fork, const char *adapter,
                           const char *text)
{
    struct proto_request r = harness_user(session, text);
    if (fork) assert_int_equal(proto_text_set(&r.gen.fork, fork, strlen(fork)), 0);
    if (adapter) assert_int_equal(proto_text_set(&r.adapter, adapter, strlen(adapter)), 0);
    r.gen.ignore_eos = true;
    struct answer *a = harness_run(h, &r);
    if (a->last.type == PROTO_EV_DONE) assert_done(a, PROTO_STOP_LENGTH);
    return a;
}

static bool shows(struct harness *h, const char *session, const char *text)
{
    struct proto_request r = harness_simple(PROTO_SESSION_SHOW);
    assert_int_equal(proto_text_set(&r.name, session, strlen(session)), 0);
    return strstr(harness_run(h, &r)->last.sessions.data, text);
}

static void test_sessions(void **state)
{
    struct harness *h = *state;
    give_adapters(h);
    harness_dirs(h);
    harness_start(h);
    turn(h, "s", NULL, "one=0.5", "hello");
    assert_true(shows(h, "s", "\"adapter\":\"one=0.5\""));
    harness_stop(h);
    harness_start(h); /* also after a restart */
    assert_true(shows(h, "s", "\"adapter\":\"one=0.5\""));
    struct answer *told = turn(h, "s", "told", "one=0.5", "more"), *forked = turn(h, "s", "forked", NULL, "more"),
                  *two = turn(h, "s", "two", "two", "more"), *a = turn(h, "s", NULL, NULL, "more");
    assert_same(told, a); /* the session remembers, and so does a fork */
    assert_same(forked, a);
    assert_true(a->last.usage_cached > 0);
    assert_true(memcmp(two->logprobs, a->logprobs, a->n * sizeof(float)) != 0);
    assert_true(shows(h, "two", "\"adapter\":\"two\"")); /* it may change */
    turn(h, "two", NULL, "none", "and");
    assert_false(shows(h, "two", "adapter"));
    harness_stop(h);
    take_adapters(h);
    harness_start(h);
    assert_error(turn(h, "s", NULL, NULL, "now"), ENOENT,
                 "the session's adapter (none: go on without it): no adapter 'one': the model has none");
    assert_int_equal(turn(h, "s", NULL, "none", "now")->last.type, PROTO_EV_DONE);
    harness_stop(h);
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *adapter;
        int code;
        const char *text;
    } cases[] = {
        {"three", ENOENT, "no adapter 'three'; the model has: one, two, called"},
        {"one=nan", EINVAL, "adapter 'one': the scale 'nan' is not a finite number"},
        {"one=", EINVAL, "adapter 'one': the scale '' is not a finite number"},
        {"one=1x", EINVAL, "adapter 'one': the scale '1x' is not a finite number"},
        {"one=1e99", EINVAL, "adapter 'one': the scale '1e99' is not a finite number"},
        {"=1", ENOENT, "no adapter ''"},
    };
    struct harness *h = *state;
    give_adapters(h);
    harness_start(h);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct proto_request r = ask(cases[i].adapter, "");
        assert_error(harness_run(h, &r), cases[i].code, cases[i].text);
    }
    struct proto_request zero = ask("one=0", ""), none = ask(NULL, "");
    struct answer *a = harness_run(h, &zero), *b = harness_run(h, &none);
    assert_same(a, b);
    assert_true(b->last.usage_cached > 0);
    assert_true(harness_status(h, 0, "adapters_bytes") > 0);
    harness_stop(h);
    take_adapters(h);
}

/* One that is required and cannot be used ends the start; another one is left out. */
static void test_broken_files(void **state)
{
    struct harness *h = *state;
    struct loaded m = {0};
    give_adapters(h);
    FILE *f = fopen(h->config.adapters.list[1].path, "wb");
    assert_non_null(f);
    fputs("GGUX", f);
    fclose(f);
    h->config.model_path = h->path;
    assert_true(load_model(&m, &h->config, NULL, NULL) < 0);
    assert_non_null(strstr(error_text(-EINVAL), "adapter 'two': "));
    h->config.adapters.list[1].required = false;
    assert_int_equal(load_model(&m, &h->config, NULL, NULL), 0);
    assert_int_equal(m.adapters.n, 2);
    loaded_fini(&m);
    take_adapters(h);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, harness_setup, harness_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_in_company),
        TEST(test_preempted),
        TEST(test_from_disk),
        TEST(test_several_answers),
        TEST(test_invocation_keeps_the_blocks),
        TEST(test_sessions),
        TEST(test_what_is_refused),
        TEST(test_broken_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
