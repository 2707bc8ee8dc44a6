/* SPDX-License-Identifier: MIT */
/* Who gets a place: positions, limits, and blocks that run short. */
#include "daemon/engine/state.h"
#include "tests/engine/harness.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>

static void test_queue_positions_and_limit(void **state)
{
    struct harness *h = *state;
    h->config.parallel = 1;
    h->config.queue = 3;
    harness_start(h);
    uint64_t first = harness_occupy(h, 5), id[3];
    engine_pause(h->engine, 5, true);
    for (int i = 0; i < 3; i++) {
        struct proto_request r = harness_raw("the");
        id[i] = harness_submit(h, &r);
        harness_wait_any(h, id[i]);
    }
    struct proto_request r = harness_raw("one too many");
    assert_error(harness_run(h, &r), EBUSY, "the queue is full");
    r = harness_simple(PROTO_STATUS); /* can always be asked */
    struct answer *s = harness_run(h, &r);
    assert_int_equal(s->last.type, PROTO_EV_STATUS);
    assert_non_null(strstr(s->last.status.data, "\"queued\":3"));
    engine_cancel(h->engine, 5, first);
    harness_wait(h, first);
    for (int i = 0; i < 3; i++) {
        struct answer *a = harness_wait(h, id[i]);
        assert_done(a, PROTO_STOP_LENGTH);
        assert_int_equal(a->queued[0], i + 1);
        assert_int_equal(a->queued_n, i + 1); /* told again whenever it moved up */
        for (unsigned k = 1; k < a->queued_n; k++) assert_int_equal(a->queued[k], a->queued[k - 1] - 1);
    }
}

/* A uid that fills the queue does not keep another out of it: its own latest request gives way. */
static void test_flood(void **state)
{
    struct harness *h = *state;
    uint64_t id[5];
    h->config.parallel = 1;
    h->config.queue = 4;
    harness_start(h);
    uint64_t first = harness_occupy(h, 5);
    for (int i = 0; i < 4; i++) {
        struct proto_request r = harness_raw("the");
        id[i] = harness_submit(h, &r);
        harness_wait_any(h, id[i]);
    }
    struct proto_request r = harness_raw(harness_story); /* too long for a slot at once */
    id[4] = harness_submit_as(h, 6, 1001, &r);
    assert_error(harness_wait(h, id[3]), EBUSY, "the queue is full");
    assert_done(harness_wait(h, id[4]), PROTO_STOP_LENGTH); /* and it is first, long before the other's end */
    engine_cancel(h->engine, 5, first);
    for (int i = 0; i < 3; i++) assert_done(harness_wait(h, id[i]), PROTO_STOP_LENGTH);
}

/* Requests of one uid that are new in the same turn do not keep the cache from being asked for another's. */
static void test_flood_of_lookups(void **state)
{
    enum { FLOOD = 30 };
    struct harness *h = *state;
    uint64_t id[FLOOD + 1];
    h->config.parallel = 1;
    harness_start(h);
    struct core *core = &h->engine->core;
    uint64_t first = harness_occupy(h, 5);
    harness_hold(h);
    for (int i = 0; i <= FLOOD; i++) {
        struct proto_request r = harness_raw(harness_story);
        id[i] = harness_submit_as(h, i < FLOOD ? 5 : 6, i < FLOOD ? 1000 : 1001, &r);
    }
    for (unsigned n = 0; n <= FLOOD; sched_yield()) { /* until all are prepared */
        pthread_mutex_lock(&core->mail.lock);
        n = 0;
        for (const struct return_job *x = core->mail.returns.finished; x; x = x->next) n++;
        pthread_mutex_unlock(&core->mail.lock);
    }
    harness_turn(h); /* they wait */
    harness_turn(h); /* the scheduler has seen them */
    unsigned looked = 0;
    for (const struct seq *s = core->seqs.head; s; s = s->next)
        if (s->uid == 1001) looked += s->sched.looked_step > 0;
    assert_int_equal(looked, 1);
    harness_go(h);
    engine_cancel(h->engine, 5, first);
    for (int i = 0; i < FLOOD; i++) engine_cancel(h->engine, 5, id[i]);
    for (int i = 0; i <= FLOOD; i++) harness_wait(h, id[i]);
    assert_done(h->answers + id[FLOOD], PROTO_STOP_LENGTH);
}

/* Nor does one who has as many as the daemon takes at once, waiting for a session of his own, where no queue counts
 * them. */
static void test_flood_at_the_door(void **state)
{
    struct harness *h = *state;
    h->config.queue = 2;
    harness_start(h);
    struct proto_request r = harness_user("s", "tell");
    r.gen.max_tokens = 1u << 30;
    r.gen.context = PROTO_CONTEXT_ROTATE;
    r.gen.ignore_eos = true;
    uint64_t first = harness_submit_as(h, 5, 1000, &r), n = 1;
    harness_wait_texts(h, first, 1);
    engine_pause(h->engine, 5, true);
    for (;; n++) {
        r = harness_user("s", "wait");
        r.gen.wait = true;
        r.id = h->n + 1;
        if (engine_submit(h->engine, 5, 1000, &r) < 0) break;
        h->n++;
    }
    proto_request_fini(&r);
    assert_int_equal(n, 2 * h->config.queue + h->config.parallel);
    r = harness_raw("you");
    assert_done(harness_wait(h, harness_submit_as(h, 6, 1001, &r)), PROTO_STOP_LENGTH);
    engine_pause(h->engine, 5, false);
    for (uint64_t id = first; id < first + n; id++) engine_cancel(h->engine, 5, id);
    for (uint64_t id = first; id < first + n; id++) harness_wait(h, id);
    r = harness_raw("the");
    assert_done(harness_wait(h, harness_submit_as(h, 5, 1000, &r)), PROTO_STOP_LENGTH);
    assert_int_equal(engine_load(h->engine), 0);
}

/* One slot: who comes later takes it from who was served more, and the latter continues where it was, bit for bit. */
static void test_slot_changes_hands(void **state)
{
    struct harness *h = *state;
    struct answer *a[3];
    uint64_t id[2];
    h->config.parallel = 1;
    harness_start(h);
    for (int i = 0; i < 3; i++) {
        struct proto_request r = harness_raw(harness_story);
        r.gen.max_tokens = 900;
        r.gen.ignore_eos = true;
        r.gen.sampling.temperature = 1;
        r.gen.sampling.seed = 3;
        r.gen.sampling.mirostat = 4; /* what it has learnt continues, too */
        if (i < 2) {
            id[i] = harness_submit_as(h, 5 + i, 1000 + i, &r);
            harness_wait_any(h, id[i]);
        } else {
            for (int k = 0; k < 2; k++) a[k] = harness_wait(h, id[k]);
            a[2] = harness_wait(h, harness_submit_as(h, 9, 1002, &r));
        }
    }
    for (int i = 0; i < 3; i++) assert_done(a[i], PROTO_STOP_LENGTH);
    assert_same(a[0], a[1]);
    assert_same(a[0], a[2]);
    assert_true(harness_status(h, 0, "preemptions") >= 2);
}

/* One who used the machine while nobody else wanted it owes nothing for that to those who come later; nor has one saved
 * anything up who came once, and left before it was its turn. */
static struct proto_request tell(uint32_t tokens)
{
    struct proto_request r = harness_raw(harness_story);
    r.gen.max_tokens = tokens;
    r.gen.ignore_eos = true;
    return r;
}

static void idle_use_costs_nothing(struct harness *h, bool came)
{
    uint64_t flood[3];
    h->config.parallel = 1;
    harness_start(h);
    if (came) { /* two answers, of which one waits for the other's slot */
        struct proto_request r = tell(1900);
        r.gen.n = 2;
        uint64_t id = harness_submit_as(h, 9, 2000, &r);
        harness_wait_texts(h, id + 1, 1);
        engine_cancel(h->engine, 9, id);
        for (unsigned i = 0; i < 2; i++) assert_done(harness_wait(h, id + i), PROTO_STOP_CANCEL);
    }
    struct proto_request r = tell(1900);
    assert_done(harness_wait(h, harness_submit_as(h, 4, 1000, &r)), PROTO_STOP_LENGTH);
    r = tell(1900);
    harness_wait_texts(h, harness_submit_as(h, 8, 3000, &r), 1); /* so that they wait */
    for (unsigned i = 0; i < 3; i++) {
        r = tell(1000);
        flood[i] = harness_submit_as(h, 5, 2000, &r);
    }
    harness_wait_texts(h, flood[0], 1);
    r = harness_raw("the");
    assert_done(harness_wait(h, harness_submit_as(h, 6, 1000, &r)), PROTO_STOP_LENGTH);
    for (unsigned i = 0; i < 3; i++) assert_false(h->answers[flood[i]].ended);
    harness_stop(h);
}

static void test_idle_use_costs_nothing(void **state)
{
    idle_use_costs_nothing(*state, false);
}

static void test_leaving_saves_nothing_up(void **state)
{
    idle_use_costs_nothing(*state, true);
}

/* Cut short while another has its slot: what it said is its session's all the same. */
static void test_cut_without_a_slot(void **state)
{
    struct harness *h = *state;
    uint64_t id[2];
    h->config.parallel = 1;
    harness_start(h);
    for (unsigned i = 0; i < 2; i++) {
        struct proto_request r = harness_user(i ? NULL : "cut", "tell");
        r.gen.max_tokens = 1500;
        r.gen.ignore_eos = true;
        id[i] = harness_submit_as(h, 5 + i, 1000 + i, &r);
        harness_wait_texts(h, id[i], 1);
    }
    assert_true(harness_status(h, 0, "preemptions") > 0);
    engine_cancel(h->engine, 5, id[0]);
    struct answer *cut = harness_wait(h, id[0]);
    assert_done(cut, PROTO_STOP_CANCEL);
    assert_true(cut->last.usage_completion > 0);
    engine_cancel(h->engine, 6, id[1]);
    struct proto_request r = harness_user("cut", "on");
    struct answer *on = harness_wait(h, harness_submit(h, &r));
    assert_done(on, PROTO_STOP_LENGTH);
    assert_true(on->last.usage_prompt > cut->last.usage_prompt + cut->last.usage_completion);
    assert_true(on->last.usage_cached + 1 >= cut->last.usage_prompt + cut->last.usage_completion);
}

/* Of one uid's own requests, the urgent ones first. */
static void test_priority(void **state)
{
    struct harness *h = *state;
    static const enum proto_priority order[] = {PROTO_PRIORITY_BATCH, PROTO_PRIORITY_INTERACTIVE,
                                                PROTO_PRIORITY_INFILL};
    uint64_t id[3];
    h->config.parallel = 1;
    harness_start(h);
    struct proto_request r = harness_raw(harness_story);
    r.gen.priority = PROTO_PRIORITY_INFILL;
    r.gen.max_tokens = 1500;
    r.gen.ignore_eos = true;
    uint64_t first = harness_submit_as(h, 5, 1000, &r);
    harness_wait_texts(h, first, 1);
    for (int i = 0; i < 3; i++) {
        r = harness_raw("the");
        r.gen.priority = order[i];
        id[i] = harness_submit(h, &r);
        harness_wait_any(h, id[i]);
    }
    engine_cancel(h->engine, 5, first);
    assert_done(harness_wait(h, id[0]), PROTO_STOP_LENGTH); /* the last of them */
    for (int i = 1; i < 3; i++) assert_true(h->answers[id[i]].ended);
}

/* While there are only requests of class batch, at least four and at most twelve run for each of the others that could;
 * another one does not wait for them. */
static void test_batches_alone(void **state)
{
    struct harness *h = *state;
    uint64_t id[13];
    h->config.parallel = 1;
    harness_start(h);
    struct proto_request r;
    for (int i = 0; i < 13; i++) {
        r = harness_raw(harness_story);
        r.gen.priority = PROTO_PRIORITY_BATCH;
        r.gen.max_tokens = 1900;
        r.gen.ignore_eos = true;
        id[i] = harness_submit_as(h, 5 + (uint64_t)i, 1000, &r);
    }
    for (int i = 0; i < 4; i++) harness_wait_texts(h, id[i], 1);
    harness_wait_any(h, id[12]);
    assert_true(h->answers[id[12]].queued_n > 0);
    r = harness_raw("the");
    assert_done(harness_run(h, &r), PROTO_STOP_LENGTH);
    assert_int_equal(h->answers[id[12]].texts, 0);
    for (int i = 0; i < 13; i++) {
        assert_false(h->answers[id[i]].ended);
        engine_cancel(h->engine, 5 + (uint64_t)i, id[i]);
    }
    for (int i = 0; i < 13; i++) assert_done(harness_wait(h, id[i]), PROTO_STOP_CANCEL);
}

/* Many with one long beginning, all cold and at once: it is computed once. */
static void test_shared_work(void **state)
{
    struct harness *h = *state;
    char text[1200];
    uint64_t id[12], computed = 0, own = 0, beginning = 0;
    size_t n = 0;
    for (unsigned i = 0; n + 20 < sizeof(text); i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, " %u the sea", i);
    h->config.batch_tokens = 64;
    harness_start(h);
    struct proto_request q = harness_simple(PROTO_TOKENIZE);
    assert_int_equal(proto_text_set(&q.text, text, n), 0);
    beginning = harness_run(h, &q)->last.tokens.n;
    for (unsigned i = 0; i < 12; i++) {
        char all[1300];
        snprintf(all, sizeof(all), "%s and %u", text, i);
        struct proto_request r = harness_raw(all);
        id[i] = harness_submit_as(h, 10 + i, 1000, &r);
    }
    engine_cancel(h->engine, 10, id[0]); /* another takes over */
    for (unsigned i = 1; i < 12; i++) {
        struct answer *a = harness_wait(h, id[i]);
        assert_done(a, PROTO_STOP_LENGTH);
        computed += a->last.usage_prompt - a->last.usage_cached;
        own += a->last.usage_prompt - beginning / 32 * 32;
    }
    assert_true(beginning > 200);
    assert_true(computed <= beginning + own + 11);
    for (unsigned i = 1; i < 12; i += 5) {
        char all[1300];
        snprintf(all, sizeof(all), "%s and %u", text, i);
        struct proto_request r = harness_raw(all);
        assert_same(&h->answers[id[i]], harness_wait(h, harness_submit_as(h, 9, 2000 + i, &r)));
    }
}

/* Blocks for one sequence at a time only: all are served, one after the other, and none is refused. */
static void test_blocks_run_short(void **state)
{
    struct harness *h = *state;
    h->config.kv_bytes = 2 * 32 * 2 * 2 * 16 * 2 * 9; /* 9 blocks: 2 layers, 2 KV heads, dim 16, f16 */
    harness_start(h);
    uint64_t id[6];
    struct answer *a[6];
    for (int i = 0; i < 6; i++) {
        struct proto_request r = harness_raw(harness_story);
        r.gen.max_tokens = 100;
        r.gen.ignore_eos = true;
        id[i] = harness_submit(h, &r);
    }
    for (int i = 0; i < 6; i++) {
        a[i] = harness_wait(h, id[i]);
        assert_done(a[i], PROTO_STOP_LENGTH);
        if (i) assert_same(a[0], a[i]);
    }
    struct proto_request r = harness_raw(harness_story);
    r.gen.max_tokens = -1;
    r.gen.ignore_eos = true;
    struct answer *b = harness_run(h, &r); /* what fits is the context */
    assert_done(b, PROTO_STOP_CONTEXT);
    assert_int_equal(b->last.usage_prompt + b->last.usage_completion, 9 * 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_queue_positions_and_limit, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_flood, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_flood_at_the_door, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_slot_changes_hands, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_idle_use_costs_nothing, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_leaving_saves_nothing_up, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_cut_without_a_slot, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_flood_of_lookups, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_batches_alone, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_priority, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_shared_work, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_blocks_run_short, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
