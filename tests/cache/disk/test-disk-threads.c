/* SPDX-License-Identifier: MIT */
/* The disk tier: any function from any thread at once, and processes that are killed while they write. */
#include "libcommon/error.h"
#include "tests/cache/disk/fixture.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- threads --- */

enum { THREADS = 6, STEPS = 1500, IDS = 24, MAX = 20 };

struct worker {
    struct disk *d;
    uint64_t seed;
    uint64_t reads;
    bool bad; /* cmocka's assertions belong to the main thread */
};

static bool any(void *ctx, struct prefix_info *info)
{
    struct worker *w = ctx;
    struct prefix_info want = fixture_info(info->id.low - 1);
    w->bad |= want.id.high != info->id.high || memcmp(want.tokens, info->tokens, sizeof(want.tokens)) != 0;
    return fixture_random(&w->seed) % 16;
}

static void read_one(struct worker *w, uint64_t i)
{
    uint8_t want[FIXTURE_PAYLOAD], have[FIXTURE_PAYLOAD];
    struct prefix_info info = fixture_info(i);
    int r = disk_read(w->d, &info, have);
    fixture_payload(want, sizeof(want), i);
    w->bad |= r && r != -ENOENT;
    w->bad |= !r && memcmp(want, have, sizeof(want)) != 0;
    w->reads += !r;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct disk_stats s;
    for (int k = 0; k < STEPS; k++) {
        uint64_t i = fixture_random(&w->seed) % IDS;
        int r = 0;
        switch (fixture_random(&w->seed) % 8) {
        case 0:
        case 1:
        case 2:
            r = fixture_write(w->d, i);
            w->bad |= r && r != -EDQUOT;
            break;
        case 3:
            disk_remove(w->d, fixture_info(i).id);
            break;
        case 4:
            r = disk_room(w->d, i % 2);
            w->bad |= r != 0 && r != 1;
            break;
        case 5:
            disk_stats_get(w->d, &s);
            w->bad |= s.files > MAX || s.bytes != s.files * FIXTURE_FILE || s.damaged;
            break;
        case 6:
            if (k % 20 == 0) w->bad |= disk_scan(w->d, any, w, NULL) != 0;
            break;
        default:
            read_one(w, i);
        }
    }
    return NULL;
}

static void test_all_at_once(void **state)
{
    struct disk_config c = fixture_config(*state);
    c.bytes_max = MAX * FIXTURE_FILE;
    struct disk *d = fixture_open(&c);
    struct worker w[THREADS];
    pthread_t t[THREADS];
    uint64_t reads = 0;
    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.d = d, .seed = (uint64_t)i + 1};
        assert_int_equal(pthread_create(&t[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
        assert_false(w[i].bad);
        reads += w[i].reads;
    }
    struct disk_stats s = fixture_stats(d);
    assert_int_equal(s.files, place_count(*state, ".kv"));
    assert_int_equal(place_count(*state, ".part"), 0);
    assert_int_equal(s.damaged, 0);
    assert_true(reads > 0 && s.read == reads * FIXTURE_FILE);
    assert_int_equal(fixture_scan(d)->n, s.files);
    disk_close(d);
}

/* --- kill -9 --- */

enum { KILLS = 200, WRITERS = 3, LARGE = 40000 };

static int write_large(struct disk *d, uint64_t i)
{
    static uint8_t payload[LARGE];
    struct prefix_info info = fixture_info(i);
    memset(payload, (int)(i % 251), sizeof(payload));
    return disk_write(d, &info, payload);
}

static void write_for_ever(struct disk *d, uint64_t first)
{
    for (uint64_t i = first;; i++) {
        write_large(d, i % 1000);
        if (i % 5 == 0) disk_remove(d, fixture_info((i * 7 + 3) % 1000).id);
    }
}

/* Processes that share one lock and write until they are killed. @alive is open until the last one is dead. */
static void child(const struct disk_config *c, uint64_t round, int alive)
{
    struct disk *d;
    setpgid(0, 0);
    uint64_t first = round * 37;
    if (disk_open(&d, c) < 0) _exit(1);
    int r = write_large(d, first % 1000); /* at least one file exists, on a slow machine too */
    if (r && r != -EDQUOT) _exit(1);
    (void)!write(alive, "", 1);
    for (int i = 1; i < WRITERS; i++)
        if (fork() == 0) {
            first += (uint64_t)i * 333;
            break;
        }
    write_for_ever(d, first);
}

static void kill_while_writing(const struct disk_config *c, uint64_t round, uint64_t *seed)
{
    int alive[2], status;
    char byte;
    assert_int_equal(pipe(alive), 0);
    pid_t pid = fork();
    if (pid == 0) child(c, round, alive[1]);
    setpgid(pid, pid);
    close(alive[1]);
    assert_int_equal(read(alive[0], &byte, 1), 1);
    struct timespec t = {.tv_nsec = (long)(fixture_random(seed) % 6000000)};
    nanosleep(&t, NULL);
    kill(-pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(read(alive[0], &byte, 1), 0);
    close(alive[0]);
}

static uint64_t check_all_whole(const struct place *p, struct disk *d)
{
    static uint8_t payload[LARGE], same[LARGE];
    const struct fixture_found *f = fixture_scan(d);
    for (size_t k = 0; k < f->n; k++) {
        struct prefix_info want = fixture_info(f->infos[k].id.low - 1);
        fixture_same(&f->infos[k], &want);
        assert_int_equal(disk_read(d, &want, payload), 0);
        memset(same, (int)((want.id.low - 1) % 251), LARGE);
        assert_memory_equal(payload, same, LARGE);
    }
    assert_int_equal(place_count(p, ".kv"), f->n);
    assert_int_equal(place_count(p, ""), f->n);
    struct disk_stats s = fixture_stats(d);
    assert_true(s.files == f->n && s.damaged == 0);
    return f->n;
}

static void test_killed(void **state)
{
    struct place *p = *state;
    struct disk_config c = fixture_config(p);
    uint64_t seed = 17, files = 0, parts = 0;
    c.payload = LARGE;
    c.bytes_max = (uint64_t)100 * (LARGE + FIXTURE_HEADER);
    for (uint64_t round = 0; round < KILLS; round++) {
        kill_while_writing(&c, round, &seed);
        parts += place_count(p, ".part");
        struct disk *d = fixture_open(&c);
        assert_int_equal(fixture_stats(d).files, place_count(p, ".kv"));
        files += check_all_whole(p, d);
        for (uint64_t i = 0; round % 5 == 4 && i < 1000; i++) disk_remove(d, fixture_info(i).id);
        disk_close(d);
    }
    print_message("%ju blocks and %ju temporary files were left\n", (uintmax_t)files, (uintmax_t)parts);
    assert_true(files > 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_all_at_once),
        T(test_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
