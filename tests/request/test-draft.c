/* SPDX-License-Identifier: MIT */
/* Proposed tokens: whatever a drafter proposes, the answers are those that come without one. */
#include "daemon/request/lookup-draft.h"
#include "daemon/request/request.h"
#include "tests/engine/harness.h"
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/* NONE proposes nothing. The others propose, in the place of the tokens that come: those; others; the first half of
 * them and then others; those and others in turn; any, some of them out of the vocabulary; what the daemon's own
 * drafter finds (request/lookup-draft.c), wherever there is room or where it pays; what a draft model says that is the
 * model itself, or has other weights, wherever there is room; lookup and a draft model, where they pay. */
enum kind { NONE, RIGHT, WRONG, HALF, TURNS, RANDOM, LOOKUP, AUTO, SAME, OTHER, BOTH, KINDS };

#define FULL 64 /* sequences of which a refused draft is kept */

/* What the engine's thread proposes from; set while the engine does not run, or stands. */
static struct {
    enum kind kind;
    uint32_t most;                  /* tokens at once */
    struct answer answers[ANSWERS]; /* as they came without a drafter */
    unsigned drafted, random;
    long long looked_up, preemptions; /* accepted tokens of LOOKUP; of all kinds */
    long long same[2], other[2];      /* tokens of SAME and OTHER: drafted, accepted */
    bool keep;                        /* the drafts that are refused from their first token on */
    atomic_bool look;                 /* for them in the prefix index; then false */
    struct {
        struct prefix_namespace namespace;
        int32_t ids[512];
        uint32_t known, n;
    } full[FULL];
    uint32_t n_full;
} script;

static int32_t wrong(const struct core *core, int32_t id)
{
    return (int32_t)(((uint32_t)id + 1) % core->model.backend->hparams.vocab);
}

static int32_t random_id(const struct core *core)
{
    script.random = script.random * 1103515245 + 12345;
    return (int32_t)(script.random / 65536 % (core->model.backend->hparams.vocab + 20)) - 10;
}

/* Keep what is proposed and will be refused from the first token on. */
static void keep_refused(const struct seq *s, const int32_t *draft, uint32_t n)
{
    uint32_t known = seq_known(s);
    if (!script.keep || script.n_full == FULL || known + n > 512 || s->context.view) return;
    script.full[script.n_full].namespace = s->reuse.namespace;
    memcpy(script.full[script.n_full].ids, seq_ids(s), known * sizeof(*draft));
    memcpy(script.full[script.n_full].ids + known, draft, n * sizeof(*draft));
    script.full[script.n_full].known = known;
    script.full[script.n_full++].n = known + n;
}

static uint32_t propose(void *ctx, struct seq *s, int32_t *out, float *chance, uint32_t max)
{
    const struct core *core = ctx;
    const struct answer *t = &script.answers[s->request->proto.id + s->nth];
    uint32_t n = max < script.most ? max : script.most;
    assert_true(max > 0 && max <= SEQ_DRAFT_MAX);
    for (uint32_t i = 0; i < n; i++) {
        size_t at = s->generated + i;
        bool right = script.kind == RIGHT || (script.kind == HALF && i < n / 2) || (script.kind == TURNS && i % 2 == 0);
        int32_t id = at < t->n ? t->ids[at] : 0;
        out[i] = script.kind == RANDOM ? random_id(core) : right ? id : wrong(core, id);
    }
    if (script.kind == WRONG && s->generated < t->n) keep_refused(s, out, n);
    script.drafted += n;
    return n;
}

void __real_requests_sweep(struct core *core, uint64_t now);
void __wrap_requests_sweep(struct core *core, uint64_t now);

void __wrap_requests_sweep(struct core *core, uint64_t now)
{
    __real_requests_sweep(core, now);
    core->drafter = (struct drafter){.pasts = core->drafter.pasts, .model = core->drafter.model};
    if (script.kind >= LOOKUP)
        lookup_draft_use(core);
    else if (script.kind != NONE)
        core->drafter.propose = propose;
    if (script.kind < LOOKUP) core->drafter.ctx = core;
    core->drafter.always = script.kind != AUTO && script.kind != BOTH;
    if (!atomic_load(&script.look)) return;
    for (uint32_t i = 0; i < script.n_full; i++) {
        struct prefix_match m;
        prefix_find(core->cache.prefix, &script.full[i].namespace, items_tokens(script.full[i].ids, script.full[i].n),
                    &m);
        assert_true(m.n + m.n_partial <= script.full[i].known);
    }
    atomic_store(&script.look, false);
}

/* --- running the same requests with each drafter --- */

static void crowd(struct harness *h);

static void script_clear(void)
{
    for (int i = 0; i < ANSWERS; i++) {
        answer_fini(&script.answers[i]);
    }
    memset(&script, 0, sizeof(script));
}

static void assert_truth(const struct answer *t, const struct answer *a)
{
    assert_int_equal(a->last.type, PROTO_EV_DONE);
    assert_int_equal(a->n, t->n);
    assert_memory_equal(a->ids, t->ids, t->n * sizeof(*t->ids));
    assert_memory_equal(a->logprobs, t->logprobs, t->n * sizeof(*t->logprobs));
    assert_int_equal(a->text.len, t->text.len);
    if (t->text.len) assert_memory_equal(a->text.data, t->text.data, t->text.len);
    assert_int_equal(a->last.reason, t->last.reason);
    assert_int_equal(a->last.usage_completion, t->last.usage_completion);
    assert_int_equal(a->last.usage_prompt, t->last.usage_prompt);
}

/* The same requests in the same order, each time; they have ended when it returns. */
typedef void (*scenario_fn)(struct harness *h);

/* A model with the vocabulary and shape of the harness's, and other weights. */
static void write_other(char path[64])
{
    struct tiny t;
    tiny_init(&t);
    t.ctx = 2048;
    t.seed = 99;
    snprintf(path, 64, "/tmp/hob-other-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(tiny_write(&t, path), 0);
}

static void count_drafts(struct harness *h, long long to[2])
{
    to[0] += harness_status(h, 0, "drafted");
    to[1] += harness_status(h, 0, "accepted");
}

/* Start with what @kind needs; the model's own KV has as much room as without a draft model. */
static void start_kind(struct harness *h, enum kind kind, char other[64])
{
    uint64_t bytes = h->config.kv_bytes;
    h->config.speculation.mode = kind == SAME || kind == OTHER ? PROTO_SPECULATE_DRAFT : PROTO_SPECULATE_AUTO;
    h->config.speculation.draft = kind == SAME ? h->path : kind >= OTHER ? other : NULL;
    if (kind >= OTHER) write_other(other);
    if (kind >= SAME) h->config.kv_bytes = bytes / 3 * 4;
    script.kind = kind;
    script.drafted = 0;
    harness_start(h);
    if (kind >= OTHER) unlink(other);
    h->config.kv_bytes = bytes;
}

static void run_kind(struct harness *h, scenario_fn scenario, enum kind kind)
{
    char other[64];
    start_kind(h, kind, other);
    scenario(h);
    for (uint64_t id = 1; id <= h->n; id++) {
        struct answer *a = harness_wait(h, id);
        if (kind == NONE)
            script.answers[id] = answer_take(a);
        else
            assert_truth(&script.answers[id], a);
    }
    assert_true(kind == NONE || kind >= LOOKUP || h->config.batch_tokens == 1 ? script.drafted == 0
                                                                              : script.drafted > 0);
    script.looked_up += kind == LOOKUP ? harness_status(h, 0, "accepted") : 0;
    if (kind == SAME) count_drafts(h, script.same);
    if (kind == OTHER) count_drafts(h, script.other);
    assert_all_blocks_free(h);
    harness_stop(h);
}

static void run_kinds(struct harness *h, scenario_fn scenario)
{
    h->forgetful = true; /* a preempted request may lose a part of its prompt */
    static const uint32_t most[] = {SEQ_DRAFT_MAX, 3};
    script.most = SEQ_DRAFT_MAX;
    run_kind(h, scenario, NONE);
    for (int i = 0; i < 2; i++)
        for (enum kind kind = RIGHT; kind < KINDS; kind++) {
            script.most = most[i];
            run_kind(h, scenario, kind);
        }
    assert_true(scenario != crowd || script.preemptions > KINDS);
    assert_true(script.looked_up > 0 || h->config.batch_tokens <= 2);
    assert_true(script.same[1] > script.other[1] || h->config.batch_tokens == 1);
    assert_true(script.other[0] > script.other[1] || h->config.batch_tokens == 1);
    script_clear();
}

/* --- requests --- */

static struct proto_request sampled(const char *prompt, float temperature, int64_t seed, int64_t tokens)
{
    struct proto_request r = harness_raw(prompt);
    r.gen.sampling.temperature = temperature;
    r.gen.sampling.seed = seed;
    r.gen.max_tokens = tokens;
    return r;
}

static void add_stop(struct proto_request *r, const char *stop)
{
    assert_int_equal(proto_text_set(&r->gen.stop[r->gen.n_stop++], stop, strlen(stop)), 0);
}

static const char grammar[] = "root ::= (\"ab \" | \"cd \" | [0-9] \", \")+";

/* All kinds of sampling, a grammar, stop strings, ends of answers, several answers and several clients, at once. */
static void all_sorts(struct harness *h)
{
    struct proto_request r = sampled(harness_story, 0, 0, 70);
    harness_submit_as(h, 1, 1000, &r);
    r = sampled(harness_story, 0.8f, 12, 70);
    harness_submit_as(h, 2, 1000, &r);
    r = sampled("the sea", 1, 3, 60);
    r.gen.sampling.repeat_penalty = 1.3f;
    r.gen.sampling.frequency_penalty = 0.5f;
    harness_submit_as(h, 3, 1001, &r);
    r = sampled("the house", 1, 4, 60);
    r.gen.sampling.mirostat = 3;
    r.gen.sampling.mirostat_eta = 0.1f;
    harness_submit_as(h, 3, 1001, &r);
    r = sampled(harness_story, 1.5f, 5, 50);
    r.gen.n = 3;
    harness_submit_as(h, 4, 1002, &r);
    for (int i = 0; i < 6; i++) {
        r = sampled(harness_story, 2, 20 + i, 200);
        add_stop(&r, "e");
        add_stop(&r, "th");
        harness_submit_as(h, 5, 1002, &r);
    }
    for (int i = 0; i < 3; i++) {
        r = sampled("you", 100, 3 + i, 150); /* ends by an end token, or not */
        r.gen.sampling.top_k = 0;
        r.gen.sampling.top_p = 1;
        r.gen.sampling.min_p = 0;
        harness_submit_as(h, 6, 1003, &r);
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

static void test_drafts_change_no_bit(void **state)
{
    struct harness *h = *state;
    static const uint32_t batches[] = {512, 20, 2, 1};
    for (int b = 0; b < 4; b++) {
        h->config.batch_tokens = batches[b];
        run_kinds(h, all_sorts);
    }
}

static void test_two_threads(void **state)
{
    struct harness *h = *state;
    h->config.threads = 2;
    h->config.kv_type = KERN_KV_F32;
    run_kinds(h, all_sorts);
}

/* Each turn reads the KV that the turns before have written. */
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
}

static void test_sessions(void **state)
{
    struct harness *h = *state;
    run_kinds(h, session_turns);
}

/* Answers that fill their context several times. */
static void long_answers(struct harness *h)
{
    static const enum proto_context policies[] = {PROTO_CONTEXT_SHIFT, PROTO_CONTEXT_ROTATE, PROTO_CONTEXT_REFUSE};
    for (int i = 0; i < 3; i++) {
        struct proto_request r = sampled(harness_story, 1, 30 + i, i < 2 ? 400 : -1);
        r.gen.context = policies[i];
        r.gen.ignore_eos = true;
        harness_submit(h, &r);
    }
}

static void test_context_policies(void **state)
{
    struct harness *h = *state;
    static const uint32_t ctx[] = {128, 150}, batches[] = {512, 9};
    for (int i = 0; i < 2; i++)
        for (int b = 0; b < 2; b++) {
            h->config.ctx = ctx[i];
            h->config.batch_tokens = batches[b];
            run_kinds(h, long_answers);
        }
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
    script.preemptions += harness_status(h, 0, "preemptions");
}

static void test_preemption(void **state)
{
    struct harness *h = *state;
    h->forgetful = true;
    h->config.parallel = 2;
    h->config.kv_bytes = 2 * 32 * 2 * 2 * 16 * 2 * 30;
    run_kinds(h, crowd);
}

/* The index has what was sampled, and nothing of what was refused, also in the last block of an answer. */
static void test_refused_is_not_indexed(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    script.most = SEQ_DRAFT_MAX;
    script.keep = true;
    for (int i = 0; i < 2; i++) {
        struct proto_request r = sampled(harness_story, 0, 0, 45);
        struct answer *a = harness_wait(h, harness_submit_as(h, 1, 1000 + (uid_t)i, &r));
        if (i == 1) assert_truth(&script.answers[1], a);
        if (i == 0) script.answers[1] = answer_take(a);
        harness_hold(h);
        script.answers[2] = script.answers[1];
        script.kind = WRONG;
        harness_go(h);
    }
    assert_int_equal(script.n_full, 43); /* none for the first token, none when one is left */
    atomic_store(&script.look, true);
    while (atomic_load(&script.look)) engine_pause(h->engine, UINT64_MAX, false);
    script.answers[2] = (struct answer){0};
    script_clear();
}

/* Nor has the disk, from which a later daemon reads: it finds what was sampled, which gives the same bits. */
static void test_refused_is_not_on_disk(void **state)
{
    struct harness *h = *state;
    struct proto_request r = sampled(harness_story, 0, 0, 90);
    harness_dirs(h);
    script.most = SEQ_DRAFT_MAX;
    harness_start(h);
    script.answers[1] = answer_take(harness_wait(h, harness_submit_as(h, 1, 1001, &r))); /* another namespace */
    harness_stop(h);
    script.keep = true;
    script.kind = WRONG;
    for (int i = 0; i < 2; i++) {
        harness_start(h);
        harness_wait_disk(h);
        atomic_store(&script.look, i == 1);
        while (atomic_load(&script.look)) engine_pause(h->engine, UINT64_MAX, false);
        r = sampled(harness_story, 0, 0, 90);
        struct answer *a = harness_wait(h, harness_submit_as(h, 1, 1000, &r));
        assert_truth(&script.answers[1], a);
        assert_int_equal(a->last.usage_cached > 0, i);
        harness_stop(h);
        assert_true(script.n_full > 40);
    }
    script_clear();
}

/* --- counts --- */

/* Steps of a greedy answer of @tokens tokens with a draft of @most tokens. */
static long long steps_of(struct harness *h, enum kind kind, uint32_t most, int64_t tokens)
{
    char other[64];
    script.most = most;
    start_kind(h, kind, other);
    struct proto_request r = sampled(harness_story, 0, 0, tokens);
    r.gen.ignore_eos = true;
    struct answer *a = harness_run(h, &r);
    assert_int_equal(a->n, tokens);
    if (kind == NONE)
        script.answers[1] = answer_take(a);
    else
        assert_truth(&script.answers[1], a);
    long long steps = harness_status(h, 0, "steps");
    harness_stop(h);
    return steps;
}

static void test_steps(void **state)
{
    struct harness *h = *state;
    long long all = steps_of(h, NONE, 0, 97);
    assert_int_equal(all, 97); /* the prompt, which gives the first token, and 96 */
    for (uint32_t k = 1; k <= SEQ_DRAFT_MAX; k++) {
        assert_int_equal(steps_of(h, RIGHT, k, 97), 1 + (96 + k) / (k + 1));
        assert_int_equal(steps_of(h, WRONG, k, 97), all);
    }
    assert_int_equal(steps_of(h, HALF, 6, 97), 1 + 92 / 4 + 3); /* the drafts of the last tokens are shorter */
    assert_int_equal(steps_of(h, SAME, 0, 97), 1 + (96 + SEQ_DRAFT_MAX) / (SEQ_DRAFT_MAX + 1));
    assert_true(steps_of(h, OTHER, 0, 97) > 90);
    h->config.batch_tokens = 1;
    assert_true(steps_of(h, RIGHT, 8, 97) > 97);
    script_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_drafts_change_no_bit, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_two_threads, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_sessions, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_context_policies, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_preemption, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_refused_is_not_indexed, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_refused_is_not_on_disk, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_steps, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
