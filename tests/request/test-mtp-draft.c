/* SPDX-License-Identifier: MIT */
/* The model's MTP layer as a drafter: the answers are those that come without it, bit for bit, whatever it says. Its
 * weights are random here, so that nearly all that it proposes is refused; tests/e2e/test_mtp.py has a model whose
 * layer is right. Catches: what the layer proposes that changes an answer, KV of the layer that is not given back,
 * states of the wrong items in model-states.c. Wrong states or KV that make drafts worse change no answer:
 * e2e/test_mtp.py counts the accepted ones. */
#include "daemon/engine/state.h"
#include "daemon/request/draft-model.h"
#include "daemon/request/model-draft.h"
#include "daemon/request/model-states.h"
#include "daemon/request/request.h"
#include "libcommon/error.h"
#include "tests/engine/harness.h"
#include <stdio.h>

/* OFF: without the layer. ALWAYS: it proposes wherever there is room. AUTO: where it pays. */
enum kind { OFF, ALWAYS, AUTO, KINDS };

static enum kind kind; /* set while no engine runs */
static struct answer truth[ANSWERS];
static long long drafted, accepted, by_layer, preemptions;

void __real_requests_sweep(struct core *core, uint64_t now);
void __wrap_requests_sweep(struct core *core, uint64_t now);

void __wrap_requests_sweep(struct core *core, uint64_t now)
{
    __real_requests_sweep(core, now);
    core->drafter.always = kind == ALWAYS;
}

static void assert_truth(const struct answer *t, const struct answer *a)
{
    assert_int_equal(a->last.type, PROTO_EV_DONE);
    assert_same(t, a);
    assert_int_equal(a->text.len, t->text.len);
    if (t->text.len) assert_memory_equal(a->text.data, t->text.data, t->text.len);
    assert_int_equal(a->last.reason, t->last.reason);
    assert_int_equal(a->last.usage_completion, t->last.usage_completion);
    assert_true(a->last.usage_accepted <= a->last.usage_drafted);
    assert_true(a->last.usage_drafted_model <= a->last.usage_drafted);
    if (kind == ALWAYS) by_layer += a->last.usage_drafted_model;
}

/* No sequence has KV of the layer. */
static void assert_layer_free(struct harness *h)
{
    struct model_draft_stats s;
    assert_int_equal(h->engine->core.drafter.model == NULL, kind == OFF);
    if (kind == OFF) return;
    model_draft_stats(&h->engine->core, &s);
    assert_true(s.blocks > 0);
    assert_int_equal(s.blocks_free, s.blocks);
}

/* The same requests in the same order, each time; they have ended when it returns. */
typedef void (*scenario_fn)(struct harness *h);

static void run_kinds(struct harness *h, scenario_fn scenario)
{
    static const enum proto_speculate modes[] = {PROTO_SPECULATE_OFF, PROTO_SPECULATE_DRAFT, PROTO_SPECULATE_AUTO};
    const uint64_t bytes = h->config.kv_bytes;
    h->forgetful = true; /* a preempted request may lose a part of its prompt */
    drafted = accepted = by_layer = preemptions = 0;
    for (kind = OFF; kind < KINDS; kind++) {
        h->config.speculation.mode = modes[kind];
        h->config.kv_bytes = kind == OFF ? bytes : bytes + bytes / 2; /* the layer's KV is a part of it */
        harness_start(h);
        scenario(h);
        for (uint64_t id = 1; id <= h->n; id++) {
            struct answer *a = harness_wait(h, id);
            if (kind == OFF)
                truth[id] = answer_take(a);
            else
                assert_truth(&truth[id], a);
        }
        if (kind == ALWAYS) drafted += harness_status(h, 0, "drafted");
        if (kind == ALWAYS) accepted += harness_status(h, 0, "accepted");
        if (kind != OFF) preemptions += harness_status(h, 0, "preemptions");
        assert_all_blocks_free(h);
        assert_layer_free(h);
        harness_stop(h);
    }
    h->config.kv_bytes = bytes;
    for (int i = 0; i < ANSWERS; i++) answer_fini(&truth[i]);
    assert_true(by_layer > 100 || h->config.batch_tokens == 1);
    assert_true(accepted < drafted || h->config.batch_tokens == 1);
}

static struct proto_request sampled(const char *prompt, float temperature, int64_t seed, int64_t tokens)
{
    struct proto_request r = harness_raw(prompt);
    r.gen.sampling.temperature = temperature;
    r.gen.sampling.seed = seed;
    r.gen.max_tokens = tokens;
    return r;
}

static const char grammar[] = "root ::= (\"ab \" | \"cd \" | [0-9] \", \")+";

/* Greedy and sampled, penalties, several answers, stop strings, a grammar, short ones; of several users. */
static void all_sorts(struct harness *h)
{
    struct proto_request r = sampled(harness_story, 0, 0, 70);
    harness_submit_as(h, 1, 1000, &r);
    r = sampled(harness_story, 0.8f, 12, 70);
    harness_submit_as(h, 2, 1000, &r);
    r = sampled("the sea", 1, 3, 60);
    r.gen.sampling.repeat_penalty = 1.3f;
    harness_submit_as(h, 3, 1001, &r);
    r = sampled(harness_story, 1.5f, 5, 50);
    r.gen.n = 3;
    harness_submit_as(h, 4, 1002, &r);
    for (int i = 0; i < 3; i++) {
        r = sampled(harness_story, 2, 20 + i, 100);
        assert_int_equal(proto_text_set(&r.gen.stop[r.gen.n_stop++], "e", 1), 0);
        harness_submit_as(h, 5, 1002, &r);
    }
    r = sampled("a list:", 1, 8, 60);
    r.constraint.type = PROTO_CONSTRAINT_GRAMMAR;
    assert_int_equal(proto_text_set(&r.constraint.text, grammar, strlen(grammar)), 0);
    harness_submit_as(h, 7, 1003, &r);
    for (int i = 1; i < 4; i++) {
        r = sampled("once", 1, i, i);
        harness_submit_as(h, 7, 1003, &r);
    }
}

static void test_all_sorts(void **state)
{
    struct harness *h = *state;
    static const uint32_t batches[] = {512, 20, 1};
    for (int b = 0; b < 3; b++) {
        h->config.batch_tokens = batches[b];
        run_kinds(h, all_sorts);
    }
}

/* Each turn finds the KV of the turns before, of which the layer has no states. */
static void session_turns(struct harness *h)
{
    static unsigned sessions;
    char name[16];
    snprintf(name, sizeof(name), "s%u", sessions++);
    for (int i = 0; i < 3; i++) {
        struct proto_request r = harness_user(name, harness_story);
        r.gen.max_tokens = 45;
        r.gen.sampling.temperature = i == 1 ? 1 : 0;
        r.gen.sampling.seed = 9;
        harness_run(h, &r);
    }
    for (int i = 0; i < 2; i++) {
        struct proto_request r = sampled(harness_story, 0, 0, 40);
        harness_run(h, &r);
    }
}

static void test_sessions(void **state)
{
    struct harness *h = *state;
    run_kinds(h, session_turns);
}

/* Answers that fill their context several times: items are taken out. */
static void long_answers(struct harness *h)
{
    static const enum proto_context policies[] = {PROTO_CONTEXT_SHIFT, PROTO_CONTEXT_REFUSE};
    for (int i = 0; i < 2; i++) {
        struct proto_request r = sampled(harness_story, 1, 30 + i, i < 1 ? 400 : -1);
        r.gen.context = policies[i];
        r.gen.ignore_eos = true;
        harness_submit(h, &r);
    }
}

static void test_context_policies(void **state)
{
    struct harness *h = *state;
    h->config.ctx = 128;
    run_kinds(h, long_answers);
    h->config.batch_tokens = 9;
    run_kinds(h, long_answers);
}

/* More answers than slots, of several users: they take turns. */
static void crowd(struct harness *h)
{
    harness_hold(h);
    for (int i = 0; i < 6; i++) {
        struct proto_request r = sampled(harness_story, 1, 40 + i, 300);
        r.gen.ignore_eos = true;
        harness_submit_as(h, 1 + (uint64_t)i, 1000 + (uid_t)i % 3, &r);
    }
    harness_go(h);
    for (uint64_t id = 1; id <= 6; id++) harness_wait(h, id);
}

static void test_preemption(void **state)
{
    struct harness *h = *state;
    h->config.parallel = 2;
    run_kinds(h, crowd);
    assert_true(preemptions > 4);
}

/* Prompts longer than what the layer reads of them. */
static void long_prompts(struct harness *h)
{
    static char text[8000];
    harness_text(text, sizeof(text), 5, 700);
    for (int i = 0; i < 2; i++) {
        struct proto_request r = sampled(text, (float)i, 3, 50);
        harness_submit_as(h, 1 + (uint64_t)i, 1000, &r);
    }
}

static void test_long_prompts(void **state)
{
    struct harness *h = *state;
    h->config.batch_tokens = 100;
    run_kinds(h, long_prompts);
}

/* --- which states it keeps --- */

static void test_states(void **state)
{
    struct model_states t = {0};
    float rows[300][2];
    for (int i = 0; i < 300; i++) rows[i][0] = rows[i][1] = (float)i;
    assert_null(model_states_of(&t, 0, 2));
    model_states_add(&t, 10, 5, rows[10], 2); /* of 10 … 14 */
    assert_float_equal(model_states_of(&t, 14, 2)[1], 14, 0);
    assert_null(model_states_of(&t, 9, 2));
    assert_null(model_states_of(&t, 15, 2));
    model_states_add(&t, 12, 2, rows[100], 2); /* 12 … 14 were refused */
    assert_float_equal(model_states_of(&t, 11, 2)[0], 11, 0);
    assert_float_equal(model_states_of(&t, 13, 2)[0], 101, 0);
    assert_null(model_states_of(&t, 14, 2));
    model_states_drop(&t, 12);
    assert_null(model_states_of(&t, 11, 2));
    assert_float_equal(model_states_of(&t, 12, 2)[0], 100, 0);
    model_states_add(&t, 20, 1, rows[20], 2); /* 14 … 19 are missing */
    assert_null(model_states_of(&t, 13, 2));
    assert_float_equal(model_states_of(&t, 20, 2)[0], 20, 0);
    model_states_add(&t, 21, 256, rows[21], 2);
    assert_null(model_states_of(&t, 20, 2));
    assert_float_equal(model_states_of(&t, 21, 2)[0], 21, 0);
    assert_int_equal(t.n, MODEL_STATES_MOST);
    model_states_add(&t, 277, 300, rows[0], 2);
    assert_float_equal(model_states_of(&t, 277 + 44, 2)[0], 44, 0);
    assert_null(model_states_of(&t, 277 + 43, 2));
    model_states_add(&t, 3, 1, rows[3], 2);
    assert_float_equal(model_states_of(&t, 3, 2)[0], 3, 0);
    assert_int_equal(t.n, 1);
    model_states_drop(&t, 100);
    assert_int_equal(t.n, 0);
    model_states_fini(&t);
}

/* Of a sequence that is not drafted for, the last rows stay, and they seldom move. */
static void test_states_of_one_not_drafted_for(void **state)
{
    struct model_states t = {0};
    uint32_t moved = 0;
    for (uint32_t i = 0; i < 3000; i++) {
        const float row[2] = {(float)i, -(float)i}, *first = t.rows + (size_t)t.first * 2;
        model_states_add(&t, i, 1, row, 2);
        moved += i >= 1000 && t.first == 0 && first != t.rows;
        assert_int_equal(t.n, i < MODEL_STATES_MOST ? i + 1 : MODEL_STATES_MOST);
        assert_int_equal(t.at + t.n, i + 1);
        for (uint32_t k = t.at; k <= i; k++) assert_float_equal(model_states_of(&t, k, 2)[1], -(float)k, 0);
    }
    assert_int_equal(t.room, MODEL_STATES_ROOM);
    assert_in_range(moved, 1, 2000 / (MODEL_STATES_ROOM - MODEL_STATES_MOST) + 1);
    model_states_fini(&t);
}

/* --- whether it is loaded --- */

static void test_loading(void **state)
{
    struct engine_config c;
    struct loaded m;
    struct tiny t;
    tiny_init(&t);
    t.arch = "glm4moe";
    engine_config_init(&c);
    c.kv_bytes = 1 << 20;
    assert_int_equal(harness_load(&m, &t, &c), 0);
    assert_true(m.draft && m.draft->mtp);
    assert_true(m.draft->backend->weight_bytes < m.backend->weight_bytes);
    assert_true(m.backend->config.kv_bytes + m.draft->backend->config.kv_bytes <= c.kv_bytes);
    loaded_fini(&m);
    c.speculation.no_mtp = true;
    assert_int_equal(harness_load(&m, &t, &c), 0);
    assert_null(m.draft);
    assert_int_equal(m.backend->config.kv_bytes, c.kv_bytes / (3 * 4096) * (3 * 4096)); /* blocks of three layers */
    loaded_fini(&m);
    c.speculation.mode = PROTO_SPECULATE_DRAFT;
    assert_int_equal(harness_load(&m, &t, &c), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "there is neither"));
    c.speculation.no_mtp = false;
    c.speculation.mode = PROTO_SPECULATE_LOOKUP;
    assert_int_equal(harness_load(&m, &t, &c), 0);
    assert_null(m.draft);
    loaded_fini(&m);
    c.speculation.mode = PROTO_SPECULATE_AUTO;
    t.arch = "exaone-moe-mtp"; /* what its layer computes is not known */
    assert_int_equal(harness_load(&m, &t, &c), 0);
    assert_null(m.draft);
    assert_int_equal(m.backend->hparams.n_layers, 5);
    loaded_fini(&m);
    t.arch = "bailingmoe2"; /* has a tensor of the layer that is not known */
    assert_int_equal(harness_load(&m, &t, &c), 0);
    assert_null(m.draft);
    loaded_fini(&m);
}

static int setup(void **state, const char *arch, uint64_t kv_bytes)
{
    struct harness *h = malloc(sizeof(*h));
    struct tiny t;
    if (!h) return -1;
    tiny_init(&t);
    t.arch = arch;
    t.ctx = 2048;
    harness_init(h, &t);
    h->config.kv_bytes = kv_bytes;
    *state = h;
    return 0;
}

static int setup_recurrent(void **state)
{
    return setup(state, "qwen35-mtp", 4 << 20);
}

static int setup_plain(void **state)
{
    return setup(state, "glm4moe", 1 << 20);
}

#define BOTH(test)                                                                                                     \
    cmocka_unit_test_setup_teardown(test, setup_plain, harness_teardown),                                              \
        cmocka_unit_test_setup_teardown(test, setup_recurrent, harness_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_all_sorts),           BOTH(test_sessions),
        BOTH(test_context_policies),    BOTH(test_preemption),
        BOTH(test_long_prompts),        cmocka_unit_test(test_states),
        cmocka_unit_test(test_loading), cmocka_unit_test(test_states_of_one_not_drafted_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
