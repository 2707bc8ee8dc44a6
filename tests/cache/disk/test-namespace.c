/* SPDX-License-Identifier: MIT */
#include "daemon/cache/disk/namespace.h"
#include "libcommon/error.h"
#include "tests/cache/disk/fixture.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- the secret --- */

static void test_made_once(void **state)
{
    struct place *p = *state;
    struct namespace_secret a = {0}, b = {0}, none = {0};
    struct stat st;
    assert_int_equal(namespace_secret_load(&a, p->dir), 0);
    assert_memory_not_equal(&a, &none, sizeof(a));
    assert_int_equal(stat(place_path(p, "secret"), &st), 0);
    assert_true(st.st_size == 32 && (st.st_mode & 07777) == 0600 && st.st_nlink == 1);
    assert_int_equal(place_count(p, ""), 1);
    assert_int_equal(namespace_secret_load(&b, p->dir), 0);
    assert_memory_equal(&a, &b, sizeof(a));
}

static void test_in_the_file(void **state)
{
    struct namespace_secret a, want;
    for (int i = 0; i < 32; i++) want.bytes[i] = (uint8_t)(i * 7);
    fixture_put(place_path(*state, "secret"), want.bytes, 32);
    assert_int_equal(namespace_secret_load(&a, ((struct place *)*state)->dir), 0);
    assert_memory_equal(&a, &want, 32);
}

static void test_directory_made(void **state)
{
    struct namespace_secret a, b;
    struct stat st;
    char dir[256];
    snprintf(dir, sizeof(dir), "%s", place_path(*state, "x/y"));
    assert_int_equal(namespace_secret_load(&a, dir), 0);
    assert_int_equal(namespace_secret_load(&b, dir), 0);
    assert_memory_equal(&a, &b, sizeof(a));
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
}

static void test_without_directory(void **state)
{
    struct namespace_secret a = {0}, b = {0};
    assert_int_equal(namespace_secret_load(&a, NULL), 0);
    assert_int_equal(namespace_secret_load(&b, NULL), 0);
    assert_memory_not_equal(&a, &b, sizeof(a));
}

/* A process that was killed may leave the file under its temporary name, before it had the other name or after. */
static void test_leftover(void **state)
{
    struct place *p = *state;
    struct namespace_secret a, b;
    uint8_t bytes[7] = {1};
    fixture_put(place_path(p, "secret.part"), bytes, sizeof(bytes));
    assert_int_equal(namespace_secret_load(&a, p->dir), 0);
    assert_int_equal(place_count(p, ""), 1);
    fixture_put(place_path(p, "secret.part"), bytes, sizeof(bytes));
    assert_int_equal(namespace_secret_load(&b, p->dir), 0);
    assert_memory_equal(&a, &b, sizeof(a));
    assert_int_equal(place_count(p, ""), 1);
}

/* Processes that start at once: one makes the secret, all load the same one. */
static void test_concurrent(void **state)
{
    enum { N = 8, ROUNDS = 20 };
    struct place *p = *state;
    for (int round = 0; round < ROUNDS; round++) {
        int go[2], back[2];
        struct namespace_secret s[N];
        assert_int_equal(pipe(go), 0);
        assert_int_equal(pipe(back), 0);
        for (int i = 0; i < N; i++)
            if (fork() == 0) {
                char byte;
                close(go[1]);
                (void)!read(go[0], &byte, 1); /* until the parent closes it */
                int r = namespace_secret_load(&s[0], p->dir);
                if (!r) (void)!write(back[1], &s[0], sizeof(s[0]));
                _exit(r != 0);
            }
        close(go[0]);
        close(go[1]);
        for (int i = 0; i < N; i++) {
            int status;
            assert_int_equal(read(back[0], &s[i], sizeof(s[i])), sizeof(s[i]));
            assert_memory_equal(&s[i], &s[0], sizeof(s[i]));
            wait(&status);
            assert_int_equal(status, 0);
        }
        close(back[0]);
        close(back[1]);
        assert_int_equal(place_count(p, ""), 1);
        assert_int_equal(unlink(place_path(p, "secret")), 0);
    }
}

/* The file is refused and left alone; the message names the file, the defect (@words) and the remedy. */
static void expect_bad(const struct place *p, const char *words)
{
    struct namespace_secret s, old;
    struct stat st;
    memset(&s, 5, sizeof(s));
    old = s;
    alarm(60);
    int r = namespace_secret_load(&s, p->dir);
    alarm(0);
    assert_int_equal(r, -EBADMSG);
    assert_non_null(strstr(error_text(r), place_path(p, "secret")));
    assert_non_null(strstr(error_text(r), words));
    assert_non_null(strstr(error_text(r), "remove it"));
    assert_memory_equal(&s, &old, sizeof(s));
    assert_int_equal(lstat(place_path(p, "secret"), &st), 0);
    assert_int_equal(remove(place_path(p, "secret")), 0);
}

static void test_wrong_file(void **state)
{
    struct place *p = *state;
    uint8_t bytes[64] = {1};
    char path[256];
    snprintf(path, sizeof(path), "%s", place_path(p, "secret"));
    for (size_t n = 0; n <= 64; n++) {
        char words[32];
        if (n == 32) continue;
        fixture_put(path, bytes, n);
        snprintf(words, sizeof(words), "has %zu bytes", n);
        expect_bad(p, words);
    }
    for (int bit = 0; bit < 6; bit++) {
        fixture_put(path, bytes, 32);
        assert_int_equal(chmod(path, 0600 | (mode_t)1 << bit), 0);
        expect_bad(p, "to others");
    }
    assert_int_equal(mkdir(path, 0700), 0);
    expect_bad(p, "is not a regular file");
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_bad(p, "is not a regular file");
    fixture_put(place_path(p, "elsewhere"), bytes, 32);
    assert_int_equal(symlink("elsewhere", path), 0);
    expect_bad(p, "is not a regular file");
    if (geteuid() != 0) {
        print_message("only root can give a file away\n");
        return;
    }
    fixture_put(path, bytes, 32);
    assert_int_equal(chown(path, 65534, 0), 0);
    expect_bad(p, "uid 65534");
}

static void test_cannot_make(void **state)
{
    struct place *p = *state;
    struct namespace_secret s;
    if (mount("none", p->dir, "tmpfs", 0, "size=64k,nr_inodes=1,mode=700") < 0) {
        print_message("skipped: no tmpfs can be mounted: %s\n", strerror(errno));
        skip();
    }
    int full = namespace_secret_load(&s, p->dir);
    bool named = strstr(error_text(full), place_path(p, "secret"));
    mount("none", p->dir, NULL, MS_REMOUNT | MS_RDONLY, NULL);
    int read_only = namespace_secret_load(&s, p->dir);
    size_t left = place_count(p, "");
    umount(p->dir);
    assert_int_equal(full, -ENOSPC);
    assert_true(named);
    assert_int_equal(read_only, -EROFS);
    assert_int_equal(left, 0);
}

/* --- digests --- */

struct input {
    struct namespace_secret secret;
    uint8_t identity[16];
    struct namespace_owner owner;
    uint64_t policy;
};

static struct prefix_namespace namespace_of(const struct input *x)
{
    struct prefix_namespace s;
    namespace_make(&s, &x->secret, x->identity, &x->owner, x->policy);
    return s;
}

static struct input example(void)
{
    struct input x = {.owner = {.uid = 1000, .salt = "gateway/alice", .salt_len = 13}, .policy = 0x1122334455667788};
    for (int i = 0; i < 32; i++) x.secret.bytes[i] = (uint8_t)(i + 1);
    memcpy(x.identity, "an identity 0001", 16);
    return x;
}

/* Files on disk are found by these digests: they must not change with the program, the machine or the library. */
static void test_golden(void **state)
{
    static const uint8_t user[16] = {0x67, 0x5c, 0x53, 0x83, 0x8e, 0xff, 0xaa, 0x33,
                                     0xf6, 0x75, 0x1a, 0xb3, 0x09, 0x06, 0x97, 0x37};
    static const uint8_t public[16] = {0x16, 0x0e, 0xf3, 0xd0, 0xe9, 0x79, 0xcc, 0x53,
                                       0x7f, 0x75, 0x85, 0x5b, 0x93, 0xe9, 0xba, 0xa8};
    struct input x = example();
    assert_memory_equal(namespace_of(&x).bytes, user, 16);
    x.owner = (struct namespace_owner){.public = true};
    x.policy = 0;
    assert_memory_equal(namespace_of(&x).bytes, public, 16);
}

static void test_irrelevant_fields(void **state)
{
    struct input x = example(), y = x;
    char salt[14] = "gateway/alice";
    y.owner.salt = salt; /* the address of the salt does not matter */
    assert_memory_equal(namespace_of(&x).bytes, namespace_of(&y).bytes, 16);
    x.owner.salt = "";
    x.owner.salt_len = 0;
    y.owner.salt = NULL; /* no salt equals an empty one */
    assert_memory_equal(namespace_of(&x).bytes, namespace_of(&y).bytes, 16);
    y.owner.salt_len = 0;
    assert_memory_equal(namespace_of(&x).bytes, namespace_of(&y).bytes, 16);
    x.owner.public = y.owner.public = true;
    y.owner.uid = 77; /* the public owner has no uid */
    assert_memory_equal(namespace_of(&x).bytes, namespace_of(&y).bytes, 16);
}

/* All namespaces made so far; each one differs from all others. */
struct namespaces {
    struct prefix_namespace s[2000];
    size_t n;
};

static void expect_new(struct namespaces *all, const struct input *x)
{
    assert_true(all->n < sizeof(all->s) / sizeof(*all->s));
    struct prefix_namespace s = namespace_of(x);
    for (size_t i = 0; i < all->n; i++) assert_memory_not_equal(all->s[i].bytes, s.bytes, 16);
    all->s[all->n++] = s;
}

static void test_all_different(void **state)
{
    static struct namespaces all;
    const struct input x = example();
    struct input y;
    static char salt[700];
    all.n = 0;
    expect_new(&all, &x);
    for (int bit = 0; bit < 256; bit++) expect_new(&all, (y = x, y.secret.bytes[bit / 8] ^= 1 << bit % 8, &y));
    for (int bit = 0; bit < 128; bit++) expect_new(&all, (y = x, y.identity[bit / 8] ^= 1 << bit % 8, &y));
    for (int bit = 0; bit < 32; bit++) expect_new(&all, (y = x, y.owner.uid ^= 1u << bit, &y));
    for (int bit = 0; bit < 64; bit++) expect_new(&all, (y = x, y.policy ^= (uint64_t)1 << bit, &y));
    y = x;
    y.owner.public = true;
    expect_new(&all, &y);
    y = x;
    y.owner.uid = 0; /* root is not the public owner */
    expect_new(&all, &y);
    for (size_t n = 0; n <= 600; n++) { /* zeros: only the length differs */
        y = x;
        y.owner.salt = salt;
        y.owner.salt_len = n;
        expect_new(&all, &y);
    }
    for (size_t i = 0; i < 600; i++) {
        salt[i] = 1;
        expect_new(&all, &y);
        salt[i] = 0;
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_made_once),
        T(test_in_the_file),
        T(test_directory_made),
        cmocka_unit_test(test_without_directory),
        T(test_leftover),
        T(test_concurrent),
        T(test_wrong_file),
        T(test_cannot_make),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_irrelevant_fields),
        cmocka_unit_test(test_all_different),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
