/* SPDX-License-Identifier: MIT */
/* Host memory behind the blocks of a backend that is not the CPU's: what was evicted comes back with the same bits, and
 * is not computed again. Covers daemon/cache/host-pool.c and daemon/sequence/fetch-blocks.c. */
#include "daemon/cache/host-pool.h"
#include "daemon/cache/prefix/prefix-host.h"
#include "daemon/engine/state.h"
#include "libcommon/error.h"
#include "tests/backend/counting.h"
#include "tests/engine/harness.h"
#include <stdio.h>
#include <unistd.h>

#define DOCS  6
#define BLOCK (2 * 32 * 2 * 2 * 16 * 2) /* bytes of a block of the harness's model */

/* The answers of a daemon that has no more room than it needs. */
static void ask(struct harness *h, unsigned i, uid_t uid, struct answer **out)
{
    char doc[4096];
    harness_text(doc, sizeof(doc), 10 + i, 120);
    *out = harness_run_seeded(h, uid, doc, "");
}

static void start(struct harness *h, uint64_t blocks, uint64_t host)
{
    h->config.kv_bytes = blocks * BLOCK;
    h->config.kv_host_bytes = host * BLOCK;
    harness_start(h);
}

/* No answer runs: the index is sound, and each slot is a node's. */
static void check(struct harness *h)
{
    struct kv_cache *c = &h->engine->core.cache;
    struct host_pool_stats s;
    struct prefix_stats sum;
    harness_hold(h);
    prefix_check(c->prefix);
    host_pool_stats(c, &s);
    prefix_stats_get(c->prefix, (uid_t)-1, &sum);
    assert_int_equal(s.blocks.slots - s.blocks.free, sum.blocks_host);
    assert_int_equal(s.states.slots - s.states.free, sum.states_host);
    assert_true(s.bytes <= h->config.kv_host_bytes && s.bytes_taken <= s.bytes);
    harness_go(h);
}

/* Of the prompt of @a, from one to @most tokens were computed. */
static void assert_computed(const struct answer *a, uint64_t most)
{
    assert_in_range(a->last.usage_prompt - a->last.usage_cached, 1, most);
}

/* All documents three times, with the same answers, which are *first; the last two times at most @most tokens of each
 * prompt are computed, and not half of all. */
static void ask_three_times(struct harness *h, struct answer first[DOCS], uint64_t most)
{
    struct answer *a;
    uint64_t cached = 0, prompt = 0;
    for (int round = 0; round < 3; round++)
        for (unsigned i = 0; i < DOCS; i++) {
            ask(h, i, 1000, &a);
            if (round == 0) {
                first[i] = answer_take(a);
                continue;
            }
            assert_same(&first[i], a);
            assert_computed(a, most);
            cached += a->last.usage_cached, prompt += a->last.usage_prompt;
        }
    print_message("# %llu of %llu tokens were found\n", (unsigned long long)cached, (unsigned long long)prompt);
    assert_true(cached > prompt / 2);
}

/* The same after a stop, which keeps what was asked for last, and once more without host memory. */
static void ask_after_stops(struct harness *h, struct answer first[DOCS], uint64_t most)
{
    struct answer *a;
    ask(h, 0, 1000, &a);
    for (int round = 0; round < 2; round++) {
        harness_stop(h);
        if (round) h->config.kv_host_bytes = 0;
        harness_start(h);
        harness_wait_disk(h);
        for (unsigned i = 0; i < DOCS; i++) {
            ask(h, i, 1000, &a);
            assert_same(&first[i], a);
            if (i == 0) assert_computed(a, most);
        }
    }
}

static void forget(struct answer first[DOCS])
{
    for (unsigned i = 0; i < DOCS; i++) answer_fini(&first[i]);
}

/* A little memory and much behind it: the second time all is found. */
static void test_all_comes_back(void **state)
{
    struct harness *h = *state;
    struct answer first[DOCS], *a;
    start(h, 40, 400);
    ask_three_times(h, first, 1);
    assert_true(harness_status(h, 0, "blocks_host") > 0);
    assert_true(harness_status(h, 1000, "blocks_host") > 0 && harness_status(h, 1001, "blocks_host") == 0);
    assert_int_equal(harness_status(h, 0, "kv_host_blocks"), 400);
    assert_int_equal(harness_status(h, 0, "kv_host_bytes"), 400 * BLOCK);
    assert_int_equal(harness_status(h, 0, "bytes_host"), harness_status(h, 0, "blocks_host") * BLOCK);
    assert_int_equal(harness_status(h, 0, "blocks_disk"), 0);
    ask(h, 0, 1001, &a); /* another user's */
    assert_int_equal(a->last.usage_cached, 0);
    assert_same(&first[0], a);
    check(h);
    assert_all_blocks_free(h);
    harness_stop(h);
    assert_int_equal(counting.pieces, 0);
    forget(first);
}

/* A user who fills it takes no more from another one than leaves both the same. */
static void test_two_users(void **state)
{
    struct harness *h = *state;
    struct answer *a;
    char doc[4096];
    start(h, 40, 60);
    for (unsigned i = 0; i < 2; i++) ask(h, i, 1000, &a);
    for (unsigned i = 0; i < 12; i++) {
        harness_text(doc, sizeof(doc), 50 + i, 120);
        harness_run_seeded(h, 1001, doc, "");
    }
    const long long others = harness_status(h, 1001, "blocks_host"), own = harness_status(h, 1000, "blocks_host");
    assert_true(others + own == 60 && own > 0 && others >= own);
    for (unsigned i = 0; i < 2; i++) {
        ask(h, i, 1000, &a);
        assert_int_equal(a->last.usage_cached, a->last.usage_prompt - 1);
    }
    check(h);
    harness_stop(h);
}

/* What host memory has no room for is on disk, and what it has is written there at the end. */
static void test_disk_behind_it(void **state)
{
    struct harness *h = *state;
    struct answer first[DOCS];
    harness_dirs(h);
    start(h, 40, 40);
    harness_wait_disk(h);
    ask_three_times(h, first, UINT64_MAX);
    assert_true(harness_status(h, 0, "disk_read") > 0 && harness_status(h, 0, "blocks_host") > 0);
    check(h);
    ask_after_stops(h, first, 1);
    forget(first);
}

/* The device fails: what host memory has is as good as before, but for what is being copied there. @kept: the status of
 * what it has; @most: as above. */
static void fail_at(struct harness *h, uint64_t forward, const char *kept, uint64_t most)
{
    struct answer *first[DOCS], *a;
    for (unsigned i = 0; i < DOCS; i++) ask(h, i, 1000, &first[i]);
    const uint64_t recoveries = counting.recoveries;
    counting_fail = counting.forwards + forward;
    h->forgetful = true;
    ask(h, 90, 1000, &a);
    assert_true(counting_fail == 0 && counting.recoveries == recoveries + 1);
    assert_int_equal(a->last.type, PROTO_EV_DONE);
    assert_true(harness_status(h, 0, kept) > 0);
    for (unsigned i = 0; i < DOCS; i++) {
        ask(h, i, 1000, &a);
        assert_same(first[i], a);
        if (i == 0) assert_computed(a, most);
    }
    check(h);
    assert_all_blocks_free(h);
    harness_stop(h);
}

static void test_after_a_failure(void **state)
{
    for (uint64_t forward = 1; forward <= 2; forward++) {
        start(*state, 40, 400);
        fail_at(*state, forward, "blocks_host", 1);
    }
}

/* The kernel pins nothing: all is as without host memory. */
static void test_no_memory(void **state)
{
    struct harness *h = *state;
    struct answer *first, *a;
    counting_host = 0;
    start(h, 40, 400);
    ask(h, 0, 1000, &first);
    for (unsigned i = 1; i < DOCS; i++) ask(h, i, 1000, &a);
    ask(h, 0, 1000, &a);
    assert_same(first, a);
    assert_true(a->last.usage_cached < KV_BLOCK); /* what all documents begin with */
    struct host_pool_stats s;
    harness_hold(h);
    host_pool_stats(&h->engine->core.cache, &s);
    harness_go(h);
    assert_int_equal(s.blocks.slots, 0);
    harness_stop(h);
}

/* Memory is taken before there is need, when the device's blocks become few; with @limit pieces at most. */
static void grow(struct harness *h, int limit)
{
    struct answer *a;
    const long long piece = 16 << 20;
    counting_host = limit;
    start(h, 40, 4 * piece / BLOCK);
    ask(h, 0, 1000, &a);
    assert_int_equal(harness_status(h, 0, "kv_host_taken_bytes"), piece);
    assert_int_equal(harness_status(h, 0, "kv_host_bytes"), 4 * piece);
    for (unsigned i = 1; i < DOCS; i++) ask(h, i, 1000, &a);
    while (harness_status(h, 0, limit > 1 ? "kv_host_taken_bytes" : "kv_host_bytes") != (limit > 1 ? 2 : 1) * piece)
        usleep(1000);
    assert_int_equal(harness_status(h, 0, "kv_host_bytes"), (limit > 1 ? 4 : 1) * piece);
    check(h);
    harness_stop(h);
    assert_int_equal(counting.pieces, 0);
}

static void test_growing(void **state)
{
    grow(*state, 1000);
    grow(*state, 1);
}

/* Layers with a window have blocks of their own, of which a node may lack some. */
static void test_windows(void **state)
{
    struct harness h;
    struct tiny t;
    struct answer first[DOCS];
    tiny_init(&t);
    t.arch = "gemma3";
    t.ctx = 2048;
    harness_init(&h, &t);
    h.config.kv_host_bytes = 8 << 20;
    h.config.kv_bytes = 24ull * 2 * 7 * 2 * 24 * 2 * KV_BLOCK;
    harness_start(&h);
    assert_int_equal(h.engine->core.cache.n_groups, 2);
    ask_three_times(&h, first, UINT64_MAX);
    assert_true(harness_status(&h, 0, "evictions") > 0);
    check(&h);
    assert_all_blocks_free(&h);
    harness_fini(&h);
    assert_int_equal(counting.pieces, 0);
    forget(first);
}

/* A model with recurrent layers: KV and states leave a device's memory, and come back. */
static void states_init(struct harness *h, const char *arch, uint64_t host)
{
    struct tiny t;
    tiny_init(&t);
    t.arch = arch;
    t.ctx = 2048;
    harness_init(h, &t);
    h->config.kv_bytes = 200 << 10;
    h->config.kv_host_bytes = host;
}

static void states_come_back(const char *arch, bool kv)
{
    struct harness h;
    struct answer first[DOCS], *a;
    states_init(&h, arch, 8 << 20);
    harness_start(&h);
    assert_true(h.engine->core.cache.state > 0 && harness_status(&h, 0, "kv_host_states") > 0);
    assert_int_equal(harness_status(&h, 0, "states_host"), 0);
    ask_three_times(&h, first, KV_BLOCK);
    assert_int_equal(harness_status(&h, 0, "blocks_host") > 0, kv);
    assert_true(harness_status(&h, 1000, "states_host") > 0 && harness_status(&h, 1001, "states_host") == 0);
    assert_int_equal(harness_status(&h, 0, "states_disk"), 0);
    ask(&h, 0, 1001, &a); /* another user's */
    assert_int_equal(a->last.usage_cached, 0);
    assert_same(&first[0], a);
    check(&h);
    assert_all_blocks_free(&h);
    harness_fini(&h);
    assert_int_equal(counting.pieces, 0);
    forget(first);
}

static void test_states(void **state)
{
    states_come_back("lfm2", true);
    states_come_back("mamba2", false); /* no layer has attention */
}

/* With little host memory, states come from disk, too; and a stop keeps all of it. */
static void test_states_on_disk(void **state)
{
    struct harness h;
    struct answer first[DOCS];
    states_init(&h, "lfm2", 150 << 10);
    harness_dirs(&h);
    harness_start(&h);
    harness_wait_disk(&h);
    ask_three_times(&h, first, UINT64_MAX);
    assert_true(harness_status(&h, 0, "states_disk") > 0);
    check(&h);
    ask_after_stops(&h, first, KV_BLOCK);
    harness_fini(&h);
    forget(first);
}

/* The device fails while it copies states: those are lost, and the others as good as before. */
static void test_states_after_a_failure(void **state)
{
    for (uint64_t forward = 1; forward <= 3; forward++) {
        struct harness h;
        states_init(&h, "lfm2", 8 << 20);
        harness_start(&h);
        fail_at(&h, forward, "states_host", KV_BLOCK);
        harness_fini(&h);
    }
}

/* The least memory that is taken has room for a state, and a block where a layer has attention. */
static void has_room(const char *arch, bool kv)
{
    struct harness h;
    states_init(&h, arch, 8 << 20);
    harness_start(&h);
    h.config.kv_host_bytes = host_pool_least(h.engine->core.cache.backend);
    harness_stop(&h);
    harness_start(&h);
    if (kv) assert_int_equal(harness_status(&h, 0, "kv_host_blocks"), 1);
    assert_int_equal(harness_status(&h, 0, "kv_host_states"), 1);
    harness_fini(&h);
}

static void test_least(void **state)
{
    has_room("lfm2", true);
    has_room("mamba2", false);
}

static void load_fails(struct engine_config *c, uint64_t bytes, const char *part)
{
    struct loaded m;
    struct tiny t;
    tiny_init(&t);
    c->kv_host_bytes = bytes;
    assert_int_equal(harness_load(&m, &t, c), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), part));
}

/* Sizes that cannot be. A backend without a device takes none. */
static void test_sizes(void **state)
{
    struct engine_config c;
    struct loaded m;
    struct tiny t;
    tiny_init(&t);
    engine_config_init(&c);
    c.threads = 1;
    c.kv_bytes = 1 << 20;
    load_fails(&c, 1, "kv-host-bytes is 1");
    load_fails(&c, 1ull << 60, "of memory are free");
    c.kv_host_bytes = KV_HOST_DEFAULT;
    assert_int_equal(harness_load(&m, &t, &c), 0);
    assert_int_equal(m.kv_host_bytes, 4 << 20);
    const uint64_t least = host_pool_least(m.backend);
    loaded_fini(&m);
    load_fails(&c, least - 1, "but one block of 32 tokens of this model takes");
    c.kv_host_bytes = least;
    assert_int_equal(harness_load(&m, &t, &c), 0);
    assert_int_equal(m.kv_host_bytes, least);
    loaded_fini(&m);
    c.kv_host_bytes = KV_HOST_DEFAULT;
    counting_host = -1;
    assert_int_equal(harness_load(&m, &t, &c), 0);
    assert_int_equal(m.kv_host_bytes, 0);
    loaded_fini(&m);
    assert_int_equal(load_host_bytes(400, 1000), 100);
    assert_int_equal(load_host_bytes(400, 10), 40);
    assert_int_equal(load_host_bytes(400, UINT64_MAX / 2), 100);
}

static int setup(void **state)
{
    counting_host = 1000;
    return harness_setup(state);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, harness_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_all_comes_back), TEST(test_two_users),
        TEST(test_disk_behind_it), TEST(test_after_a_failure),
        TEST(test_no_memory),      TEST(test_growing),
        TEST(test_windows),        TEST(test_states),
        TEST(test_states_on_disk), TEST(test_states_after_a_failure),
        TEST(test_least),          TEST(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
