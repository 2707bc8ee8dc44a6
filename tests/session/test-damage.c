/* SPDX-License-Identifier: MIT */
/* Logs that are truncated, changed, swapped or foreign; disks that are full or read-only. */
#include "libcommon/error.h"
#include "tests/session/rig.h"
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

static void make_history(struct rig *g, struct history *h)
{
    char path[256];
    struct session *x = rig_acquire(g, 7, "a");
    h->size[0] = 0;
    h->dump[0] = rig_dump(x);
    for (unsigned i = 1; i <= TURNS; i++) {
        rig_turn(x, i);
        assert_int_equal(session_save(x), 0);
        h->dump[i] = rig_dump(x);
        h->size[i] = (size_t)x->log.size;
    }
    session_release(g->store, x);
    rig_path(path, g, 7, "a", ".log");
    size_t n;
    h->log = rig_read(path, &n);
    assert_int_equal(n, h->size[TURNS]);
    rig_close(g);
}

static void free_history(struct history *h)
{
    for (unsigned i = 0; i <= TURNS; i++) free(h->dump[i]);
    free(h->log);
}

/* Open a store with a log of these bytes, continue session "a", save it and load it again. Returns how many turns it
 * had; 0: the log was refused, and the session does not exist. */
static unsigned turns_of(struct rig *g, const struct history *h, const char *log, size_t n)
{
    char path[256];
    struct session *x = NULL;
    unsigned turns = 0;
    rig_path(path, g, 7, "a", "");
    *strrchr(path, '/') = '\0';
    rig_clear(path);
    rig_path(path, g, 7, "a", ".log");
    rig_write(path, log, n);
    rig_open(g);
    int r = session_acquire(g->store, 7, "a", 1, false, &x);
    if (r == 0) {
        r = session_load(x);
        if (r == 0) {
            turns = rig_last(x);
            assert_in_range(turns, 1, TURNS);
            char *have = rig_dump(x);
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
    rig_close(g);
    if (turns) {
        rig_open(g);
        rig_say(g, 7, "a", 9);
        rig_close(g);
        rig_open(g);
        x = rig_acquire(g, 7, "a");
        assert_int_equal(rig_last(x), 9);
        assert_int_equal(x->content.n_messages, turns * 2 + 2);
        session_release(g->store, x);
        rig_close(g);
    }
    return turns;
}

static void test_torn_at_every_byte(void **state)
{
    struct rig *g = *state;
    struct history h;
    make_history(g, &h);
    for (size_t n = 0; n < h.size[TURNS]; n++) {
        unsigned want = 0;
        while (h.size[want + 1] <= n) want++;
        assert_int_equal(turns_of(g, &h, h.log, n), want);
        /* an incomplete turn, which a crash explains, leaves no *.bad file; an incomplete head or first turn does */
        assert_int_equal(rig_exists(g, 7, "a", ".bad"), want == 0);
    }
    free_history(&h);
}

/* One wrong byte anywhere: the session keeps the turns before it, and the whole file is kept. */
static void test_flipped_at_every_byte(void **state)
{
    struct rig *g = *state;
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
        rig_path(path, g, 7, "a", newer ? ".log" : ".bad");
        char *kept = rig_read(path, &left);
        assert_int_equal(left, h.size[TURNS]);
        assert_memory_equal(kept, h.log, left);
        free(kept);
        h.log[n] = was;
    }
    free_history(&h);
}

static void test_garbage_behind(void **state)
{
    struct rig *g = *state;
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
    struct rig *g = *state;
    char a[256], b[256], c[256];
    struct session *x = NULL;
    rig_say(g, 7, "a", 1);
    rig_say(g, 7, "b", 2);
    rig_say(g, 8, "a", 3);
    rig_path(a, g, 7, "a", ".log");
    rig_path(b, g, 7, "b", ".log");
    rig_path(c, g, 8, "a", ".log");
    rig_close(g);
    assert_int_equal(rename(b, a), 0);
    rig_open(g);
    assert_int_equal(session_acquire(g->store, 7, "a", 1, false, &x), -ENOENT);
    assert_int_equal(session_acquire(g->store, 7, "b", 1, false, &x), -ENOENT);
    assert_true(rig_exists(g, 7, "a", ".bad"));
    rig_close(g);
    assert_int_equal(rename(c, a), 0);
    rig_open(g);
    assert_int_equal(session_acquire(g->store, 7, "a", 1, false, &x), -ENOENT);
    assert_true(rig_exists(g, 7, "a", "-1.bad"));
    /* while it runs: the file is no longer the one that was scanned */
    rig_say(g, 7, "a", 1);
    rig_say(g, 7, "b", 2);
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
    rig_say(g, 7, "a", 4);
}

/* Another program writes into a log while the session is in memory: both are kept. */
static void test_changed_under_us(void **state)
{
    struct rig *g = *state;
    char path[256];
    size_t n;
    rig_say(g, 7, "a", 1);
    rig_path(path, g, 7, "a", ".log");
    rig_write(path, "mine now", 8);
    rig_say(g, 7, "a", 2);
    rig_path(path, g, 7, "a", ".bad");
    char *kept = rig_read(path, &n);
    assert_int_equal(n, 8);
    free(kept);
    rig_path(path, g, 7, "a", ".log");
    assert_int_equal(unlink(path), 0);
    rig_say(g, 7, "a", 3);
    rig_path(path, g, 7, "a", "");
    *strrchr(path, '/') = '\0';
    rig_clear(path);
    assert_int_equal(rmdir(path), 0);
    rig_say(g, 7, "a", 4);
    rig_close(g);
    rig_open(g);
    struct session *x = rig_acquire(g, 7, "a");
    assert_int_equal(rig_last(x), 4);
    assert_int_equal(x->content.n_messages, 8);
    session_release(g->store, x);
}

/* *.bad files are removed and renamed with their session. */
static void test_set_aside_is_removed(void **state)
{
    struct rig *g = *state;
    char path[256];
    rig_say(g, 7, "a", 1);
    for (unsigned i = 0; i < 12; i++) {
        rig_path(path, g, 7, "a", ".log");
        rig_write(path, "x", 1);
        struct session *x = rig_acquire(g, 7, "a");
        rig_turn(x, i + 2);
        int r = session_save(x);
        session_release(g->store, x);
        assert_int_equal(r, i < 10 ? 0 : -EEXIST); /* never over another */
    }
    assert_true(rig_exists(g, 7, "a", "-9.bad"));
    struct session *a = rig_acquire(g, 7, "a"), *b = NULL;
    rig_path(path, g, 7, "a", ".log");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(session_rename(g->store, a, "b", 1, &b), 0);
    assert_int_equal(session_move(b, a), 0);
    session_release(g->store, a);
    assert_true(rig_exists(g, 7, "b", "-9.bad"));
    assert_false(rig_exists(g, 7, "a", ".bad"));
    assert_int_equal(session_erase(b), 0);
    session_release(g->store, b);
    assert_false(rig_exists(g, 7, "b", "-9.bad"));
    assert_false(rig_exists(g, 7, "b", ".bad"));
    assert_false(rig_exists(g, 7, "b", ".log"));
}

/* Foreign files and entries that are no files: no crash, nothing is removed or overwritten. */
static void test_foreign(void **state)
{
    struct rig *g = *state;
    char path[256];
    rig_say(g, 7, "good", 1);
    rig_close(g);
    rig_path(path, g, 7, "a", ".log");
    assert_int_equal(mkdir(path, 0700), 0);
    rig_path(path, g, 7, "b", ".log");
    assert_int_equal(symlink("/etc/passwd", path), 0);
    rig_path(path, g, 7, "c", ".log");
    assert_int_equal(mkfifo(path, 0600), 0);
    rig_path(path, g, 7, "d", ".tmp");
    rig_write(path, "left by a crash", 15);
    rig_path(path, g, 7, "e", ".txt");
    rig_write(path, "notes", 5);
    snprintf(path, sizeof(path), "%s/007", g->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/9", g->dir);
    rig_write(path, "no directory", 12);
    snprintf(path, sizeof(path), "%s/secret", g->dir);
    rig_write(path, "s", 1);
    rig_open(g);
    size_t n;
    uint64_t bytes;
    session_count(g->store, (uid_t)-1, &n, &bytes);
    assert_int_equal(n, 1);
    assert_false(rig_exists(g, 7, "d", ".tmp"));
    assert_true(rig_exists(g, 7, "e", ".txt"));
    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + i), 0};
        struct session *x = rig_acquire(g, 7, name);
        rig_turn(x, 1);
        assert_int_equal(session_save(x), -EEXIST);
        assert_non_null(strstr(error_text(-EEXIST), name));
        session_release(g->store, x);
        assert_true(rig_exists(g, 7, name, ".log"));
    }
    struct session *x = rig_acquire(g, 9, "a");
    rig_turn(x, 1);
    assert_int_equal(session_save(x), -ENOTDIR);
    session_release(g->store, x);
}

static void test_directory_of_another(void **state)
{
    struct rig *g = *state;
    struct session_store_config c = rig_config(g);
    struct session_store *s = NULL;
    rig_close(g);
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
    rig_write(path, "", 0);
    c.dir = path;
    assert_int_equal(session_store_open(&s, 1 << 20, &c), -ENOTDIR);
    assert_null(s);
    rig_open(g);
}

/* A failed save: the error names the session, acknowledged turns stay, and the next save writes the rest. */
static void fail_and_recover(struct rig *g, unsigned n, int want, void (*relieve)(void *ctx), void *ctx)
{
    struct session *x = rig_acquire(g, 7, "a");
    unsigned acknowledged = rig_last(x);
    uint64_t size = x->log.size;
    rig_turn(x, n);
    char *whole = rig_dump(x);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(session_save(x), want);
        assert_non_null(strstr(error_text(want), "session 'a' could not be saved: "));
        assert_true(x->log.size == size);
        assert_false(x->log.saved);
    }
    char *still = rig_dump(x);
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
    rig_close(g);
    rig_open(g);
    x = rig_acquire(g, 7, "a");
    assert_int_equal(rig_last(x), acknowledged);
    char *after = rig_dump(x);
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
    struct rig *g = *state;
    struct rlimit was, less;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    rig_say(g, 7, "a", 1);
    for (unsigned i = 0; i < 20; i++) {
        struct session *x = rig_acquire(g, 7, "a");
        less = was;
        less.rlim_cur = x->log.size + 10 + i * 29; /* another place inside of the record each time */
        session_release(g->store, x);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
        fail_and_recover(g, i + 2, -EFBIG, no_limit, &was);
    }
}

/* A directory on a file system of 64 KiB. False: not possible here. */
static bool small_disk(struct rig *g)
{
    rig_close(g);
    if (geteuid() != 0 || mount("hob", g->dir, "tmpfs", 0, "size=64k,mode=0700") < 0) {
        print_message("skipped: no tmpfs can be mounted: %s\n", geteuid() ? "not root" : strerror(errno));
        rig_open(g);
        return false;
    }
    rig_open(g);
    return true;
}

static void no_ballast(void *ctx)
{
    assert_int_equal(unlink(ctx), 0);
}

static void test_disk_full(void **state)
{
    struct rig *g = *state;
    char ballast[128];
    static const char block[4096];
    if (!small_disk(g)) skip();
    snprintf(ballast, sizeof(ballast), "%s/ballast", g->dir);
    rig_say(g, 7, "a", 1);
    for (unsigned i = 0; i < 5; i++) {
        /* pages are whole: fill up the log's, then the disk */
        unsigned n = 10 * i + 2;
        struct session *x = rig_acquire(g, 7, "a");
        while (x->log.size % 4096 < 3000) {
            rig_turn(x, n++);
            assert_int_equal(session_save(x), 0);
        }
        session_release(g->store, x);
        FILE *f = fopen(ballast, "w");
        assert_non_null(f);
        while (fwrite(block, 1, sizeof(block), f) == sizeof(block) && fflush(f) == 0) {
        }
        fclose(f);
        x = rig_acquire(g, 7, "a");
        static const char text[4096];
        assert_int_equal(session_append(x, 1, text, sizeof(text), true), 0);
        session_release(g->store, x);
        fail_and_recover(g, n, -ENOSPC, no_ballast, ballast);
        struct session *y = rig_acquire(g, 7, "new");
        session_release(g->store, y);
        if (i == 2) { /* and make room, so that the loop can go on */
            y = rig_acquire(g, 7, "a");
            session_truncate(y, 0);
            session_drop_messages(y, 0);
            y->log.rewrite = true;
            rig_turn(y, n + 1);
            assert_int_equal(session_save(y), 0);
            session_release(g->store, y);
        }
    }
    rig_close(g);
    assert_int_equal(umount(g->dir), 0);
    rig_open(g);
}

static void writable_again(void *ctx)
{
    assert_int_equal(mount(NULL, ctx, NULL, MS_REMOUNT, "size=64k"), 0);
}

static void test_read_only(void **state)
{
    struct rig *g = *state;
    struct session_store_config c = rig_config(g);
    struct session_store *s = NULL;
    if (!small_disk(g)) skip();
    rig_close(g);
    char lock[128];
    snprintf(lock, sizeof(lock), "%s/lock", g->dir);
    assert_int_equal(unlink(lock), 0);
    assert_int_equal(mount(NULL, g->dir, NULL, MS_REMOUNT | MS_RDONLY, "size=64k"), 0);
    assert_int_equal(session_store_open(&s, 1 << 20, &c), -EROFS);
    assert_non_null(strstr(error_text(-EROFS), g->dir));
    writable_again(g->dir);
    rig_open(g);
    rig_say(g, 7, "a", 1);
    rig_close(g);
    assert_int_equal(mount(NULL, g->dir, NULL, MS_REMOUNT | MS_RDONLY, "size=64k"), 0);
    rig_open(g); /* the files can be read */
    assert_int_equal(session_store_open(&s, 1 << 20, &c), -EBUSY);
    struct session *x = rig_acquire(g, 7, "a"), *b = NULL;
    assert_int_equal(rig_last(x), 1);
    assert_int_equal(session_erase(x), -EROFS);
    assert_non_null(strstr(error_text(-EROFS), "'a'"));
    assert_int_equal(session_rename(g->store, x, "b", 1, &b), 0);
    assert_int_equal(session_move(b, x), -EROFS);
    assert_int_equal(rig_last(x), 1);
    session_release(g->store, x);
    session_release(g->store, b);
    fail_and_recover(g, 2, -EROFS, writable_again, g->dir);
    rig_close(g);
    assert_int_equal(umount(g->dir), 0);
    rig_open(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_torn_at_every_byte, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_flipped_at_every_byte, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_garbage_behind, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_swapped, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_changed_under_us, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_set_aside_is_removed, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_foreign, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_directory_of_another, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_file_size_limit, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_disk_full, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_read_only, rig_setup, rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
