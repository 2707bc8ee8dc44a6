/* SPDX-License-Identifier: MIT */
/* Covers turn.c and start.c: the turns of a session. What is reused and what is kept; reuse changes no bit. */
#include "tests/engine/harness.h"
#include <errno.h>
#include <stdio.h>

static int setup_spm(void **state)
{
    struct harness *h = malloc(sizeof(*h));
    struct tiny t;
    *state = h;
    tiny_init(&t);
    t.ctx = 2048;
    t.tokenizer = "llama";
    harness_init(h, &t);
    return 0;
}

/* Lively enough to meet its end-of-answer token, and bytes that are no UTF-8. */
static struct proto_request turn(const char *session, const char *content, int64_t seed)
{
    struct proto_request r = harness_user(session, content);
    r.gen.sampling.temperature = 100;
    r.gen.sampling.top_k = 0;
    r.gen.sampling.top_p = 1;
    r.gen.sampling.min_p = 0;
    r.gen.sampling.seed = seed;
    r.gen.max_tokens = 300;
    return r;
}

/* The id of a control token, or -1 when this vocabulary has no such. */
static int32_t control_id(struct harness *h, const char *piece)
{
    struct proto_request r = harness_simple(PROTO_TOKENIZE);
    assert_int_equal(proto_text_set(&r.text, piece, strlen(piece)), 0);
    r.special = true;
    struct answer *a = harness_run(h, &r);
    assert_int_equal(a->last.type, PROTO_EV_TOKENS);
    return a->last.tokens.n == 1 ? a->last.tokens.ids[0] : -1;
}

/*
 * Where the next prompt leaves the way of turn @a: the template writes an answer's text and <|im_end|>, so at the first
 * other control token the model sampled. -1: nowhere.
 */
static int64_t miss_after(struct harness *h, const struct answer *a)
{
    static const char *const pieces[] = {"<|endoftext|>", "<|im_start|>", "<unk>", "<s>", "</s>"};
    int32_t end = control_id(h, "<|im_end|>");
    size_t first = a->n;
    for (size_t i = a->n; i-- > 0;)
        if (a->ids[i] == end && i + 1 < a->n) first = i;
    for (size_t p = 0; p < sizeof(pieces) / sizeof(*pieces); p++) {
        int32_t id = control_id(h, pieces[p]);
        for (size_t i = 0; i < a->n; i++)
            if (a->ids[i] == id && i < first) first = i;
    }
    return first < a->n ? (int64_t)(a->last.usage_prompt + first) : -1;
}

static const char *const says[] = {"the house by the sea", "and you, \xc3\xa9t\xc3\xa9?", "1 2"};

/* Each turn computes only what is new: cached is all of the turn before but its last token (sampled, never computed).
 */
static void test_three_turns(void **state)
{
    struct harness *h = *state;
    struct answer *a[3];
    harness_start(h);
    for (int i = 0; i < 3; i++) {
        struct proto_request r = harness_user("s", says[i]);
        r.gen.sampling.temperature = 1;
        r.gen.sampling.seed = i;
        r.gen.ignore_eos = true;
        r.gen.max_tokens = 50;
        a[i] = harness_run(h, &r);
        assert_done(a[i], PROTO_STOP_LENGTH);
        assert_string_equal(a[i]->last.session.data, "s");
        if (i == 0) continue;
        const struct proto_event *before = &a[i - 1]->last, *now = &a[i]->last;
        assert_int_equal(now->miss_at, -1);
        assert_int_equal(now->usage_cached, before->usage_prompt + 50 - 1);
        assert_int_equal(a[i]->prefill_first, now->usage_cached);
        assert_true(now->usage_prompt - now->usage_cached < 40);
    }
    assert_int_equal(a[0]->last.usage_cached, 0);
}

/* The same with answers that the model ends, that hold control tokens in the middle and bytes that are no UTF-8. */
static void test_lively_turns(void **state)
{
    struct harness *h = *state;
    unsigned whole = 0;
    harness_start(h);
    for (int s = 1; s <= 6; s++) {
        char name[8];
        snprintf(name, sizeof(name), "s%d", s);
        struct proto_request r = turn(name, says[0], s);
        struct answer *a = harness_run(h, &r);
        assert_int_equal(a->last.type, PROTO_EV_DONE);
        int64_t miss = miss_after(h, a);
        r = turn(name, says[1], s);
        r.gen.max_tokens = 2;
        struct answer *b = harness_run(h, &r);
        assert_int_equal(b->last.miss_at, miss);
        assert_int_equal(b->last.usage_cached,
                         miss >= 0 ? (uint64_t)miss : a->last.usage_prompt + a->last.usage_completion - 1);
        whole += miss < 0;
    }
    assert_true(whole > 0);
}

static void converse(struct harness *h, bool others, struct answer *a[3])
{
    static const int64_t max[] = {200, 20, 200};
    for (int i = 0; i < 3; i++) {
        struct proto_request r = turn("s", says[i], 40 + i);
        r.gen.max_tokens = max[i];
        a[i] = harness_run(h, &r);
        assert_int_equal(a[i]->last.type, PROTO_EV_DONE);
        if (!others) continue;
        assert_true(a[i]->last.usage_cached < 4); /* a BOS, the template's first words */
        r = harness_raw("somebody else wants it all");
        r.gen.max_tokens = -1;
        r.gen.ignore_eos = true;
        assert_done(harness_run(h, &r), PROTO_STOP_CONTEXT);
    }
}

/* The same conversation twice; the second time others take the KV between the turns, and all is computed again: to the
 * same bits. */
static void test_reuse_changes_no_bit(void **state)
{
    struct harness *h = *state, *g = malloc(sizeof(*g));
    struct answer *a[3], *b[3];
    harness_start(h);
    converse(h, false, a);
    assert_true(a[1]->last.usage_cached > 0 && a[2]->last.usage_cached > 0);
    memcpy(g, h, sizeof(*g));
    memset(g->answers, 0, sizeof(g->answers));
    g->n = 0;
    g->config.ctx = 1024;
    g->config.kv_bytes = 2 * 32 * 2 * 2 * 16 * 2 * 32; /* 1024 tokens in all */
    g->config.batch_tokens = 13;
    harness_start(g);
    converse(g, true, b);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(a[i]->last.usage_prompt, b[i]->last.usage_prompt);
        assert_int_equal(a[i]->last.miss_at, b[i]->last.miss_at);
        assert_same(a[i], b[i]);
    }
    harness_stop(g);
    free(g);
}

static void test_continue_last(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = turn("one", "the", 1);
    harness_run(h, &r);
    r = turn("two", "the", 1);
    harness_run(h, &r);
    r = turn(NULL, "again", 1);
    r.gen.continue_last = true;
    struct answer *a = harness_run(h, &r);
    assert_string_equal(a->last.session.data, "two");
    assert_true(a->last.usage_cached > 0);
    r = turn(NULL, "again", 1);
    r.gen.continue_last = true; /* of another uid */
    assert_error(harness_wait(h, harness_submit_as(h, 1, 1001, &r)), ENOENT, "no session");
    r = turn("two", "mine", 1); /* the same name, another uid: another session */
    a = harness_wait(h, harness_submit_as(h, 1, 1001, &r));
    assert_int_equal(a->last.usage_cached, 0);
}

/* Cut before any text: as if it had not been asked. Cut after: the part that was shown counts. */
static void test_cancelled_turns(void **state)
{
    struct harness *h = *state;
    h->config.batch_tokens = 2;
    harness_start(h);
    struct proto_request r = harness_user("s", "the");
    struct answer *first = harness_run(h, &r);
    assert_done(first, PROTO_STOP_LENGTH);
    uint64_t held = first->last.usage_prompt + first->last.usage_completion;

    char big[800];
    memset(big, '.', sizeof(big) - 1);
    big[sizeof(big) - 1] = 0;
    r = harness_user("s", big);
    harness_hold(h);
    uint64_t id = harness_submit(h, &r);
    while (h->answers[id].prefill_n == 0) harness_turn(h);
    engine_cancel(h->engine, 1, id);
    harness_go(h);
    struct answer *a = harness_wait(h, id);
    assert_done(a, PROTO_STOP_CANCEL);
    assert_int_equal(a->n, 0);

    r = harness_user("s", "you");
    r.gen.max_tokens = 1000;
    r.gen.ignore_eos = true;
    harness_hold(h);
    id = harness_submit(h, &r);
    while (h->answers[id].texts < 9) harness_turn(h);
    engine_cancel(h->engine, 1, id);
    harness_go(h);
    a = harness_wait(h, id);
    assert_done(a, PROTO_STOP_CANCEL);
    /* nothing of the cancelled turn stands between; it may have computed how this one begins */
    assert_true(a->last.usage_cached >= held - 1 && a->last.usage_cached < held + 12);
    assert_true(a->last.usage_prompt < held + 30);

    r = harness_user("s", "so");
    struct answer *b = harness_run(h, &r);
    assert_int_equal(b->last.miss_at, -1);
    assert_int_equal(b->last.usage_cached, a->last.usage_prompt + a->last.usage_completion - 1);
}

/* A first turn that comes to nothing leaves no session behind. */
static void test_failed_first_turn(void **state)
{
    struct harness *h = *state;
    h->config.ctx = 64;
    harness_start(h);
    char big[400];
    memset(big, '.', sizeof(big) - 1);
    big[sizeof(big) - 1] = 0;
    struct proto_request r = turn("s", big, 1);
    assert_error(harness_run(h, &r), E2BIG, "the context holds 64");
    r = turn(NULL, "x", 1);
    r.gen.continue_last = true;
    assert_error(harness_run(h, &r), ENOENT, "no session");
}

static void test_raw_session(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct answer *a[2];
    for (int i = 0; i < 2; i++) {
        struct proto_request r = harness_raw(i ? " and then the sea" : "Once upon a time");
        assert_int_equal(proto_text_set(&r.gen.session, "raw", 3), 0);
        a[i] = harness_run(h, &r);
        assert_int_equal(a[i]->last.type, PROTO_EV_DONE);
    }
    assert_int_equal(a[1]->last.usage_cached, a[0]->last.usage_prompt + a[0]->last.usage_completion - 1);
    assert_int_equal(a[1]->last.miss_at, -1);
    struct proto_request r = harness_user("raw", "hello");
    assert_error(harness_run(h, &r), EINVAL, "session 'raw' is raw text");
    r = turn("chat", "x", 1);
    harness_run(h, &r);
    r = harness_raw("x");
    assert_int_equal(proto_text_set(&r.gen.session, "chat", 4), 0);
    assert_error(harness_run(h, &r), EINVAL, "session 'chat' is made of messages");
}

/* What a stop string swallowed is not in the next prompt: reuse ends before it, and says so. */
static void test_stop_string_is_not_history(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = harness_user("probe", "the house");
    r.gen.max_tokens = 60;
    r.gen.ignore_eos = true;
    struct answer *a = harness_run(h, &r);
    char stop[3] = "";
    for (size_t i = 8; i + 2 < a->text.len && !stop[0]; i++)
        if (!((a->text.data[i] | a->text.data[i + 1]) & 0x80)) memcpy(stop, a->text.data + i, 2);
    assert_true(stop[0]);
    r = harness_user("s", "the house");
    r.gen.max_tokens = 60;
    r.gen.ignore_eos = true;
    r.gen.n_stop = 1;
    assert_int_equal(proto_text_set(&r.gen.stop[0], stop, 2), 0);
    struct answer *b = harness_run(h, &r);
    assert_done(b, PROTO_STOP_EOS);
    r = harness_user("s", "go on");
    struct answer *c = harness_run(h, &r);
    uint64_t held = b->last.usage_prompt + b->last.usage_completion;
    assert_true(c->last.miss_at > 0 && (uint64_t)c->last.miss_at < held);
    assert_true(c->last.usage_cached >= b->last.usage_prompt - 1);
    assert_true(c->last.usage_cached <= (uint64_t)c->last.miss_at);
}

/* More waiting sessions than the pool can hold, all at once, several rounds: nobody is stuck. */
static void test_many_sessions_short_blocks(void **state)
{
    struct harness *h = *state;
    h->config.kv_bytes = 2 * 32 * 2 * 2 * 16 * 2 * 12;
    h->config.parallel = 3;
    harness_start(h);
    for (int round = 0; round < 4; round++) {
        uint64_t id[6];
        for (int i = 0; i < 6; i++) {
            char name[8];
            snprintf(name, sizeof(name), "s%d", i);
            struct proto_request r = harness_user(name, "the sea");
            r.gen.max_tokens = 20;
            id[i] = harness_submit(h, &r);
        }
        for (int i = 0; i < 6; i++) assert_int_equal(harness_wait(h, id[i])->last.type, PROTO_EV_DONE);
    }
}

int main(void)
{
#define BPE(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)
#define SPM(name)                                                                                                      \
    {                                                                                                                  \
#name "_spm", name, setup_spm, harness_teardown, NULL                                                          \
    }
    const struct CMUnitTest tests[] = {
        BPE(test_three_turns),
        SPM(test_three_turns),
        BPE(test_lively_turns),
        SPM(test_lively_turns),
        BPE(test_reuse_changes_no_bit),
        SPM(test_reuse_changes_no_bit),
        BPE(test_continue_last),
        BPE(test_cancelled_turns),
        SPM(test_cancelled_turns),
        BPE(test_failed_first_turn),
        BPE(test_raw_session),
        SPM(test_raw_session),
        BPE(test_stop_string_is_not_history),
        BPE(test_many_sessions_short_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
