/* SPDX-License-Identifier: MIT */
/* Which recurrent states are written to disk, and when. The clock is an argument. */
#include "daemon/cache/spill-states.h"
#include "libcommon/clock.h"
#include "tests/cache/fixture.h"
#include <string.h>

#define IDLE_USEC  1000000ull  /* after the last step, before anything is written */
#define RETRY_USEC 10000000ull /* after a write that failed */
#define TRIM_USEC  1000000ull  /* between two searches for files to remove */

static bool has_file(struct fixture *f, int32_t token)
{
    struct prefix_node *n = fixture_find(f, token);
    return n && prefix_state_on_disk(n);
}

/* The file of the state of @token's node has the bytes of @value. */
static void check_file(struct fixture *f, int32_t token, int32_t value)
{
    uint8_t want[FIXTURE_STATE], got[FIXTURE_STATE];
    struct prefix_info info;
    prefix_info(fixture_find(f, token), &info);
    memset(want, value, sizeof(want));
    assert_true(has_file(f, token));
    assert_int_equal(disk_read(spill_states(&f->cache), &info, got), 0);
    assert_memory_equal(got, want, sizeof(got));
}

static uint64_t files(const struct fixture *f)
{
    struct disk_stats s;
    assert_true(spill_count_states(&f->cache, &s));
    return s.files;
}

/* A turn a second after the last step, and delivery of what it begins. Returns the number of jobs. */
static unsigned idle_turn(struct fixture *f, uint64_t now)
{
    spill_turn(&f->cache, now, 2);
    spill_turn(&f->cache, now, 1);
    spill_turn(&f->cache, now + IDLE_USEC, 1);
    return fixture_deliver(f);
}

/* A cache in which blocks 1 … @n are on disk, and a clock for the next turns. */
static uint64_t open_with_blocks(struct fixture *f, int32_t n)
{
    const uint64_t now = clock_now_usec();
    struct kv_cache *c = &f->cache;
    fixture_recurrent(f);
    fixture_open(f);
    assert_int_equal(c->n_groups, 1);
    assert_int_equal(c->state, 1);
    assert_int_equal(kv_pool_free_blocks(c->pools[1]), FIXTURE_STATES);
    for (int32_t i = 1; i <= n; i++) fixture_add(f, NULL, i);
    while (idle_turn(f, now)) continue;
    for (int32_t i = 1; i <= n; i++) assert_true(fixture_on_disk(f, i));
    f->state_reads = 0;
    return now + 2 * IDLE_USEC;
}

/* Nothing is written in the second after a step; then one a turn, the latest first, and none twice. */
static void test_idle_writes(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    uint64_t now = open_with_blocks(f, 4);
    for (int32_t i = 1; i <= 4; i++) fixture_add_state(f, fixture_find(f, i), 10 + i);
    spill_turn(c, now, 2); /* a step */
    assert_int_equal(spill_next(c, now), now + IDLE_USEC);
    spill_turn(c, now + IDLE_USEC - 1, 2);
    assert_int_equal(f->state_reads, 0);
    now += IDLE_USEC;
    spill_turn(c, now, 2);
    assert_int_equal(f->state_reads, 1); /* one a turn, the latest first */
    assert_int_equal(spill_next(c, now), now);
    spill_turn(c, now, 2);
    assert_int_equal(f->state_reads, 2);
    spill_turn(c, now, 2); /* two at a time */
    assert_int_equal(f->state_reads, 2);
    assert_int_equal(spill_next(c, now), UINT64_MAX);
    assert_int_equal(fixture_deliver(f), 2);
    assert_int_equal(spill_next(c, now), now);
    check_file(f, 4, 14);
    check_file(f, 3, 13);
    assert_false(has_file(f, 2));
    spill_turn(c, now, 2);
    spill_turn(c, now, 2);
    assert_int_equal(fixture_deliver(f), 2);
    for (int32_t i = 1; i <= 4; i++) check_file(f, i, 10 + i);
    assert_int_equal(idle_turn(f, now), 0);
    assert_int_equal(files(f), 4);
    assert_int_equal(f->state_reads, 4);
    assert_int_equal(spill_next(c, now), UINT64_MAX);
}

/* Nothing is written while the cache may not keep anything, sheds memory or stops. */
static void test_not_written(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    const uint64_t now = open_with_blocks(f, 1);
    fixture_add_state(f, fixture_find(f, 1), 11);
    for (int i = 0; i < 3; i++) {
        c->may_keep = i != 0;
        c->stopping = i == 1;
        c->shedding = i == 2;
        assert_int_equal(idle_turn(f, now), 0);
        struct prefix_info info;
        prefix_info(fixture_find(f, 1), &info);
        assert_false(spill_state_evicting(c, &info));
    }
    c->shedding = false;
    assert_int_equal(f->state_reads, 0);
    assert_int_equal(idle_turn(f, now), 1);
    check_file(f, 1, 11);
}

/* A state that leaves memory is copied and written, at most two at a time; one that has a file is not. */
static void test_eviction_writes(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    open_with_blocks(f, 4);
    for (int32_t i = 1; i <= 3; i++) fixture_add_state(f, fixture_find(f, i), 10 + i);
    assert_true(kv_cache_make_room(c, 1, FIXTURE_STATES));
    assert_int_equal(kv_pool_free_blocks(c->pools[1]), FIXTURE_STATES);
    assert_int_equal(f->state_reads, 2);
    memset(f->states, 0xee, sizeof(f->states));
    assert_int_equal(fixture_deliver(f), 2);
    check_file(f, 1, 11);
    check_file(f, 2, 12);
    assert_false(has_file(f, 3));
    fixture_add_state(f, fixture_find(f, 1), 11);
    assert_true(kv_cache_make_room(c, 1, FIXTURE_STATES));
    assert_int_equal(f->state_reads, 2);
    assert_int_equal(files(f), 2);
}

/* A state that the device does not give is not written, and not tried again at once. */
static void test_a_failed_device(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    const uint64_t now = open_with_blocks(f, 2);
    for (int32_t i = 1; i <= 2; i++) fixture_add_state(f, fixture_find(f, i), 10 + i);
    f->broken = true;
    assert_int_equal(idle_turn(f, now), 0);
    assert_int_equal(f->state_reads, 1);
    assert_int_equal(spill_next(c, now + IDLE_USEC), now + IDLE_USEC + RETRY_USEC);
    spill_turn(c, now + IDLE_USEC + RETRY_USEC - 1, 1);
    assert_int_equal(f->state_reads, 1);
    f->broken = false;
    spill_turn(c, now + IDLE_USEC + RETRY_USEC, 1);
    assert_int_equal(fixture_deliver(f), 1);
    check_file(f, 2, 12);
    f->broken = true;
    fixture_close(f, UINT64_MAX); /* nor is it at the end */
    f->broken = false;
    fixture_open(f);
    assert_int_equal(files(f), 1);
    check_file(f, 2, 12);
}

/* A state whose file could not be written counts as not written, and is not tried again for a while. */
static void test_a_failed_write(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    const uint64_t now = open_with_blocks(f, 1);
    fixture_add_state(f, fixture_find(f, 1), 11);
    fixture_fail_writes(true);
    assert_int_equal(idle_turn(f, now), 1);
    assert_false(has_file(f, 1));
    assert_int_equal(files(f), 0);
    assert_int_equal(idle_turn(f, now + 2 * IDLE_USEC), 0);
    assert_true(spill_next(c, now) > now + IDLE_USEC);
    fixture_fail_writes(false);
    assert_int_equal(idle_turn(f, now + 30 * IDLE_USEC), 1);
    check_file(f, 1, 11);
}

/* A full disk: a state replaces the file that was used before it, and no other. */
static void test_full_disk(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    f->config.cache_bytes = 8 * FIXTURE_FILE; /* half of it for states: two of them */
    const uint64_t now = open_with_blocks(f, 4);
    for (int32_t i = 1; i <= 3; i++) {
        fixture_add_state(f, fixture_find(f, i), 10 + i);
        assert_int_equal(idle_turn(f, now), 1);
    }
    assert_int_equal(files(f), 2);
    assert_false(has_file(f, 1));
    check_file(f, 2, 12);
    check_file(f, 3, 13);
    fixture_add_state(f, fixture_find(f, 4), 14);
    prefix_state_use(c->prefix, fixture_find(f, 2));
    prefix_state_use(c->prefix, fixture_find(f, 3)); /* now both files were used after it */
    assert_int_equal(idle_turn(f, now), 0);
    assert_int_equal(spill_next(c, now + IDLE_USEC), now + IDLE_USEC + RETRY_USEC);
    check_file(f, 2, 12);
    check_file(f, 3, 13);
}

static unsigned trims(struct fixture *f, uint64_t now)
{
    spill_turn(&f->cache, now, 3); /* a step: nothing is written */
    return fixture_deliver(f);
}

/* A lower limit: the files that were used least recently are removed, once a second. */
static void test_trim(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    uint64_t now = open_with_blocks(f, 5);
    for (int32_t i = 1; i <= 5; i++) fixture_add_state(f, fixture_find(f, i), 10 + i);
    while (idle_turn(f, now)) continue;
    assert_int_equal(files(f), 5);
    now += 2 * IDLE_USEC;
    assert_int_equal(trims(f, now), 0); /* there are not too many */
    spill_limit(c, 12 * FIXTURE_FILE, 0);
    assert_int_equal(trims(f, now + TRIM_USEC - 1), 0); /* not looked at so soon */
    assert_int_equal(trims(f, now + TRIM_USEC), 1);
    assert_int_equal(files(f), 3);
    for (int32_t i = 1; i <= 5; i++) assert_int_equal(has_file(f, i), i > 2);
    c->stopping = true;
    spill_limit(c, 10 * FIXTURE_FILE, 0);
    assert_int_equal(trims(f, now + 9 * TRIM_USEC), 0);
    assert_int_equal(files(f), 3);
}

/* The file of a state whose KV has left is of no use: it is removed whatever room there is. */
static void test_orphan(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    struct prefix_info info;
    uint64_t now = open_with_blocks(f, 2);
    for (int32_t i = 1; i <= 2; i++) fixture_add_state(f, fixture_find(f, i), 10 + i);
    while (idle_turn(f, now)) continue;
    prefix_info(fixture_find(f, 1), &info);
    assert_true(kv_cache_make_room(c, 0, FIXTURE_BLOCKS));
    prefix_disk_removed(c->prefix, info.id);
    disk_remove(spill_disk(c), info.id);
    assert_int_equal(trims(f, now + 5 * TRIM_USEC), 1);
    assert_int_equal(files(f), 1);
    assert_null(fixture_find(f, 1));
    check_file(f, 2, 12);
}

/* The end writes states too, with KV, and the next cache finds both; a state without its KV is removed. */
static void test_flush(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    struct prefix_info info;
    open_with_blocks(f, 0);
    for (int32_t i = 1; i <= 3; i++) fixture_add_state(f, fixture_add(f, NULL, i), 10 + i);
    fixture_close(f, clock_now_usec()); /* no time is left */
    assert_int_equal(f->state_reads, 0);
    fixture_open(f);
    assert_int_equal(files(f), 0);
    for (int32_t i = 1; i <= 3; i++) fixture_add_state(f, fixture_add(f, NULL, i), 10 + i);
    fixture_close(f, UINT64_MAX);
    assert_int_equal(f->state_reads, 3);
    fixture_open(f);
    assert_int_equal(files(f), 3);
    for (int32_t i = 1; i <= 3; i++) check_file(f, i, 10 + i);
    prefix_info(fixture_find(f, 2), &info);
    disk_remove(spill_disk(c), info.id);
    fixture_close(f, 0);
    fixture_open(f);
    assert_int_equal(files(f), 2);
    assert_null(fixture_find(f, 2));
    check_file(f, 1, 11);
    check_file(f, 3, 13);
}

/* With room for two files the end keeps the states that were used last. */
static void test_flush_on_a_full_disk(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    const uint64_t now = open_with_blocks(f, 4);
    for (int32_t i = 1; i <= 2; i++) fixture_add_state(f, fixture_find(f, i), 10 + i);
    while (idle_turn(f, now)) continue;
    for (int32_t i = 3; i <= 4; i++) fixture_add_state(f, fixture_find(f, i), 10 + i);
    f->config.cache_bytes = 8 * FIXTURE_FILE;
    spill_limit(c, f->config.cache_bytes, 0);
    fixture_close(f, UINT64_MAX);
    fixture_open(f);
    assert_int_equal(files(f), 2);
    for (int32_t i = 1; i <= 4; i++) assert_int_equal(has_file(f, i), i > 2);
    fixture_add_state(f, fixture_add(f, NULL, 1), 11); /* but not those that were used before the files */
    for (int32_t i = 3; i <= 4; i++) prefix_state_use(f->cache.prefix, fixture_find(f, i));
    fixture_close(f, UINT64_MAX);
    fixture_open(f);
    for (int32_t i = 1; i <= 4; i++) assert_int_equal(has_file(f, i), i > 2);
}

/* Without a directory for them, states are kept only in memory; KV is on disk as before. */
static void test_no_directory(void **state)
{
    struct fixture *f = *state;
    struct disk_stats s;
    const char *name = folder_at(f->cache_dir, "states");
    fixture_recurrent(f);
    fixture_open(f);
    fixture_close(f, 0);
    assert_int_equal(folder_remove(name), 0);
    assert_int_equal(folder_put(f->cache_dir, "states", "a file"), 0);
    fixture_open(f);
    fixture_add_state(f, fixture_add(f, NULL, 1), 11);
    while (idle_turn(f, clock_now_usec())) continue;
    assert_null(spill_states(&f->cache));
    assert_false(spill_count_states(&f->cache, &s));
    assert_true(fixture_on_disk(f, 1));
    assert_int_equal(spill_next(&f->cache, 0), UINT64_MAX); /* there is nothing that it could write */
    fixture_close(f, UINT64_MAX);
    assert_int_equal(f->state_reads, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_idle_writes),
        TEST(test_not_written),
        TEST(test_eviction_writes),
        TEST(test_a_failed_device),
        TEST(test_a_failed_write),
        TEST(test_full_disk),
        TEST(test_trim),
        TEST(test_orphan),
        TEST(test_flush),
        TEST(test_flush_on_a_full_disk),
        TEST(test_no_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
