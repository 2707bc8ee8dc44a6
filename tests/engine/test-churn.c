/* SPDX-License-Identifier: MIT */
/* All kinds of requests at once, of which many end early in one way or another: nothing is left of them, and the engine
 * ends whatever they are about. */
#include "tests/engine/harness.h"
#include <poll.h>
#include <unistd.h>

#define ROUNDS 6
#define STEPS  120

static struct proto_text words(unsigned n)
{
    unsigned kept = harness_seed; /* many have a beginning in common */
    struct proto_text t = {0};
    struct buf b = BUF_INIT;
    harness_seed = kept % 3;
    for (unsigned i = 0; i < n; i++) assert_int_equal(buf_printf(&b, "%s ", harness_word()), 0);
    harness_seed = kept;
    t.data = buf_steal(&b, &t.len);
    return t;
}

static struct proto_request any(void)
{
    static const enum proto_type types[] = {PROTO_GENERATE, PROTO_GENERATE, PROTO_GENERATE,      PROTO_WARM,
                                            PROTO_INFILL,   PROTO_TOKENIZE, PROTO_SESSION_REMOVE};
    static const char *const sessions[] = {"a", "b", "c"};
    struct proto_request r = harness_simple(types[harness_draw(7)]);
    const char *session = sessions[harness_draw(3)];
    struct proto_generate *g = &r.gen;
    if (r.type == PROTO_TOKENIZE) r.text = words(harness_draw(3000));
    if (r.type == PROTO_SESSION_REMOVE) assert_int_equal(proto_text_set(&r.name, session, 1), 0);
    if (r.type == PROTO_TOKENIZE || r.type == PROTO_SESSION_REMOVE) return r;
    g->sampling.seed = 1;
    g->sampling.temperature = 1;
    g->max_tokens = 1 + harness_draw(200);
    g->ignore_eos = harness_draw(2);
    g->logprobs = harness_draw(2);
    if (harness_draw(4) == 0) g->timeout_ms = harness_draw(40);
    if (r.type == PROTO_INFILL) {
        g->infill.prefix = words(harness_draw(80));
        g->infill.suffix = words(1 + harness_draw(80));
        return r;
    }
    g->raw = true;
    g->prompt = words(1 + harness_draw(200));
    g->context = (enum proto_context)harness_draw(4);
    if (harness_draw(3) == 0) {
        assert_int_equal(proto_text_set(&g->session, session, 1), 0);
        g->wait = harness_draw(2);
        g->detach = harness_draw(2);
        if (harness_draw(4) == 0) assert_int_equal(proto_text_set(&g->fork, sessions[harness_draw(3)], 1), 0);
    } else if (harness_draw(2)) {
        g->n = 1 + harness_draw(6);
    }
    return r;
}

static void churn(struct harness *h, bool to_the_end)
{
    uint32_t live = 0;
    harness_start(h);
    for (uint64_t id = 1; id <= STEPS; id++) {
        struct proto_request r = any();
        uint64_t other = 1 + harness_draw((unsigned)id);
        r.id = id;
        if (engine_submit(h->engine, id % 5, 1000 + id % 2, &r) == 0)
            live++;
        else
            proto_request_fini(&r);
        harness_drop_events(h, &live);
        if (harness_draw(3) == 0) engine_cancel(h->engine, other % 5, other);
        if (harness_draw(6) == 0) engine_abandon(h->engine, other % 5, other);
        if (harness_draw(8) == 0) engine_pause(h->engine, other % 5, harness_draw(2));
        if (harness_draw(20) == 0) engine_shed(h->engine);
        usleep(harness_draw(4) * 1000);
        harness_drop_events(h, &live);
    }
    for (uint64_t conn = 0; conn < 5; conn++) engine_pause(h->engine, conn, false);
    while (to_the_end && live) {
        struct pollfd p = {.fd = engine_fd(h->engine), .events = POLLIN};
        assert_true(poll(&p, 1, 60000) > 0);
        harness_drop_events(h, &live);
    }
    if (to_the_end) {
        assert_int_equal(engine_load(h->engine), 0);
        assert_int_equal(engine_detached(h->engine), 0);
        assert_int_equal(harness_status(h, 0, "running") + harness_status(h, 0, "queued"), 0);
        assert_all_blocks_free(h);
    }
    harness_stop(h);
}

static void test_nothing_is_left(void **state)
{
    static const uint64_t kv_bytes[] = {4 << 20, 600 << 10};
    struct harness *h = *state;
    struct tiny t;
    harness_fini(h);
    tiny_init(&t);
    t.ctx = 256;
    t.fim = "texts";
    harness_init(h, &t);
    harness_dirs(h);
    for (unsigned i = 0; i < ROUNDS; i++) {
        harness_seed = i;
        h->config.parallel = i % 3 ? 4 : 1;
        h->config.kv_bytes = kv_bytes[i / 2 % 2];
        h->config.batch_tokens = i % 3 == 2 ? 9 : 64;
        churn(h, i % 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_is_left, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
