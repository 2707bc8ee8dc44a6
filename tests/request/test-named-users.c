/* SPDX-License-Identifier: MIT */
#include "daemon/request/named-users.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include "tests/support/folder.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int number(struct named_users *u, uid_t gateway, const char *name, uid_t *out)
{
    const struct proto_text text = {(char *)name, strlen(name)};
    return named_users_number(u, gateway, &text, out);
}

static uid_t must(struct named_users *u, uid_t gateway, const char *name)
{
    uid_t n = 0;
    assert_int_equal(number(u, gateway, name, &n), 0);
    assert_true(n >= NAMED_USERS_FIRST);
    return n;
}

static void check_names(struct named_users *u)
{
    char name[PROTO_USER_MAX + 1];
    uid_t gateway = 0, ada = must(u, 1000, "ada"), bob = must(u, 1000, "bob"), other = must(u, 1001, "ada");
    assert_true(ada != bob && ada != other && bob != other);
    assert_int_equal(must(u, 1000, "ada"), ada);
    assert_true(named_users_find(u, other, &gateway, name));
    assert_int_equal(gateway, 1001);
    assert_string_equal(name, "ada");
    assert_false(named_users_find(u, other + 1, &gateway, name));
    assert_false(named_users_find(u, 1000, &gateway, name));
}

static void each_pair_has_a_number(void **state)
{
    struct named_users *u;
    assert_int_equal(named_users_new(&u, NULL), 0);
    check_names(u);
    named_users_free(u);
}

static void names_are_checked(void **state)
{
    static const char *const bad[] = {"", "a b", "a/b", "a\n", "1 2", "\xc3\xa4"};
    char longest[PROTO_USER_MAX + 2];
    struct named_users *u;
    uid_t n;
    assert_int_equal(named_users_new(&u, NULL), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) assert_int_equal(number(u, 1, bad[i], &n), -EINVAL);
    memset(longest, 'x', sizeof(longest));
    longest[PROTO_USER_MAX + 1] = 0;
    assert_int_equal(number(u, 1, longest, &n), -EINVAL);
    longest[PROTO_USER_MAX] = 0;
    assert_int_equal(number(u, 1, longest, &n), 0);
    named_users_free(u);
}

static void a_gateway_has_a_limit(void **state)
{
    struct named_users *u;
    char name[16];
    uid_t n;
    assert_int_equal(named_users_new(&u, NULL), 0);
    for (int i = 0; i < NAMED_USERS_MAX; i++) {
        snprintf(name, sizeof(name), "user%d", i);
        must(u, 1000, name);
    }
    assert_int_equal(number(u, 1000, "more", &n), -EDQUOT);
    must(u, 1000, "user7");
    must(u, 1001, "more");
    named_users_free(u);
}

static void numbers_outlive_the_process(void **state)
{
    char dir[FOLDER_PATH];
    struct named_users *u, *again;
    assert_int_equal(folder_make(dir, "users"), 0);
    assert_int_equal(named_users_new(&u, dir), 0);
    check_names(u);
    assert_int_equal(named_users_new(&again, dir), 0);
    assert_int_equal(must(again, 1001, "ada"), must(u, 1001, "ada"));
    assert_true(must(again, 1001, "carol") != must(u, 1001, "dave")); /* another process has added a user */
    assert_int_equal(must(again, 1001, "dave"), must(u, 1001, "dave"));
    named_users_free(again);
    named_users_free(u);
    folder_remove(dir);
}

/* The number of sessions that exist is given to nobody, even if the file is lost; an incomplete line counts not. */
static void a_number_is_not_given_twice(void **state)
{
    char dir[FOLDER_PATH], text[64];
    struct named_users *u;
    struct stat st;
    assert_int_equal(folder_make(dir, "users"), 0);
    assert_int_equal(folder_put(dir, "2147483700/x", ""), 0);
    assert_int_equal(folder_put(dir, "users", "2147483660 5 ada\n2147483661 5 b"), 0);
    assert_int_equal(named_users_new(&u, dir), 0);
    assert_int_equal(must(u, 5, "bob"), 2147483701);
    assert_int_equal(must(u, 5, "ada"), 2147483660);
    assert_int_equal(stat(folder_at(dir, "users"), &st), 0);
    assert_int_equal(st.st_size, snprintf(text, sizeof(text), "2147483660 5 ada\n2147483701 5 bob\n"));
    named_users_free(u);
    folder_remove(dir);
}

/* A power failure may keep the size of the file and the end of its last line, but not its beginning. */
static void a_torn_line_is_removed(void **state)
{
    static const char torn[] = "2147483660 5 ada\n\0\0\0\0 5 bob\n", before[] = "\0\0\0 5 ada\n2147483661 5 bob\n";
    char dir[FOLDER_PATH];
    struct named_users *u;
    struct stat st;
    uid_t n;
    assert_int_equal(folder_make(dir, "users"), 0);
    assert_int_equal(folder_put(dir, "users", ""), 0);
    int fd = open(folder_at(dir, "users"), O_RDWR | O_CLOEXEC);
    assert_int_equal(write(fd, torn, sizeof(torn) - 1), sizeof(torn) - 1);
    assert_int_equal(named_users_new(&u, dir), 0);
    assert_int_equal(must(u, 5, "carl"), 2147483661);
    assert_int_equal(must(u, 5, "ada"), 2147483660);
    named_users_free(u);
    assert_int_equal(stat(folder_at(dir, "users"), &st), 0);
    assert_int_equal(st.st_size, strlen("2147483660 5 ada\n2147483661 5 carl\n"));
    assert_int_equal(pwrite(fd, before, sizeof(before) - 1, 0), sizeof(before) - 1); /* a line that others follow */
    assert_int_equal(named_users_new(&u, dir), 0);
    assert_int_equal(number(u, 5, "ada", &n), -EBADMSG);
    named_users_free(u);
    close(fd);
    folder_remove(dir);
}

static void a_damaged_file_is_refused(void **state)
{
    static const char *const bad[] = {"x\n",
                                      "2147483660 5 ada bob\n",
                                      "1000 5 ada\n",
                                      "2147483660 ada\n",
                                      "4294967295 5 ada\n",
                                      "-2147483660 5 ada\n",
                                      "2147483660 5 \n"};
    char dir[FOLDER_PATH];
    struct named_users *u;
    uid_t n;
    assert_int_equal(folder_make(dir, "users"), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(folder_put(dir, "users", bad[i]), 0);
        assert_int_equal(named_users_new(&u, dir), 0);
        assert_int_equal(number(u, 5, "ada", &n), -EBADMSG);
        assert_non_null(strstr(error_text(-EBADMSG), "users:1"));
        named_users_free(u);
    }
    assert_int_equal(chmod(folder_at(dir, "users"), 0666), 0);
    assert_int_equal(named_users_new(&u, dir), 0);
    assert_int_equal(number(u, 5, "ada", &n), -EBADMSG);
    named_users_free(u);
    folder_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_pair_has_a_number),      cmocka_unit_test(names_are_checked),
        cmocka_unit_test(a_gateway_has_a_limit),       cmocka_unit_test(numbers_outlive_the_process),
        cmocka_unit_test(a_number_is_not_given_twice), cmocka_unit_test(a_damaged_file_is_refused),
        cmocka_unit_test(a_torn_line_is_removed),
    };
    return cmocka_run_group_tests_name("named-users", tests, NULL, NULL);
}
