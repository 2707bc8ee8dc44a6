/* SPDX-License-Identifier: MIT */
/* Logs that are truncated, changed, swapped or foreign; disks that are full or read-only. */
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { TURNS = 3 };

/* A session "a" of some turns: what it was, and what its log was, after each. */
struct history {
    char *dump[TURNS + 1]; /* [0]: of an empty one */
    size_t size[TURNS + 1];
    char *log;
};

static void make_history(struct fixture *g, struct history *h)
{
    char path[256];
    struct session *x = fixture_acquire(g, 7, "a");
    h->size[0] = 0;
    h->dump[0] = fixture_dump(x);
    for (unsigned i = 1; i <= TURNS; i++) {
        fixture_turn(x, i);
        assert_int_equal(session_save(x), 0);
        h->dump[i] = fixture_dump(x);
        h->size[i] = (size_t)x->log.size;
    }
    session_release(g->store, x);
    fixture_path(path, g, 7, "a", ".log");
    size_t n;
    h->log = fixture_read(path, &n);
    assert_int_equal(n, h->size[TURNS]);
    fixture_close(g);
}

static void free_history(struct history *h)
{
    for (unsigned i = 0; i <= TURNS; i++) free(h->dump[i]);
    free(h->log);
}

/* Open a store with a log of these bytes, continue session "a", save it and load it again. Returns how many turns it
 * had; 0: the log was refused, and the session does not exist. */
static unsigned turns_of(struct fixture *g, const struct history *h, const char *log, size_t n)
{
    char path[256];
    struct session *x = NULL;
    unsigned turns = 0;
    fixture_path(path, g, 7, "a", "");
    *strrchr(path, '/') = '\0';
    fixture_clear(path);
    fixture_path(path, g, 7, "a", ".log");
    fixture_write(path, log, n);
    fixture_open(g);
    int r = session_acquire(g->store, 7, "a", 1, false, &x);
    if (r == 0) {
        r = session_load(x);
        if (r == 0) {
            turns = fixture_last(x);
            assert_in_range(turns, 1, TURNS);
            char *have = fixture_dump(x);
            assert_string_equal(have, h->dump[turns]);
            free(have);
        } else {
            assert_int_equal(r, -EBADMSG);
            assert_int_equal(x->content.n_messages, 0);
        }
        session_release(g->store, x);
    } else {
        assert_int_equal(r, -ENOENT);
    }
    fixture_close(g);
    if (turns) {
        fixture_open(g);
        fixture_say(g, 7, "a", 9);
        fixture_close(g);
        fixture_open(g);
        x = fixture_acquire(g, 7, "a");
        assert_int_equal(fixture_last(x), 9);
        assert_int_equal(x->content.n_messages, turns * 2 + 2);
        session_release(g->store, x);
        fixture_close(g);
    }
    return turns;
}

static void test_torn_at_every_byte(void **state)
{
    struct fixture *g = *state;
    struct history h;
    make_history(g, &h);
    for (size_t n = 0; n < h.size[TURNS]; n++) {
        unsigned want = 0;
        while (h.size[want + 1] <= n) want++;
        assert_int_equal(turns_of(g, &h, h.log, n), want);
        /* an incomplete turn, which a crash explains, leaves no *.bad file; an incomplete head or first turn does */
        assert_int_equal(fixture_exists(g, 7, "a", ".bad"), want == 0);
    }
    free_history(&h);
}

/* One wrong byte anywhere: the session keeps the turns before it, and the whole file is kept. */
static void test_flipped_at_every_byte(void **state)
{
    struct fixture *g = *state;
    struct history h;
    make_history(g, &h);
    for (size_t n = 0; n < h.size[TURNS]; n++) {
        unsigned want = 0;
        char was = h.log[n];
        while (h.size[want + 1] <= n) want++;
        h.log[n] = (char)(was ^ (1 << (n % 8)));
        assert_int_equal(turns_of(g, &h, h.log, h.size[TURNS]), want);
        char path[256];
        size_t left;
        bool newer = n >= 12 && n < 16; /* the version: left where it is */
        fixture_path(path, g, 7, "a", newer ? ".log" : ".bad");
        char *kept = fixture_read(path, &left);
        assert_int_equal(left, h.size[TURNS]);
        assert_memory_equal(kept, h.log, left);
        free(kept);
        h.log[n] = was;
    }
    free_history(&h);
}

static void test_garbage_behind(void **state)
{
    struct fixture *g = *state;
    struct history h;
    make_history(g, &h);
    char *log = calloc(1, h.size[TURNS] + 4096);
    memcpy(log, h.log, h.size[TURNS]);
    for (size_t more = 1; more < 100; more++)
        assert_int_equal(turns_of(g, &h, log, h.size[TURNS] + more), TURNS); /* zeros, as some crashes leave */
    assert_int_equal(turns_of(g, &h, log, h.size[TURNS] + 4096), TURNS);
    /* the last turn once more */
    memcpy(log + h.size[TURNS], h.log + h.size[TURNS - 1], h.size[TURNS] - h.size[TURNS - 1]);
    assert_int_equal(turns_of(g, &h, log, 2 * h.size[TURNS] - h.size[TURNS - 1]), TURNS);
    /* the second turn missing, the first followed by the third */
    memcpy(log + h.size[1], h.log + h.size[2], h.size[3] - h.size[2]);
    assert_int_equal(turns_of(g, &h, log, h.size[1] + h.size[3] - h.size[2]), 1);
    free(log);
    free_history(&h);
}

/* Another session's file under this one's name, another uid's in this one's directory. */
static void test_swapped(void **state)
{
    struct fixture *g = *state;
    char a[256], b[256], c[256];
    struct session *x = NULL;
    fixture_say(g, 7, "a", 1);
    fixture_say(g, 7, "b", 2);
    fixture_say(g, 8, "a", 3);
    fixture_path(a, g, 7, "a", ".log");
    fixture_path(b, g, 7, "b", ".log");
    fixture_path(c, g, 8, "a", ".log");
    fixture_close(g);
    assert_int_equal(rename(b, a), 0);
    fixture_open(g);
    assert_int_equal(session_acquire(g->store, 7, "a", 1, false, &x), -ENOENT);
    assert_int_equal(session_acquire(g->store, 7, "b", 1, false, &x), -ENOENT);
    assert_true(fixture_exists(g, 7, "a", ".bad"));
    fixture_close(g);
    assert_int_equal(rename(c, a), 0);
    fixture_open(g);
    assert_int_equal(session_acquire(g->store, 7, "a", 1, false, &x), -ENOENT);
    assert_true(fixture_exists(g, 7, "a", "-1.bad"));
    /* while it runs: the file is no longer the one that was scanned */
    fixture_say(g, 7, "a", 1);
    fixture_say(g, 7, "b", 2);
    while (session_unload_idle(g->store)) {
    }
    assert_int_equal(rename(b, a), 0);
    assert_int_equal(session_acquire(g->store, 7, "a", 1, true, &x), 0);
    assert_int_equal(session_load(x), -EBADMSG);
    assert_non_null(strstr(error_text(-EBADMSG), "'a'"));
    session_release(g->store, x);
    assert_int_equal(session_acquire(g->store, 7, "b", 1, true, &x), 0);
    assert_int_equal(session_load(x), -ENOENT);
    session_release(g->store, x);
    fixture_say(g, 7, "a", 4);
}

/* Another program writes into a log while the session is in memory: both are kept. */
static void test_changed_under_us(void **state)
{
    struct fixture *g = *state;
    char path[256];
    size_t n;
    fixture_say(g, 7, "a", 1);
    fixture_path(path, g, 7, "a", ".log");
    fixture_write(path, "mine now", 8);
    fixture_say(g, 7, "a", 2);
    fixture_path(path, g, 7, "a", ".bad");
    char *kept = fixture_read(path, &n);
    assert_int_equal(n, 8);
    free(kept);
    fixture_path(path, g, 7, "a", ".log");
    assert_int_equal(unlink(path), 0);
    fixture_say(g, 7, "a", 3);
    fixture_path(path, g, 7, "a", "");
    *strrchr(path, '/') = '\0';
    fixture_clear(path);
    assert_int_equal(rmdir(path), 0);
    fixture_say(g, 7, "a", 4);
    fixture_close(g);
    fixture_open(g);
    struct session *x = fixture_acquire(g, 7, "a");
    assert_int_equal(fixture_last(x), 4);
    assert_int_equal(x->content.n_messages, 8);
    session_release(g->store, x);
}

/* *.bad files are removed and renamed with their session. */
static void test_set_aside_is_removed(void **state)
{
    struct fixture *g = *state;
    char path[256];
    fixture_say(g, 7, "a", 1);
    for (unsigned i = 0; i < 12; i++) {
        fixture_path(path, g, 7, "a", ".log");
        fixture_write(path, "x", 1);
        struct session *x = fixture_acquire(g, 7, "a");
        fixture_turn(x, i + 2);
        int r = session_save(x);
        session_release(g->store, x);
        assert_int_equal(r, i < 10 ? 0 : -EEXIST); /* never over another */
    }
    assert_true(fixture_exists(g, 7, "a", "-9.bad"));
    struct session *a = fixture_acquire(g, 7, "a"), *b = NULL;
    fixture_path(path, g, 7, "a", ".log");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(session_rename(g->store, a, "b", 1, &b), 0);
    assert_int_equal(session_move(b, a), 0);
    session_release(g->store, a);
    assert_true(fixture_exists(g, 7, "b", "-9.bad"));
    assert_false(fixture_exists(g, 7, "a", ".bad"));
    assert_int_equal(session_erase(b), 0);
    session_release(g->store, b);
    assert_false(fixture_exists(g, 7, "b", "-9.bad"));
    assert_false(fixture_exists(g, 7, "b", ".bad"));
    assert_false(fixture_exists(g, 7, "b", ".log"));
}

/* Foreign files and entries that are no files: no crash, nothing is removed or overwritten. */
static void test_foreign(void **state)
{
    struct fixture *g = *state;
    char path[256];
    fixture_say(g, 7, "good", 1);
    fixture_close(g);
    fixture_path(path, g, 7, "a", ".log");
    assert_int_equal(mkdir(path, 0700), 0);
    fixture_path(path, g, 7, "b", ".log");
    assert_int_equal(symlink("/etc/passwd", path), 0);
    fixture_path(path, g, 7, "c", ".log");
    assert_int_equal(mkfifo(path, 0600), 0);
    fixture_path(path, g, 7, "d", ".tmp");
    fixture_write(path, "left by a crash", 15);
    fixture_path(path, g, 7, "e", ".txt");
    fixture_write(path, "notes", 5);
    snprintf(path, sizeof(path), "%s/007", g->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/9", g->dir);
    fixture_write(path, "no directory", 12);
    snprintf(path, sizeof(path), "%s/secret", g->dir);
    fixture_write(path, "s", 1);
    fixture_open(g);
    size_t n;
    uint64_t bytes;
    session_count(g->store, (uid_t)-1, &n, &bytes);
    assert_int_equal(n, 1);
    assert_false(fixture_exists(g, 7, "d", ".tmp"));
    assert_true(fixture_exists(g, 7, "e", ".txt"));
    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + i), 0};
        struct session *x = fixture_acquire(g, 7, name);
        fixture_turn(x, 1);
        assert_int_equal(session_save(x), -EEXIST);
        assert_non_null(strstr(error_text(-EEXIST), name));
        session_release(g->store, x);
        assert_true(fixture_exists(g, 7, name, ".log"));
    }
    struct session *x = fixture_acquire(g, 9, "a");
    fixture_turn(x, 1);
    assert_int_equal(session_save(x), -ENOTDIR);
    session_release(g->store, x);
}

static void test_directory_of_another(void **state)
{
    struct fixture *g = *state;
    struct session_store_config c = fixture_config(g);
    struct session_store *s = NULL;
    fixture_close(g);
    assert_int_equal(chmod(g->dir, 0777), 0);
    assert_int_equal(session_store_open(&s, 1 << 20, &c), -EPERM);
    assert_non_null(strstr(error_text(-EPERM), g->dir));
    assert_int_equal(chmod(g->dir, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(g->dir, 12345, 12345), 0);
        assert_int_equal(session_store_open(&s, 1 << 20, &c), -EPERM);
        assert_int_equal(chown(g->dir, 0, 0), 0);
    }
    char path[256];
    snprintf(path, sizeof(path), "%s/file", g->dir);
    fixture_write(path, "", 0);
    c.dir = path;
    assert_int_equal(session_store_open(&s, 1 << 20, &c), -ENOTDIR);
    assert_null(s);
    fixture_open(g);
}

/* A failed save: the error names the session, acknowledged turns stay, and the next save writes the rest. */
static void fail_and_recover(struct fixture *g, unsigned n, int want, void (*relieve)(void *ctx), void *ctx)
{
    struct session *x = fixture_acquire(g, 7, "a");
    unsigned acknowledged = fixture_last(x);
    uint64_t size = x->log.size;
    fixture_turn(x, n);
    char *whole = fixture_dump(x);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(session_save(x), want);
        assert_non_null(strstr(error_text(want), "session 'a' could not be saved: "));
        assert_true(x->log.size == size);
        assert_false(x->log.saved);
    }
    char *still = fixture_dump(x);
    assert_string_equal(still, whole);
    session_release(g->store, x);
    struct session *y;
    assert_false(session_unload_idle(g->store));
    if (relieve) {
        relieve(ctx);
        assert_true(session_acquire_unsaved(g->store, &y));
        assert_ptr_equal(x, y);
        assert_int_equal(session_save(y), 0);
        session_release(g->store, y);
        acknowledged = n;
    }
    fixture_close(g);
    fixture_open(g);
    x = fixture_acquire(g, 7, "a");
    assert_int_equal(fixture_last(x), acknowledged);
    char *after = fixture_dump(x);
    if (relieve) assert_string_equal(after, whole);
    session_release(g->store, x);
    free(whole);
    free(still);
    free(after);
}

static void no_limit(void *ctx)
{
    assert_int_equal(setrlimit(RLIMIT_FSIZE, ctx), 0);
}

static void test_file_size_limit(void **state)
{
    struct fixture *g = *state;
    struct rlimit was, less;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    fixture_say(g, 7, "a", 1);
    for (unsigned i = 0; i < 20; i++) {
        struct session *x = fixture_acquire(g, 7, "a");
        less = was;
        less.rlim_cur = x->log.size + 10 + i * 29; /* another place inside of the record each time */
        session_release(g->store, x);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
        fail_and_recover(g, i + 2, -EFBIG, no_limit, &was);
    }
}

/* A directory on a file system of 64 KiB. False: not possible here. */
static bool small_disk(struct fixture *g)
{
    fixture_close(g);
    if (geteuid() != 0 || mount("hob", g->dir, "tmpfs", 0, "size=64k,mode=0700") < 0) {
        print_message("skipped: no tmpfs can be mounted: %s\n", geteuid() ? "not root" : strerror(errno));
        fixture_open(g);
        return false;
    }
    fixture_open(g);
    return true;
}

static void no_ballast(void *ctx)
{
    assert_int_equal(unlink(ctx), 0);
}

static void test_disk_full(void **state)
{
    struct fixture *g = *state;
    char ballast[128];
    static const char block[4096];
    if (!small_disk(g)) skip();
    snprintf(ballast, sizeof(ballast), "%s/ballast", g->dir);
    fixture_say(g, 7, "a", 1);
    for (unsigned i = 0; i < 5; i++) {
        /* pages are whole: fill up the log's, then the disk */
        unsigned n = 10 * i + 2;
        struct session *x = fixture_acquire(g, 7, "a");
        while (x->log.size % 4096 < 3000) {
            fixture_turn(x, n++);
            assert_int_equal(session_save(x), 0);
        }
        session_release(g->store, x);
        FILE *f = fopen(ballast, "w");
        assert_non_null(f);
        while (fwrite(block, 1, sizeof(block), f) == sizeof(block) && fflush(f) == 0) {
        }
        fclose(f);
        x = fixture_acquire(g, 7, "a");
        static const char text[4096];
        assert_int_equal(session_append(x, 1, text, sizeof(text), true), 0);
        session_release(g->store, x);
        fail_and_recover(g, n, -ENOSPC, no_ballast, ballast);
        struct session *y = fixture_acquire(g, 7, "new");
        session_release(g->store, y);
        if (i == 2) { /* and make room, so that the loop can go on */
            y = fixture_acquire(g, 7, "a");
            session_truncate(y, 0);
            session_drop_messages(y, 0);
            y->log.rewrite = true;
            fixture_turn(y, n + 1);
            assert_int_equal(session_save(y), 0);
            session_release(g->store, y);
        }
    }
    fixture_close(g);
    assert_int_equal(umount(g->dir), 0);
    fixture_open(g);
}

static void writable_again(void *ctx)
{
    assert_int_equal(mount(NULL, ctx, NULL, MS_REMOUNT, "size=64k"), 0);
}

static void test_read_only(void **state)
{
    struct fixture *g = *state;
    struct session_store_config c = fixture_config(g);
    struct session_store *s = NULL;
    if (!small_disk(g)) skip();
    fixture_close(g);
    char lock[128];
    snprintf(lock, sizeof(lock), "%s/lock", g->dir);
    assert_int_equal(unlink(lock), 0);
    assert_int_equal(mount(NULL, g->dir, NULL, MS_REMOUNT | MS_RDONLY, "size=64k"), 0);
    assert_int_equal(session_store_open(&s, 1 << 20, &c), -EROFS);
    assert_non_null(strstr(error_text(-EROFS), g->dir));
    writable_again(g->dir);
    fixture_open(g);
    fixture_say(g, 7, "a", 1);
    fixture_close(g);
    assert_int_equal(mount(NULL, g->dir, NULL, MS_REMOUNT | MS_RDONLY, "size=64k"), 0);
    fixture_open(g); /* the files can be read */
    assert_int_equal(session_store_open(&s, 1 << 20, &c), -EBUSY);
    struct session *x = fixture_acquire(g, 7, "a"), *b = NULL;
    assert_int_equal(fixture_last(x), 1);
    assert_int_equal(session_erase(x), -EROFS);
    assert_non_null(strstr(error_text(-EROFS), "'a'"));
    assert_int_equal(session_rename(g->store, x, "b", 1, &b), 0);
    assert_int_equal(session_move(b, x), -EROFS);
    assert_int_equal(fixture_last(x), 1);
    session_release(g->store, x);
    session_release(g->store, b);
    fail_and_recover(g, 2, -EROFS, writable_again, g->dir);
    fixture_close(g);
    assert_int_equal(umount(g->dir), 0);
    fixture_open(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_torn_at_every_byte, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_flipped_at_every_byte, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_garbage_behind, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_swapped, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_changed_under_us, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_set_aside_is_removed, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_foreign, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_directory_of_another, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_file_size_limit, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_disk_full, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_read_only, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
