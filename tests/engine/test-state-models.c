/* SPDX-License-Identifier: MIT */
/* Each kind of model with recurrent layers, also one without attention: preempted, several answers, stop strings,
 * cancelled and forked; the answers are bit for bit those that a request alone gets, which finds nothing. */
#include "daemon/engine/state.h"
#include "tests/engine/harness.h"
#include <stdio.h>

#define REQUESTS 8

/* @arch, with a batch so small that prompts take several passes. */
static int setup_arch(void **state, const char *arch)
{
    struct harness *h = calloc(1, sizeof(*h));
    struct tiny t;
    tiny_init(&t);
    t.arch = arch;
    t.ctx = 2048;
    harness_init(h, &t);
    h->config.batch_tokens = 64;
    h->forgetful = true;
    *state = h;
    return 0;
}

static int setup_lfm2(void **state)
{
    return setup_arch(state, "lfm2");
}

static int setup_granite(void **state)
{
    return setup_arch(state, "granitehybrid");
}

static int setup_qwen(void **state)
{
    return setup_arch(state, "qwen35");
}

static int setup_mamba(void **state)
{
    return setup_arch(state, "mamba2");
}

static int teardown(void **state)
{
    harness_fini(*state);
    free(*state);
    return 0;
}

/* The pools of the next start: blocks of KV and states. 0 states: as the configuration has it. */
static struct {
    uint32_t blocks, states;
} pools;

int __real_backend_new(struct backend **out, const struct gguf *g, const struct backend_config *c);
int __wrap_backend_new(struct backend **out, const struct gguf *g, const struct backend_config *c);

int __wrap_backend_new(struct backend **out, const struct gguf *g, const struct backend_config *c)
{
    struct backend_config own = *c;
    struct hparams s;
    assert_int_equal(hparams_read(&s, g), 0);
    if (pools.states) {
        own.states = pools.states;
        own.kv_bytes = pools.blocks * load_block_bytes(&s, c->kv_type) + pools.states * hparams_state(&s)->state_bytes;
    }
    return __real_backend_new(out, g, &own);
}

static void salt(struct proto_request *r)
{
    static unsigned cold;
    char text[16];
    snprintf(text, sizeof(text), "cold %u", cold++);
    assert_int_equal(proto_text_set(&r->gen.salt, text, strlen(text)), 0);
}

/* Request @i of a mix: prompts with common beginnings, some with several answers. */
static struct proto_request ask(unsigned i)
{
    char doc[8192];
    harness_text(doc, sizeof(doc) - 64, 30 + i % 3, 40 + 30 * (i % 2));
    snprintf(doc + strlen(doc), 64, " question %u", i % 5);
    struct proto_request r = harness_raw(doc);
    r.gen.sampling.temperature = 1;
    r.gen.sampling.seed = 100 + i;
    r.gen.max_tokens = 50 + 20 * (i % 4);
    r.gen.ignore_eos = true;
    r.gen.n = 1 + (i % 4 == 1) * 2;
    return r;
}

/* All of the mix at once, from two users, or (@alone) one after the other where nothing is found. Returns
 * how many answers there are. */
static unsigned run_mix(struct harness *h, bool alone, struct answer *out)
{
    uint64_t ids[REQUESTS];
    unsigned n = 0;
    if (!alone) {
        harness_hold(h);
        h->engine->core.plan.config.quantum = 32; /* so that there are preemptions */
    }
    for (unsigned i = 0; i < REQUESTS; i++) {
        struct proto_request r = ask(i);
        if (alone) salt(&r);
        const unsigned answers = r.gen.n;
        ids[i] = harness_submit_as(h, 1 + i, 1000 + i % 2, &r);
        for (unsigned k = 0; alone && k < answers; k++) harness_wait(h, ids[i] + k);
    }
    if (!alone) harness_go(h);
    for (unsigned i = 0; i < REQUESTS; i++) {
        struct proto_request r = ask(i);
        const unsigned answers = r.gen.n;
        proto_request_fini(&r);
        for (unsigned k = 0; k < answers; k++) {
            assert_done(harness_wait(h, ids[i] + k), PROTO_STOP_LENGTH);
            out[n++] = answer_take(&h->answers[ids[i] + k]);
        }
    }
    return n;
}

/* All blocks are free once everything is evicted. */
static void check_blocks(struct harness *h)
{
    struct kv_cache *c = &h->engine->core.cache;
    harness_hold(h);
    prefix_check(c->prefix);
    for (uint32_t g = kv_cache_pools(c); g-- > 0;) assert_true(kv_cache_make_room(c, g, kv_pool_total(c->pools[g])));
    prefix_check(c->prefix);
    harness_go(h);
}

/* The mix with pools of @blocks and @states, twice in a row, against the mix alone. */
static void mix_in(struct harness *h, uint32_t blocks, uint32_t states, uint32_t parallel)
{
    struct answer alone[3 * REQUESTS], got[3 * REQUESTS];
    h->config.parallel = parallel;
    h->config.ctx = 512;
    pools.states = 0;
    harness_start(h);
    const unsigned n = run_mix(h, true, alone);
    harness_stop(h);
    pools.blocks = blocks;
    pools.states = states;
    harness_start(h);
    const struct kv_cache *c = &h->engine->core.cache;
    assert_int_equal(kv_pool_total(c->pools[c->state]), states);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(run_mix(h, false, got), n);
        for (unsigned i = 0; i < n; i++) {
            assert_same(&alone[i], &got[i]);
            answer_fini(&got[i]);
        }
    }
    assert_true(harness_status(h, 0, "preemptions") > 0);
    for (unsigned i = 0; i < n; i++) answer_fini(&alone[i]);
    check_blocks(h);
    pools.states = 0;
}

/* KV for hardly more than one sequence: the others wait, run in its place and come back. */
static void test_little_kv(void **state)
{
    mix_in(*state, 18, 12, 4);
}

/* Two states for four slots, and nothing for snapshots. */
static void test_two_states(void **state)
{
    mix_in(*state, 200, 2, 4);
}

/* One state: requests and their answers queue and finish. */
static void test_one_state(void **state)
{
    mix_in(*state, 200, 1, 4);
}

/* One state, and KV for one sequence. */
static void test_least_pools(void **state)
{
    mix_in(*state, 16, 1, 1);
}

static struct proto_request prompt(unsigned seed, unsigned words)
{
    char doc[8192];
    harness_text(doc, sizeof(doc), seed, words);
    struct proto_request r = harness_raw(doc);
    r.gen.sampling.temperature = 1;
    r.gen.sampling.seed = 7;
    r.gen.max_tokens = 60;
    r.gen.ignore_eos = true;
    return r;
}

/* The answer to @r where nothing is found, for the caller. */
static struct answer cold(struct harness *h, struct proto_request *r)
{
    salt(r);
    struct answer a = answer_take(harness_run(h, r));
    harness_forget(h);
    assert_int_equal(a.last.usage_cached, 0);
    return a;
}

/* A prompt that is cancelled after some passes, then the same, a shorter and a longer one: they begin with what was
 * computed. */
static void test_cancelled(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    for (unsigned passes = 1; passes < 8; passes += 2) {
        struct proto_request r = prompt(passes, 400);
        harness_hold(h);
        const uint64_t id = harness_submit(h, &r);
        struct answer *a = &h->answers[id];
        for (int i = 0; i < 1000 && a->prefill_last < 64 * passes; i++) harness_turn(h);
        const uint64_t computed = a->prefill_last;
        assert_true(computed >= 64 * passes && computed < a->prefill_total && !a->n);
        engine_cancel(h->engine, 1, id);
        harness_go(h);
        assert_done(harness_wait(h, id), PROTO_STOP_CANCEL);
        const unsigned words[] = {400, 60 * passes, 420};
        for (int i = 0; i < 3; i++) {
            struct proto_request same = prompt(passes, words[i]), alone = prompt(passes, words[i]);
            struct answer b = answer_take(harness_run(h, &same)), c = cold(h, &alone);
            assert_done(&b, PROTO_STOP_LENGTH);
            if (i == 0) assert_true(b.last.usage_cached + KV_BLOCK > computed);
            assert_same(&b, &c);
            answer_fini(&b);
            answer_fini(&c);
        }
    }
    check_blocks(h);
}

/* An answer that ends at a stop string, somewhere in a block, then prompts that continue it. */
static void test_stop_string(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    for (unsigned seed = 1; seed < 6; seed++) {
        struct proto_request first = prompt(seed, 50), r, s;
        struct answer whole = cold(h, &first);
        char stop[9] = "";
        assert_true(whole.text.len > 60);
        memcpy(stop, (const char *)whole.text.data + 20 + 7 * seed, 8);
        for (int k = 0; k < 2; k++) {
            struct answer a, b;
            r = prompt(seed, 50);
            s = prompt(seed, 50);
            r.gen.n_stop = s.gen.n_stop = 1;
            assert_int_equal(proto_text_set(&r.gen.stop[0], stop, strlen(stop)), 0);
            assert_int_equal(proto_text_set(&s.gen.stop[0], stop, strlen(stop)), 0);
            a = answer_take(harness_run(h, &r));
            b = cold(h, &s);
            assert_done(&a, PROTO_STOP_EOS);
            assert_true(a.n < whole.n && !memcmp(a.ids, whole.ids, a.n * sizeof(*a.ids)));
            if (k) assert_true(a.last.usage_cached > 0);
            assert_same(&a, &b);
            answer_fini(&a);
            answer_fini(&b);
        }
        answer_fini(&whole);
    }
    check_blocks(h);
}

static struct proto_request turn(const char *session, const char *fork, unsigned seed)
{
    char text[512];
    harness_text(text, sizeof(text), seed, 20 + seed % 3 * 20);
    struct proto_request r = harness_user(session, text);
    r.gen.sampling.temperature = 1;
    r.gen.sampling.seed = 3;
    r.gen.max_tokens = 40;
    r.gen.ignore_eos = true;
    if (fork) assert_int_equal(proto_text_set(&r.gen.fork, fork, strlen(fork)), 0);
    return r;
}

/* A session and its fork, continued in turn; the same conversations in other sessions, where nothing is ever found. */
static void test_forked(void **state)
{
    static const char *const names[2][2] = {{"origin", "fork"}, {"origin2", "fork2"}};
    struct harness *h = *state;
    harness_dirs(h);
    harness_start(h);
    for (unsigned i = 0; i < 12; i++) {
        const bool fork = i == 3, branch = i > 3 && i % 2;
        struct answer a[2];
        for (int k = 0; k < 2; k++) {
            struct proto_request r = turn(names[k][branch], fork ? names[k][1] : NULL, i);
            if (k) salt(&r);
            a[k] = answer_take(harness_run(h, &r));
            harness_forget(h);
            assert_done(&a[k], PROTO_STOP_LENGTH);
        }
        assert_int_equal(a[0].last.usage_prompt, a[1].last.usage_prompt);
        assert_int_equal(a[1].last.usage_cached, 0);
        if (i) assert_true(a[0].last.usage_cached > 0);
        assert_same(&a[0], &a[1]);
        answer_fini(&a[0]);
        answer_fini(&a[1]);
    }
    check_blocks(h);
}

int main(void)
{
#define EACH(test)                                                                                                     \
    cmocka_unit_test_setup_teardown(test, setup_lfm2, teardown),                                                       \
        cmocka_unit_test_setup_teardown(test, setup_granite, teardown),                                                \
        cmocka_unit_test_setup_teardown(test, setup_qwen, teardown),                                                   \
        cmocka_unit_test_setup_teardown(test, setup_mamba, teardown)
    const struct CMUnitTest tests[] = {
        EACH(test_little_kv), EACH(test_two_states),  EACH(test_one_state), EACH(test_least_pools),
        EACH(test_cancelled), EACH(test_stop_string), EACH(test_forked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
