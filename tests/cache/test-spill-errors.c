/* SPDX-License-Identifier: MIT */
/* The disk tier of the cache when directories cannot be used, calls fail or memory runs out, and at exact times and
 * limits. The clock is an argument. */
#include "daemon/cache/spill-states.h"
#include "libcommon/clock.h"
#include "libcommon/log.h"
#include "tests/cache/fixture.h"
#include "tests/support/calls.h"
#include "tests/support/memory.h"
#include "tests/support/warnings.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define IDLE_USEC 1000000ull /* after the last step, before blocks are written */

static uint64_t files(const struct fixture *f)
{
    struct disk_stats s;
    assert_true(spill_count(&f->cache, &s));
    return s.files;
}

static void idle(struct fixture *f, uint64_t now)
{
    spill_turn(&f->cache, now, 2);
    spill_turn(&f->cache, now, 1);
    spill_turn(&f->cache, now + IDLE_USEC, 1);
}

static unsigned write_all(struct fixture *f, uint64_t now)
{
    unsigned n = 0, more;
    do {
        idle(f, now);
        n += more = fixture_deliver(f);
    } while (more);
    return n;
}

static bool in_memory_only(struct fixture *f)
{
    struct disk_stats s;
    fixture_add(f, NULL, 1);
    idle(f, clock_now_usec());
    assert_int_equal(fixture_deliver(f), 0);
    assert_true(kv_cache_make_room(&f->cache, 0, FIXTURE_BLOCKS));
    return !spill_disk(&f->cache) && !spill_count(&f->cache, &s) && !f->reads;
}

/* --- opening --- */

/* What kv_cache_free and others do to a cache that could not be made. */
static void test_without_memory(void **state)
{
    struct fixture *f = *state;
    struct kv_cache none = {.may_keep = true};
    spill_limit(&none, 1 << 20, 0);
    spill_flush(&none, UINT64_MAX);
    assert_int_equal(spill_next(&none, 5), UINT64_MAX);
    struct disk_stats s;
    assert_false(spill_count(&none, &s) || spill_count_states(&none, &s));
    spill_free(&none);
    fixture_recurrent(f);
    fixture_open(f);
    fixture_add_state(f, fixture_add(f, NULL, 1), 11);
    fixture_add(f, NULL, 2);
    fixture_close(f, UINT64_MAX);
    for (unsigned long n = 0, failed = 1; failed; n++) {
        struct kv_cache *c = &f->cache;
        *c = (struct kv_cache){0};
        memory_fail(n);
        const int r = kv_cache_new(c, &f->backend, &f->config, &f->jobs);
        failed = memory_end();
        assert_true(r == 0 || (failed && r == -ENOMEM));
        if (r == 0) {
            assert_true(c->pools[0] && c->pools[1] && !c->pools[2] && c->prefix && c->spill);
            assert_true(kv_cache_make_room(c, 0, FIXTURE_BLOCKS) && kv_cache_make_room(c, 1, FIXTURE_STATES));
        }
        kv_cache_free(c, 0);
        assert_true(!c->pools[0] && !c->pools[1] && !c->prefix && !c->spill);
    }
}

static void test_no_secret(void **state)
{
    struct fixture *f = *state;
    const struct prefix_namespace none = {{0}};
    char file[100];
    snprintf(file, sizeof(file), "%s/file/state", f->top);
    assert_int_equal(folder_put(f->top, "file", "not a directory"), 0);
    f->config.state_dir = file;
    assert_int_equal(warnings_begin(), 0);
    fixture_open(f);
    assert_non_null(strstr(warnings_end(), "KV blocks are kept only in memory: "));
    assert_true(memcmp(&f->cache.public_namespace, &none, sizeof(none)) != 0);
    assert_true(in_memory_only(f));
}

static void test_no_directory(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(folder_put(f->top, "cache", "not a directory"), 0);
    fixture_recurrent(f);
    assert_int_equal(warnings_begin(), 0);
    fixture_open(f);
    const char *heard = warnings_end();
    assert_non_null(strstr(heard, "KV blocks are kept only in memory: "));
    assert_null(strstr(heard, "recurrent states"));
    assert_null(spill_states(&f->cache));
    assert_true(in_memory_only(f));
}

/* A directory that cannot be listed is not used at all. */
static void test_no_list(void **state)
{
    struct fixture *f = *state;
    fixture_recurrent(f);
    unsigned blocks = 0, states = 0;
    for (unsigned long n = 0; n < 4; n++) {
        calls_name(".");
        calls_fail(CALL_OPEN, n, EMFILE);
        assert_int_equal(warnings_begin(), 0);
        fixture_open(f);
        const bool failed = calls_end();
        const char *heard = warnings_end();
        const bool kv = strstr(heard, "KV blocks are kept only in memory: ");
        const bool recurrent = strstr(heard, "recurrent states are kept only in memory: ");
        assert_int_equal(kv + recurrent, failed);
        assert_int_equal(spill_disk(&f->cache) == NULL, kv);
        assert_int_equal(spill_states(&f->cache) == NULL, failed);
        blocks += kv;
        states += recurrent;
        fixture_close(f, UINT64_MAX);
    }
    assert_true(blocks && states);
}

/* The disk is opened at the end if the model became known only then, and there is time. */
static void test_known_at_the_end(void **state)
{
    struct fixture *f = *state;
    f->unknown = true;
    fixture_open(f);
    fixture_add(f, NULL, 1);
    f->unknown = false;
    fixture_close(f, UINT64_MAX);
    assert_int_equal(f->reads, 1);
    fixture_open(f);
    assert_int_equal(files(f), 1);
    fixture_check_file(f, 1);
}

/* Files of many processes, of which a parent was used after its children: the whole chain is found. */
static int by_time(const void *a, const void *b)
{
    const struct timespec *x = a, *y = b;
    return x->tv_sec != y->tv_sec ? (x->tv_sec > y->tv_sec) - (x->tv_sec < y->tv_sec)
                                  : (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static void turn_times_around(const char *path)
{
    char names[32][256];
    struct timespec times[32], sorted[32];
    int n = 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) {
        struct stat st;
        if (fstatat(dirfd(d), e->d_name, &st, 0) < 0 || !S_ISREG(st.st_mode) || !st.st_size) continue;
        assert_true(n < 32);
        snprintf(names[n], sizeof(names[n]), "%s", e->d_name);
        times[n] = sorted[n] = st.st_mtim;
        n++;
    }
    qsort(sorted, (size_t)n, sizeof(*sorted), by_time);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            const struct timespec t[2] = {sorted[n - 1 - k], sorted[n - 1 - k]};
            if (by_time(&times[i], &sorted[k]) == 0) assert_int_equal(utimensat(dirfd(d), names[i], t, 0), 0);
        }
    closedir(d);
}

static void test_parents_used_last(void **state)
{
    enum { PROCESSES = 9 };
    struct fixture *f = *state;
    struct prefix_stats stats;
    for (int32_t last = 1; last <= PROCESSES; last++) {
        struct prefix_node *n = NULL;
        fixture_open(f);
        for (int32_t i = 1; i <= last; i++) n = fixture_add(f, n, i);
        fixture_close(f, UINT64_MAX);
    }
    for (int i = 0; i < 2; i++) {
        fixture_open(f);
        assert_int_equal(files(f), PROCESSES);
        prefix_stats_get(f->cache.prefix, (uid_t)-1, &stats);
        assert_int_equal(stats.blocks_disk, PROCESSES);
        fixture_close(f, 0);
        turn_times_around(f->cache_dir);
    }
}

/* --- writing --- */

/* The first turn begins the second without a step, also when there was no step yet. */
static void test_first_turn(void **state)
{
    struct fixture *f = *state;
    const uint64_t now = clock_now_usec();
    fixture_open(f);
    fixture_add(f, NULL, 1);
    spill_turn(&f->cache, now, 0);
    assert_int_equal(f->reads, 0);
    spill_turn(&f->cache, now + IDLE_USEC, 0);
    assert_int_equal(f->reads, 1);
    assert_int_equal(fixture_deliver(f), 1);
}

/* Memory, the file system or the device has failed: again after ten seconds, to the microsecond. */
static void test_try_again(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    for (int what = 0; what < 3; what++) {
        const uint64_t at = clock_now_usec();
        fixture_open(f);
        fixture_add(f, NULL, what + 1);
        spill_turn(c, at, 100 + (uint64_t)what);
        f->reads = 0;
        f->broken = what == 2;
        if (what == 0) memory_fail(0);
        if (what == 1) calls_fail(CALL_FSTATVFS, 1, EIO); /* behind the look for too many files */
        spill_turn(c, at + IDLE_USEC, 100 + (uint64_t)what);
        if (what == 0) assert_true(memory_end());
        if (what == 1) assert_true(calls_end());
        assert_int_equal(f->reads, what == 2);
        assert_int_equal(fixture_deliver(f), 0);
        f->broken = false;
        const uint64_t next = spill_next(c, at + IDLE_USEC);
        assert_in_range(next, at + 5 * IDLE_USEC, at + 30 * IDLE_USEC);
        f->reads = 0;
        spill_turn(c, next - 1, 100 + (uint64_t)what);
        assert_int_equal(f->reads, 0);
        spill_turn(c, next, 100 + (uint64_t)what);
        assert_int_equal(f->reads, 1);
        assert_int_equal(fixture_deliver(f), 1);
        fixture_check_file(f, what + 1);
        fixture_close(f, 0);
    }
}

/* Wait until the jobs under way have finished, without delivering them. */
static void finish(struct fixture *f, unsigned jobs)
{
    unsigned n = 0;
    pthread_mutex_lock(&f->lock);
    while (n < jobs) {
        n = 0;
        for (const struct return_job *x = f->jobs.finished; x; x = x->next) n++;
        if (n < jobs) pthread_cond_wait(&f->wake, &f->lock);
    }
    pthread_mutex_unlock(&f->lock);
}

/* A write of what was added fails with the warning @one and the reason, and the last flush with @all. */
static void check_warnings(struct fixture *f, const char *one, const char *all)
{
    fixture_fail_writes(true);
    idle(f, clock_now_usec());
    finish(f, 1);
    fixture_fail_writes(false);
    assert_int_equal(warnings_begin(), 0);
    assert_int_equal(fixture_deliver(f), 1);
    const char *heard = warnings_end();
    assert_non_null(strstr(heard, one));
    assert_non_null(strstr(heard, strerror(EFBIG)));
    f->broken = true;
    assert_int_equal(warnings_begin(), 0);
    fixture_close(f, UINT64_MAX);
    assert_non_null(strstr(warnings_end(), all));
    f->broken = false;
}

static void test_warns(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    fixture_add(f, NULL, 1);
    check_warnings(
        f, "cannot write a KV block to disk: ", "not all KV blocks were written to disk: the device has failed");
    fixture_open(f);
    fixture_add(f, NULL, 4);
    assert_int_equal(warnings_begin(), 0);
    fixture_close(f, UINT64_MAX);
    assert_string_equal(warnings_end(), "");
}

/* A block that leaves memory is not copied for a disk without room. */
static void test_eviction_on_a_full_disk(void **state)
{
    struct fixture *f = *state;
    f->config.cache_bytes = FIXTURE_FILE;
    fixture_open(f);
    fixture_add(f, NULL, 1);
    assert_int_equal(write_all(f, clock_now_usec()), 1);
    f->reads = 0;
    fixture_add(f, NULL, 2);
    assert_true(kv_cache_make_room(&f->cache, 0, FIXTURE_BLOCKS));
    assert_int_equal(f->reads, 0);
    assert_int_equal(fixture_deliver(f), 0);
    fixture_check_file(f, 1);
}

/* With more files than are allowed any of them gives room at the end, also one that was used later. */
static void test_flush_with_too_many_files(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    for (int32_t i = 1; i <= 3; i++) fixture_add(f, NULL, i);
    assert_int_equal(write_all(f, clock_now_usec()), 3);
    fixture_add(f, NULL, 4);
    for (int32_t i = 1; i <= 3; i++) prefix_touch(f->cache.prefix, fixture_find(f, i));
    spill_limit(&f->cache, 2 * FIXTURE_FILE, 0);
    f->config.cache_bytes = 2 * FIXTURE_FILE;
    fixture_close(f, UINT64_MAX);
    fixture_open(f);
    assert_int_equal(files(f), 2);
    for (int32_t i = 1; i <= 4; i++) assert_int_equal(fixture_on_disk(f, i), i == 2 || i == 3);
}

/* --- less room --- */

/* A job removes 64 files, the next one begins when it has ended; files of nodes in use stay. */
static void test_trim_many(void **state)
{
    enum { FILES = 11 * FIXTURE_BLOCKS, JOB = 64 };
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    struct prefix_stats stats;
    uint64_t now = clock_now_usec();
    f->config.cache_bytes = 2 * FILES * FIXTURE_FILE;
    fixture_open(f);
    for (int32_t i = 1; i <= FILES; i++) {
        fixture_add(f, NULL, i);
        if (i % FIXTURE_BLOCKS) continue;
        assert_true(kv_cache_make_room(c, 0, FIXTURE_BLOCKS));
        while (fixture_deliver(f)) continue;
    }
    assert_int_equal(files(f), FILES);
    spill_limit(c, FIXTURE_FILE, 0);
    spill_turn(c, now += 5 * IDLE_USEC, 2);
    prefix_stats_get(c->prefix, (uid_t)-1, &stats);
    assert_int_equal(stats.blocks_disk, FILES - JOB);
    spill_turn(c, now += 5 * IDLE_USEC, 3);
    prefix_stats_get(c->prefix, (uid_t)-1, &stats);
    assert_int_equal(stats.blocks_disk, FILES - JOB);
    assert_int_equal(fixture_deliver(f), 1);
    assert_int_equal(files(f), FILES - JOB);
    struct prefix_node *used = fixture_find(f, FILES);
    prefix_ref(c->prefix, used);
    for (int i = 0; i < 9; i++) {
        spill_turn(c, now += 5 * IDLE_USEC, 4 + (uint64_t)i);
        if (fixture_deliver(f) == 0) break;
    }
    assert_int_equal(files(f), 1);
    spill_limit(c, 1, 0); /* not even one fits, but it is in use */
    spill_turn(c, now += 5 * IDLE_USEC, 30);
    assert_int_equal(fixture_deliver(f), 0);
    prefix_unref(c->prefix, used);
    spill_turn(c, now += 5 * IDLE_USEC, 31);
    assert_int_equal(fixture_deliver(f), 1);
    assert_int_equal(files(f), 0);
}

/* --- tables --- */

static void test_slide_without_memory(void **state)
{
    struct fixture *f = *state;
    struct kv_table t = {0};
    struct kv_cache *c = &f->cache;
    f->config.cache_dir = NULL;
    fixture_open(f);
    assert_int_equal(kv_table_reserve(&t, c->pools[0], KV_BLOCK), 0);
    memory_fail(0);
    assert_int_equal(kv_cache_slide(c, 0, &t, 0, 0, 2 * KV_BLOCK), -ENOMEM);
    assert_true(memory_end());
    assert_int_equal(t.n_blocks, 1);
    memory_fail(0); /* nor is there room; the first reason counts */
    assert_int_equal(kv_cache_slide(c, 0, &t, 0, 0, 2 * FIXTURE_BLOCKS * KV_BLOCK), -ENOMEM);
    assert_true(memory_end());
    assert_int_equal(kv_cache_slide(c, 0, &t, 0, 0, 2 * FIXTURE_BLOCKS * KV_BLOCK), -ENOBUFS);
    kv_table_fini(&t, c->pools[0]);
}

/* Room for states is made of states. */
static void test_room_for_states(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    f->config.cache_dir = NULL;
    fixture_recurrent(f);
    fixture_open(f);
    for (int32_t i = 0; i < FIXTURE_STATES; i++) fixture_add_state(f, fixture_add(f, NULL, i + 1), i);
    assert_int_equal(kv_pool_free_blocks(c->pools[1]), 0);
    assert_true(kv_cache_make_room(c, 1, 2));
    assert_int_equal(kv_pool_free_blocks(c->pools[1]), 2);
    assert_int_equal(kv_pool_free_blocks(c->pools[0]), FIXTURE_BLOCKS - FIXTURE_STATES);
}

/* --- states --- */

/* States that cannot be written: the reason is told, and they are tried again after ten seconds. */
static void test_states_try_again(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    uint64_t now = clock_now_usec();
    fixture_recurrent(f);
    fixture_open(f);
    for (int what = 0; what < 3; what++) {
        struct prefix_node *n = fixture_add(f, NULL, what + 1);
        write_all(f, now);
        now += 100 * IDLE_USEC;
        fixture_add_state(f, n, what);
        spill_turn(c, now, 100 + (uint64_t)what);
        spill_turn(c, now + IDLE_USEC - 1, 100 + (uint64_t)what);
        f->state_reads = 0;
        f->broken = what == 2;
        if (what == 0) memory_fail(0);
        if (what == 1) calls_fail(CALL_FSTATVFS, 2, EIO); /* behind two looks for too many files */
        spill_turn(c, now + IDLE_USEC, 100 + (uint64_t)what);
        if (what == 0) assert_true(memory_end());
        if (what == 1) assert_true(calls_end());
        assert_int_equal(f->state_reads, what == 2);
        assert_int_equal(fixture_deliver(f), 0);
        assert_false(prefix_state_on_disk(n));
        f->broken = false;
        const uint64_t next = spill_next(c, now + IDLE_USEC);
        assert_in_range(next, now + 5 * IDLE_USEC, now + 30 * IDLE_USEC);
        spill_turn(c, next - 1, 100 + (uint64_t)what);
        assert_int_equal(fixture_deliver(f), 0);
        spill_turn(c, next, 100 + (uint64_t)what);
        assert_int_equal(fixture_deliver(f), 1);
        assert_true(prefix_state_on_disk(n));
    }
}

static void test_states_warn(void **state)
{
    struct fixture *f = *state;
    fixture_recurrent(f);
    fixture_open(f);
    struct prefix_node *n = fixture_add(f, NULL, 1);
    write_all(f, clock_now_usec());
    fixture_add_state(f, n, 5);
    check_warnings(f, "cannot write a recurrent state to disk: ",
                   "not all recurrent states were written to disk: the device has failed");
    fixture_open(f);
    fixture_add_state(f, fixture_add(f, NULL, 1), 5);
    assert_int_equal(warnings_begin(), 0);
    fixture_close(f, UINT64_MAX);
    assert_string_equal(warnings_end(), "");
}

/* At most two jobs of states at a time, also for those that leave memory. */
static void test_states_jobs(void **state)
{
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    fixture_recurrent(f);
    fixture_open(f);
    struct prefix_node *n[4];
    for (int32_t i = 0; i < 4; i++) n[i] = fixture_add(f, NULL, i + 1);
    write_all(f, clock_now_usec());
    for (int32_t i = 0; i < 4; i++) fixture_add_state(f, n[i], i);
    f->state_reads = 0;
    assert_true(kv_cache_make_room(c, 1, FIXTURE_STATES));
    assert_int_equal(f->state_reads, 2);
    assert_int_equal(fixture_deliver(f), 2);
    int written = 0;
    for (int i = 0; i < 4; i++) written += prefix_state_on_disk(n[i]);
    assert_int_equal(written, 2);
}

/* A job removes 16 files of states; without memory for it they stay for now. */
static void test_states_trim_many(void **state)
{
    enum { FILES = 20, JOB = 16 };
    struct fixture *f = *state;
    struct kv_cache *c = &f->cache;
    struct prefix_stats stats;
    uint64_t now = clock_now_usec();
    fixture_recurrent(f);
    fixture_open(f);
    for (int32_t i = 1; i <= FILES; i++) {
        struct prefix_node *n = fixture_add(f, NULL, i);
        write_all(f, now);
        fixture_add_state(f, n, i);
        write_all(f, now);
        assert_true(prefix_state_on_disk(n));
        assert_true(kv_cache_make_room(c, 0, FIXTURE_BLOCKS));
        now += 2 * IDLE_USEC;
    }
    prefix_stats_get(c->prefix, (uid_t)-1, &stats);
    assert_int_equal(stats.states_disk, FILES);
    disk_limit(spill_states(c), 1, 0);
    now += 5 * IDLE_USEC;
    memory_fail(0);
    spill_turn(c, now, 2);
    assert_true(memory_end());
    assert_int_equal(fixture_deliver(f), 0);
    spill_turn(c, now + 2 * IDLE_USEC, 3);
    prefix_stats_get(c->prefix, (uid_t)-1, &stats);
    assert_int_equal(stats.states_disk, FILES - JOB);
    assert_int_equal(fixture_deliver(f), 1);
    spill_turn(c, now + 4 * IDLE_USEC, 4);
    assert_int_equal(fixture_deliver(f), 1);
    prefix_stats_get(c->prefix, (uid_t)-1, &stats);
    assert_int_equal(stats.states_disk, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_without_memory),
        TEST(test_no_secret),
        TEST(test_no_directory),
        TEST(test_no_list),
        TEST(test_known_at_the_end),
        TEST(test_parents_used_last),
        TEST(test_first_turn),
        TEST(test_try_again),
        TEST(test_warns),
        TEST(test_eviction_on_a_full_disk),
        TEST(test_flush_with_too_many_files),
        TEST(test_trim_many),
        TEST(test_slide_without_memory),
        TEST(test_room_for_states),
        TEST(test_states_try_again),
        TEST(test_states_warn),
        TEST(test_states_jobs),
        TEST(test_states_trim_many),
    };
    log_limit(LOG_ERROR);
    return cmocka_run_group_tests_name("spill-errors", tests, NULL, NULL);
}
