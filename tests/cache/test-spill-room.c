/* SPDX-License-Identifier: MIT */
/* The disk tier of the cache when room or time is short: what is removed, what is written first, and what stays. The
 * clock stands still but for the microsecond that it takes to read a block or a state. */
#include "daemon/cache/spill-states.h"
#include "libcommon/clock.h"
#include "libcommon/log.h"
#include "tests/cache/fixture.h"
#include "tests/support/calls.h"
#include "tests/support/memory.h"
#include "tests/support/warnings.h"
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#define IDLE_USEC 1000000ull /* after the last step, before blocks are written */

static atomic_uint_fast64_t clock_usec = 1000 * IDLE_USEC;
static _Thread_local const struct fixture *timed; /* of the thread of the tests */

uint64_t __wrap_clock_now_usec(void);

uint64_t __wrap_clock_now_usec(void)
{
    return clock_usec + (timed ? timed->reads + timed->state_reads : 0);
}

static uint64_t files(const struct fixture *f)
{
    struct disk_stats s;
    assert_true(spill_count(&f->cache, &s));
    return s.files;
}

static uint64_t state_files(const struct fixture *f)
{
    struct disk_stats s;
    assert_true(spill_count_states(&f->cache, &s));
    return s.files;
}

static bool has_state(struct fixture *f, int32_t token)
{
    struct prefix_node *n = fixture_find(f, token);
    return n && prefix_state_on_disk(n);
}

/* A turn long after the last write, a second after the last step. */
static void idle(struct fixture *f)
{
    static uint64_t steps;
    clock_usec += 100 * IDLE_USEC;
    const uint64_t now = clock_usec;
    spill_turn(&f->cache, now, ++steps);
    spill_turn(&f->cache, now + IDLE_USEC, steps);
}

static void write_all(struct fixture *f)
{
    do {
        idle(f);
    } while (fixture_deliver(f));
}

/* A turn that would write, but memory for the copy is short, or with @broken the copy fails: no job starts. */
static void idle_in_vain(struct fixture *f, bool broken)
{
    f->broken = broken;
    if (!broken) memory_fail(0);
    idle(f);
    assert_true(memory_end() == !broken);
    assert_int_equal(fixture_deliver(f), 0);
}

/* --- room --- */

/* A file is removed for another only when that one can be written. */
static void test_victim_stays(void **state)
{
    struct fixture *f = *state;
    f->config.cache_bytes = FIXTURE_FILE;
    fixture_open(f);
    fixture_add(f, NULL, 1);
    write_all(f);
    fixture_add(f, NULL, 2);
    for (int broken = 0; broken < 2; broken++) {
        idle_in_vain(f, broken);
        assert_true(fixture_on_disk(f, 1) && !fixture_on_disk(f, 2));
        fixture_check_file(f, 1);
        assert_int_equal(files(f), 1);
    }
    f->broken = false;
    write_all(f);
    assert_true(!fixture_on_disk(f, 1) && fixture_on_disk(f, 2));
    assert_int_equal(files(f), 1);
}

/* A cache whose states have room for @n files, on a disk that has the KV of blocks 1 … @blocks. */
static void open_with_room(struct fixture *f, uint64_t n, int32_t blocks)
{
    fixture_recurrent(f);
    fixture_open(f);
    for (int32_t i = 1; i <= blocks; i++) fixture_add(f, NULL, i);
    write_all(f);
    disk_limit(spill_states(&f->cache), n * 2 * FIXTURE_FILE, 0);
}

static void test_victim_of_a_state_stays(void **state)
{
    struct fixture *f = *state;
    open_with_room(f, 1, 2);
    fixture_add_state(f, fixture_find(f, 1), 11);
    write_all(f);
    fixture_add_state(f, fixture_find(f, 2), 12);
    for (int broken = 0; broken < 2; broken++) {
        idle_in_vain(f, broken);
        assert_true(has_state(f, 1) && !has_state(f, 2));
        assert_int_equal(state_files(f), 1);
    }
    f->broken = false;
    write_all(f);
    assert_true(!has_state(f, 1) && has_state(f, 2));
    assert_int_equal(state_files(f), 1);
}

/* The room that there was for a block or a state is used up when the job runs: it stays in memory, no error. */
static void test_room_is_gone(void **state)
{
    struct fixture *f = *state;
    for (int states = 0; states < 2; states++) {
        open_with_room(f, 2, 2);
        if (states) fixture_add_state(f, fixture_find(f, 1), 11);
        write_all(f);
        if (states)
            fixture_add_state(f, fixture_find(f, 2), 12);
        else
            fixture_add(f, NULL, 3);
        fixture_hold(f);
        idle(f);
        assert_int_equal(f->jobs.out, 1);
        disk_limit(states ? spill_states(&f->cache) : spill_disk(&f->cache), 2 * FIXTURE_FILE, 0);
        fixture_release(f);
        assert_int_equal(warnings_begin(), 0);
        assert_int_equal(fixture_deliver(f), 1);
        assert_string_equal(warnings_end(), "");
        assert_true(states ? has_state(f, 1) && !has_state(f, 2) : !fixture_on_disk(f, 3));
        assert_int_equal(states ? state_files(f) : files(f), states ? 1 : 2);
        fixture_close(f, 0);
    }
}

/* Files are removed by one of two jobs at a time, and not beside two that write. */
static void test_trim_waits_for_jobs(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    open_with_room(f, 9, 3);
    fixture_add_state(f, fixture_find(f, 1), 11);
    write_all(f);
    for (int32_t i = 2; i <= 3; i++) fixture_add_state(f, fixture_find(f, i), 10 + i);
    fixture_hold(f);
    idle(f);
    spill_turn(c, clock_usec + IDLE_USEC, 1000);
    spill_turn(c, clock_usec + 2 * IDLE_USEC, 1000);
    assert_int_equal(f->jobs.out, 2);
    disk_limit(spill_states(c), 0, 0);
    spill_turn(c, clock_usec + 10 * IDLE_USEC, 1001);
    assert_int_equal(f->jobs.out, 2);
    fixture_release(f);
    assert_int_equal(fixture_deliver(f), 2);
    spill_turn(c, clock_usec + 20 * IDLE_USEC, 1002);
    assert_int_equal(fixture_deliver(f), 1);
    assert_int_equal(state_files(f), 0);
}

/* A block of which a window has left memory is written without that part, and found so. */
static void test_windows(void **state)
{
    struct fixture *f = *state;
    fixture_windowed(f);
    fixture_open(f);
    assert_int_equal(f->cache.n_groups, 2);
    for (int32_t i = 1; i <= 2; i++) {
        struct prefix_node *n = fixture_add(f, NULL, i);
        if (i == 2) fixture_add_window(f, n, 50);
    }
    write_all(f);
    fixture_close(f, 0);
    fixture_open(f);
    assert_int_equal(files(f), 2);
    for (int32_t i = 1; i <= 2; i++) {
        uint8_t got[FIXTURE_PAYLOAD + FIXTURE_WINDOW], want[sizeof(got)];
        struct prefix_info info;
        memset(got, 99, sizeof(got));
        memset(want, i, FIXTURE_PAYLOAD);
        memset(want + FIXTURE_PAYLOAD, i == 1 ? 99 : 50, FIXTURE_WINDOW);
        prefix_info(fixture_find(f, i), &info);
        assert_int_equal(info.lacks, i == 1 ? 2 : 0);
        assert_int_equal(disk_read(spill_disk(&f->cache), &info, got), 0);
        assert_memory_equal(got, want, sizeof(want));
    }
}

/* A block of an image is found too. */
static void test_runs(void **state)
{
    static const struct item_run image = {.n = KV_BLOCK, .kind = ITEM_IMAGE, .digest = {1, 2, 3}};
    int32_t ids[KV_BLOCK];
    const struct items items = {.ids = ids, .n = KV_BLOCK, .runs = &image, .n_runs = 1};
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    struct prefix_node *n;
    uint32_t block, found;
    for (uint32_t i = 0; i < KV_BLOCK; i++) ids[i] = ITEM_EMBD;
    fixture_open(f);
    assert_int_equal(kv_pool_take(c->pools[0], &block), 0);
    assert_int_equal(prefix_add(c->prefix, &c->public_namespace, NULL, items, block, 1000, &n), 0);
    kv_pool_unref(c->pools[0], block);
    write_all(f);
    fixture_close(f, 0);
    fixture_open(f);
    assert_int_equal(files(f), 1);
    assert_non_null(prefix_child(c->prefix, &c->public_namespace, NULL, items, &found));
    assert_int_equal(found, KV_BLOCK);
}

/* More files than the first part of the list holds are found. */
static void test_many_files(void **state)
{
    enum { FILES = 12 * FIXTURE_BLOCKS };
    struct fixture *f = *state;
    f->config.cache_bytes = 2 * FILES * FIXTURE_FILE;
    fixture_open(f);
    for (int32_t i = 1; i <= FILES; i++) {
        fixture_add(f, NULL, i);
        if (i % FIXTURE_BLOCKS) continue;
        assert_true(kv_cache_make_room(&f->cache, 0, FIXTURE_BLOCKS));
        while (fixture_deliver(f)) continue;
    }
    fixture_close(f, 0);
    fixture_open(f);
    assert_int_equal(files(f), FILES);
    for (int32_t i = 1; i <= FILES; i++) fixture_check_file(f, i);
}

/* At the end a state takes the place of a file without KV, though that was used after it. */
static void test_flush_replaces_an_orphan(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    struct prefix_info info;
    open_with_room(f, 1, 2);
    fixture_add_state(f, fixture_find(f, 1), 11);
    write_all(f);
    assert_true(has_state(f, 1));
    fixture_add_state(f, fixture_find(f, 2), 12);
    prefix_state_use(c->prefix, fixture_find(f, 1));
    prefix_info(fixture_find(f, 1), &info);
    prefix_disk_removed(c->prefix, info.id);
    disk_remove(spill_disk(c), info.id);
    prefix_ref(c->prefix, fixture_find(f, 2));
    assert_true(kv_cache_make_room(c, 0, FIXTURE_BLOCKS - 1));
    prefix_unref(c->prefix, fixture_find(f, 2));
    spill_flush(c, UINT64_MAX);
    assert_null(fixture_find(f, 1));
    assert_true(has_state(f, 2));
    assert_int_equal(state_files(f), 1);
}

/* What finds no room at the end is not an error. */
static void test_flush_without_room(void **state)
{
    struct fixture *f = *state;
    open_with_room(f, 1, 2);
    fixture_add_state(f, fixture_find(f, 1), 11);
    write_all(f);
    fixture_add_state(f, fixture_find(f, 2), 12);
    prefix_state_use(f->cache.prefix, fixture_find(f, 1));
    fixture_add(f, NULL, 3);
    for (int32_t i = 1; i <= 2; i++) prefix_touch(f->cache.prefix, fixture_find(f, i));
    disk_limit(spill_disk(&f->cache), 2 * FIXTURE_FILE, 0);
    f->reads = f->state_reads = 0;
    assert_int_equal(warnings_begin(), 0);
    spill_flush(&f->cache, UINT64_MAX);
    assert_string_equal(warnings_end(), "");
    assert_int_equal(f->reads + f->state_reads, 0);
    assert_true(has_state(f, 1) && !has_state(f, 2));
    for (int32_t i = 1; i <= 3; i++) assert_int_equal(fixture_on_disk(f, i), i < 3);
}

/* --- time --- */

/* The end divides the time: half of it for KV, then states, then KV again. */
static void test_flush_in_time(void **state)
{
    struct fixture *f = *state;
    for (int states = 0; states < 2; states++) {
        if (states) fixture_recurrent(f);
        fixture_open(f);
        for (int32_t i = 1; i <= FIXTURE_BLOCKS; i++) {
            struct prefix_node *n = fixture_add(f, NULL, 100 * states + i);
            if (states && i > FIXTURE_BLOCKS - 2) fixture_add_state(f, n, 11);
        }
        f->reads = f->state_reads = 0;
        timed = f;
        spill_flush(&f->cache, clock_usec + 8);
        assert_int_equal(f->state_reads, states ? 2 : 0);
        assert_int_equal(f->reads, states ? 6 : 8);
        spill_flush(&f->cache, clock_usec + 5); /* the end has passed */
        assert_int_equal(f->state_reads + f->reads, 8);
        timed = NULL;
        assert_int_equal(files(f), states ? 8 + 6 : 8);
        fixture_close(f, 0);
    }
}

/* A model that becomes known at the end, when no time is left: its directory is not even made. */
static void test_known_too_late(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    f->unknown = true;
    fixture_open(f);
    fixture_add(f, NULL, 1);
    f->unknown = false;
    fixture_close(f, clock_usec);
    assert_true(stat(f->cache_dir, &st) < 0 && errno == ENOENT);
}

/* A block that could not be written is tried again after the states, and is not believed to be there before. */
static void test_flush_tries_twice(void **state)
{
    struct fixture *f = *state;
    fixture_recurrent(f);
    fixture_open(f);
    for (int32_t i = 1; i <= 3; i++) fixture_add(f, NULL, i);
    calls_fail(CALL_OPEN, 0, EMFILE);
    spill_flush(&f->cache, UINT64_MAX);
    assert_true(calls_end());
    assert_int_equal(files(f), 3);
    for (int32_t i = 1; i <= 3; i++) fixture_check_file(f, i);
}

/* A state that could not be written is not believed to be there. */
static void test_flush_of_a_state_fails(void **state)
{
    struct fixture *f = *state;
    open_with_room(f, 9, 1);
    fixture_add_state(f, fixture_find(f, 1), 11);
    f->broken = true;
    spill_flush(&f->cache, UINT64_MAX);
    assert_false(has_state(f, 1));
    f->broken = false;
    spill_flush(&f->cache, UINT64_MAX);
    assert_true(has_state(f, 1));
    assert_int_equal(state_files(f), 1);
}

/* --- no secret --- */

/* Neither a file nor random numbers: without a secret there is no cache. */
static void test_no_secret_at_all(void **state)
{
    struct fixture *f = *state;
    f->config.state_dir = f->cache_dir;
    assert_int_equal(folder_put(f->top, "cache", "not a directory"), 0);
    for (unsigned long n = 0; n < 2; n++) { /* of the index, then of the secret */
        f->cache = (struct kv_cache){0};
        calls_fail(CALL_RANDOM, n, ENOSYS);
        assert_int_equal(kv_cache_new(&f->cache, &f->backend, &f->config, &f->jobs), -ENOSYS);
        assert_true(calls_end());
        kv_cache_free(&f->cache, 0);
    }
    fixture_open(f);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_victim_stays),
        TEST(test_victim_of_a_state_stays),
        TEST(test_room_is_gone),
        TEST(test_trim_waits_for_jobs),
        TEST(test_windows),
        TEST(test_runs),
        TEST(test_many_files),
        TEST(test_flush_replaces_an_orphan),
        TEST(test_flush_without_room),
        TEST(test_flush_in_time),
        TEST(test_known_too_late),
        TEST(test_flush_tries_twice),
        TEST(test_flush_of_a_state_fails),
        TEST(test_no_secret_at_all),
    };
    log_limit(LOG_ERROR);
    return cmocka_run_group_tests_name("spill-room", tests, NULL, NULL);
}
