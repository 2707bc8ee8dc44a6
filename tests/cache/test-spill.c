/* SPDX-License-Identifier: MIT */
/* Covers spill.c and spill-open.c: which blocks are written to disk, and when. The clock is an argument. */
#include "libcommon/clock.h"
#include "tests/cache/fixture.h"
#include <string.h>

#define IDLE_USEC 1000000ull /* after the last step, before blocks are written */

static uint64_t files(const struct fixture *f)
{
    struct disk_stats s;
    assert_true(spill_count(&f->cache, &s));
    return s.files;
}

/* Turns of an idle engine until nothing is left to write; returns the number of blocks written. */
static unsigned write_all(struct fixture *f, uint64_t now)
{
    unsigned n = 0, more;
    spill_turn(&f->cache, now, 1);
    do {
        spill_turn(&f->cache, now + IDLE_USEC, 1);
        n += more = fixture_deliver(f);
    } while (more);
    assert_int_equal(spill_next(&f->cache, now + IDLE_USEC), UINT64_MAX);
    return n;
}

/* A block that leaves memory is copied and written; one that is on disk already, or may not be kept, is not. */
static void test_eviction_writes(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    fixture_open(f);
    c->may_keep = false;
    fixture_add(f, NULL, 1);
    assert_true(kv_cache_make_room(c, 0, FIXTURE_BLOCKS));
    assert_int_equal(fixture_deliver(f), 0);
    assert_null(fixture_find(f, 1));
    c->may_keep = true;
    for (int32_t i = 1; i <= 3; i++) fixture_add(f, NULL, i);
    assert_true(kv_cache_make_room(c, 0, FIXTURE_BLOCKS));
    assert_int_equal(f->reads, 3);
    memset(f->blocks, 0xee, sizeof(f->blocks)); /* a copy was made */
    assert_int_equal(fixture_deliver(f), 3);
    for (int32_t i = 1; i <= 3; i++) {
        assert_int_equal(prefix_block(fixture_find(f, i)), KV_NO_BLOCK);
        fixture_check_file(f, i);
    }
    assert_int_equal(files(f), 3);
    fixture_add(f, NULL, 2); /* in memory again */
    assert_true(kv_cache_make_room(c, 0, FIXTURE_BLOCKS));
    assert_int_equal(f->reads, 3);
    c->stopping = true; /* the final flush writes all */
    fixture_add(f, NULL, 4);
    assert_true(kv_cache_make_room(c, 0, FIXTURE_BLOCKS));
    assert_int_equal(fixture_deliver(f), 0);
    assert_null(fixture_find(f, 4));
}

/* Nothing is written in the second after a step; then two blocks at a time, and no block twice. */
static void test_idle_writes(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    uint64_t now = clock_now_usec();
    fixture_open(f);
    for (int32_t i = 1; i <= 5; i++) fixture_add(f, NULL, i);
    spill_turn(c, now, 1);
    assert_int_equal(spill_next(c, now), now + IDLE_USEC);
    spill_turn(c, now + IDLE_USEC - 1, 1);
    assert_int_equal(f->reads, 0);
    now += IDLE_USEC / 2;
    spill_turn(c, now, 2); /* a step: the second begins again */
    spill_turn(c, now + IDLE_USEC - 1, 2);
    assert_int_equal(f->reads, 0);
    assert_int_equal(spill_next(c, now), now + IDLE_USEC);
    now += IDLE_USEC;
    spill_turn(c, now, 2);
    assert_int_equal(f->reads, 2);
    assert_int_equal(spill_next(c, now), UINT64_MAX); /* until one of them is written */
    spill_turn(c, now, 2);
    assert_int_equal(f->reads, 2);
    assert_int_equal(fixture_deliver(f), 2);
    for (int32_t i = 1; i <= 5; i++) assert_int_equal(fixture_on_disk(f, i), i <= 2); /* the first to be evicted */
    assert_int_equal(spill_next(c, now), now);
    assert_int_equal(spill_next(c, now + 5), now + 5);
    c->may_keep = false;
    assert_int_equal(spill_next(c, now), UINT64_MAX);
    c->may_keep = c->stopping = true;
    assert_int_equal(spill_next(c, now), UINT64_MAX);
    c->stopping = false;
    assert_int_equal(write_all(f, now), 3);
    for (int32_t i = 1; i <= 5; i++) fixture_check_file(f, i);
    assert_int_equal(f->reads, 5);
    fixture_add(f, NULL, 6);
    spill_turn(c, now + 2 * IDLE_USEC, 3); /* a step makes it look again */
    assert_int_equal(spill_next(c, now), now + 3 * IDLE_USEC);
    assert_int_equal(write_all(f, now + 3 * IDLE_USEC), 1);
}

/* A full disk: blocks in memory replace the files that were used before them, and no others. */
static void test_full_disk(void **state)
{
    struct fixture *f = *state;
    uint64_t now = clock_now_usec();
    f->config.cache_bytes = 3 * FIXTURE_FILE;
    fixture_open(f);
    for (int32_t i = 1; i <= 3; i++) fixture_add(f, NULL, i);
    assert_int_equal(write_all(f, now), 3);
    for (int32_t i = 4; i <= 5; i++) fixture_add(f, NULL, i);
    prefix_touch(f->cache.prefix, fixture_find(f, 1));
    spill_turn(&f->cache, now + 2 * IDLE_USEC, 2);
    assert_int_equal(write_all(f, now + 3 * IDLE_USEC), 2);
    for (int32_t i = 1; i <= 5; i++) assert_int_equal(fixture_on_disk(f, i), i == 1 || i >= 4);
    assert_int_equal(files(f), 3);
    for (int32_t i = 4; i <= 5; i++) fixture_check_file(f, i);
    assert_int_equal(write_all(f, now + 5 * IDLE_USEC), 0); /* it comes to an end */
}

/* A lower limit: the files that were used least recently are removed, without anything to write. */
static void test_trim(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    uint64_t now = clock_now_usec();
    fixture_open(f);
    for (int32_t i = 1; i <= 6; i++) fixture_add(f, NULL, i);
    assert_int_equal(write_all(f, now), 6);
    prefix_touch(c->prefix, fixture_find(f, 2));
    spill_limit(c, 3 * FIXTURE_FILE, 0);
    now += 5 * IDLE_USEC;
    spill_turn(c, now, 2);
    spill_turn(c, now, 2); /* one job at a time */
    assert_int_equal(fixture_deliver(f), 1);
    assert_int_equal(files(f), 3);
    spill_limit(c, 2 * FIXTURE_FILE, 0);
    spill_turn(c, now, 2); /* after a job it looks again at once */
    assert_int_equal(fixture_deliver(f), 1);
    assert_int_equal(files(f), 2);
    for (int32_t i = 1; i <= 6; i++) assert_int_equal(fixture_on_disk(f, i), i == 2 || i == 6);
    assert_int_equal(kv_pool_free_blocks(c->pools[0]), FIXTURE_BLOCKS - 6); /* memory keeps them */
    spill_turn(c, now, 2);
    assert_int_equal(fixture_deliver(f), 0);
    spill_limit(c, FIXTURE_FILE, 0);
    spill_turn(c, now, 2); /* looks at the limit once a second */
    assert_int_equal(fixture_deliver(f), 0);
    c->stopping = true;
    spill_turn(c, now + IDLE_USEC, 3);
    assert_int_equal(fixture_deliver(f), 0);
    c->stopping = false;
    spill_turn(c, now + IDLE_USEC, 3); /* a step: no block is written */
    assert_int_equal(fixture_deliver(f), 1);
    assert_int_equal(files(f), 1);
}

/* The end writes all blocks, parents first, and the next cache finds them; without time it writes none. */
static void test_flush(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    struct prefix_node *parent = fixture_add(f, NULL, 1);
    fixture_add(f, parent, 2);
    fixture_close(f, clock_now_usec()); /* no time is left */
    assert_int_equal(f->reads, 0);
    fixture_open(f);
    spill_turn(&f->cache, clock_now_usec(), 0);
    assert_int_equal(files(f), 0);
    parent = fixture_add(f, NULL, 1);
    fixture_add(f, parent, 2);
    f->cache.may_keep = false;
    fixture_close(f, UINT64_MAX);
    assert_int_equal(f->reads, 0);
    fixture_open(f);
    parent = fixture_add(f, NULL, 1);
    fixture_add(f, parent, 2);
    fixture_add(f, NULL, 3);
    fixture_close(f, UINT64_MAX);
    assert_int_equal(f->reads, 3);
    fixture_open(f);
    spill_turn(&f->cache, clock_now_usec(), 0);
    assert_int_equal(files(f), 3);
    fixture_check_file(f, 1);
    fixture_check_file(f, 3);
    struct prefix_stats stats;
    prefix_stats_get(f->cache.prefix, (uid_t)-1, &stats);
    assert_int_equal(stats.blocks_disk, 3);
    assert_int_equal(stats.blocks_memory, 0);
}

/* A block that a failed device does not give is not written, whatever asks for it. */
static void test_a_failed_device(void **state)
{
    struct fixture *f = *state;
    const uint64_t now = clock_now_usec();
    fixture_open(f);
    for (int32_t i = 1; i <= 3; i++) fixture_add(f, NULL, i);
    f->broken = true;
    spill_turn(&f->cache, now, 1);
    spill_turn(&f->cache, now + IDLE_USEC, 1);
    assert_int_equal(f->reads, 1);
    assert_int_equal(fixture_deliver(f), 0);
    assert_true(spill_next(&f->cache, now + IDLE_USEC) > now + IDLE_USEC); /* not at once again */
    fixture_close(f, UINT64_MAX);
    assert_int_equal(f->reads, 2);
    f->broken = false;
    fixture_open(f);
    spill_turn(&f->cache, clock_now_usec(), 0);
    assert_int_equal(files(f), 0);
}

/* A block whose file could not be written counts as not written, and is not tried again for a while. */
static void test_a_failed_write(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    const uint64_t now = clock_now_usec();
    fixture_open(f);
    fixture_add(f, NULL, 1);
    fixture_fail_writes(true);
    spill_turn(c, now, 1);
    spill_turn(c, now + IDLE_USEC, 1);
    assert_int_equal(fixture_deliver(f), 1);
    assert_false(fixture_on_disk(f, 1));
    assert_int_equal(files(f), 0);
    assert_in_range(spill_next(c, now), now + 9 * IDLE_USEC, now + 20 * IDLE_USEC);
    spill_turn(c, now + 2 * IDLE_USEC, 1);
    assert_int_equal(f->reads, 1);
    fixture_fail_writes(false);
    spill_turn(c, now + 30 * IDLE_USEC, 1);
    assert_int_equal(fixture_deliver(f), 1);
    fixture_check_file(f, 1);
}

/* A chain that was evicted, its end first, is found whole by the next cache. */
static void test_a_chain_is_found(void **state)
{
    struct fixture *f = *state;
    struct prefix_node *n = NULL;
    struct prefix_stats stats;
    fixture_open(f);
    for (int32_t i = 1; i <= 10; i++) n = fixture_add(f, n, i);
    assert_true(kv_cache_make_room(&f->cache, 0, FIXTURE_BLOCKS));
    assert_int_equal(fixture_deliver(f), 10);
    fixture_close(f, 0);
    fixture_open(f);
    assert_int_equal(files(f), 10);
    prefix_stats_get(f->cache.prefix, (uid_t)-1, &stats);
    assert_int_equal(stats.blocks_disk, 10);
    fixture_check_file(f, 1);
}

/* Each process adds a block to the chain that those before it have left: ids of several processes. */
static void test_a_chain_of_processes(void **state)
{
    struct fixture *f = *state;
    struct prefix_stats stats;
    for (int32_t last = 1; last <= 9; last++) {
        struct prefix_node *n = NULL;
        fixture_open(f);
        for (int32_t i = 1; i <= last; i++) n = fixture_add(f, n, i);
        assert_true(kv_cache_make_room(&f->cache, 0, FIXTURE_BLOCKS));
        assert_int_equal(fixture_deliver(f), 1);
        assert_int_equal(files(f), last);
        prefix_stats_get(f->cache.prefix, (uid_t)-1, &stats);
        assert_int_equal(stats.blocks_disk, last);
        fixture_close(f, 0);
    }
    fixture_open(f);
    assert_int_equal(files(f), 9);
}

/* The end does not replace files that were used after the block. */
static void test_flush_keeps_later_files(void **state)
{
    struct fixture *f = *state;
    f->config.cache_bytes = 2 * FIXTURE_FILE;
    fixture_open(f);
    for (int32_t i = 1; i <= 2; i++) fixture_add(f, NULL, i);
    assert_int_equal(write_all(f, clock_now_usec()), 2);
    fixture_add(f, NULL, 3);
    for (int32_t i = 1; i <= 2; i++) prefix_touch(f->cache.prefix, fixture_find(f, i));
    fixture_close(f, UINT64_MAX);
    fixture_open(f);
    assert_int_equal(files(f), 2);
    for (int32_t i = 1; i <= 3; i++) assert_int_equal(fixture_on_disk(f, i), i < 3);
}

/* With room for two files the end keeps the blocks that were used last. */
static void test_flush_on_a_full_disk(void **state)
{
    struct fixture *f = *state;
    uint64_t now = clock_now_usec();
    f->config.cache_bytes = 2 * FIXTURE_FILE;
    fixture_open(f);
    for (int32_t i = 1; i <= 2; i++) fixture_add(f, NULL, i);
    assert_int_equal(write_all(f, now), 2);
    for (int32_t i = 3; i <= 5; i++) fixture_add(f, NULL, i);
    fixture_close(f, UINT64_MAX);
    fixture_open(f);
    spill_turn(&f->cache, clock_now_usec(), 0);
    assert_int_equal(files(f), 2);
    for (int32_t i = 1; i <= 5; i++) assert_int_equal(fixture_on_disk(f, i), i >= 4);
}

/* The disk is opened in the first turn in which the model's identity is known. */
static void test_opens_when_the_model_is_known(void **state)
{
    struct fixture *f = *state;
    struct disk_stats s;
    uint64_t now = clock_now_usec();
    f->unknown = true;
    fixture_open(f);
    fixture_add(f, NULL, 1);
    spill_turn(&f->cache, now, 1);
    spill_turn(&f->cache, now + IDLE_USEC, 1);
    assert_null(spill_disk(&f->cache));
    assert_false(spill_count(&f->cache, &s));
    assert_int_equal(spill_next(&f->cache, now), UINT64_MAX);
    spill_limit(&f->cache, FIXTURE_FILE, 0); /* for the disk that it will open */
    f->unknown = false;
    assert_int_equal(write_all(f, now + 2 * IDLE_USEC), 1);
    fixture_check_file(f, 1);
    assert_int_equal(disk_excess(spill_disk(&f->cache)), 0);
    assert_int_equal(disk_room(spill_disk(&f->cache), true), 1);
}

/* No directory, or no bytes in it: the cache lives in memory. */
static void test_no_disk(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        f->config.cache_dir = i ? f->cache_dir : NULL;
        f->config.cache_bytes = i ? 0 : 1 << 20;
        fixture_open(f);
        fixture_add(f, NULL, 1);
        spill_turn(&f->cache, clock_now_usec(), 1);
        assert_null(spill_disk(&f->cache));
        assert_int_equal(spill_next(&f->cache, 0), UINT64_MAX);
        assert_true(kv_cache_make_room(&f->cache, 0, FIXTURE_BLOCKS));
        fixture_close(f, UINT64_MAX);
        assert_int_equal(f->reads, 0);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_eviction_writes),
        TEST(test_idle_writes),
        TEST(test_full_disk),
        TEST(test_trim),
        TEST(test_flush),
        TEST(test_a_failed_device),
        TEST(test_a_failed_write),
        TEST(test_a_chain_is_found),
        TEST(test_a_chain_of_processes),
        TEST(test_flush_keeps_later_files),
        TEST(test_flush_on_a_full_disk),
        TEST(test_opens_when_the_model_is_known),
        TEST(test_no_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
