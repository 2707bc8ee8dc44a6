/* SPDX-License-Identifier: MIT */
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include "tests/libcommon/check.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const variables[] = {
    "XDG_RUNTIME_DIR",   "XDG_STATE_HOME",  "XDG_CACHE_HOME",  "XDG_DATA_HOME",           "XDG_CONFIG_HOME",
    "RUNTIME_DIRECTORY", "STATE_DIRECTORY", "CACHE_DIRECTORY", "CONFIGURATION_DIRECTORY",
};

static char dir[64];

static int make_dir(void **state)
{
    strcpy(dir, "/tmp/hob-test-paths-XXXXXX");
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int remove_dir(void **state)
{
    char command[128];

    snprintf(command, sizeof command, "rm -r %s", dir);
    return chdir("/") == 0 ? system(command) : -1;
}

static int home_only(void **state)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) unsetenv(variables[i]);
    return setenv("HOME", "/home/u", 1);
}

static void expect_dir(enum paths_kind kind, bool system, const char *expected)
{
    char *out = NULL;

    assert_int_equal(paths_dir(kind, system, &out), 0);
    assert_string_equal(out, expected);
    free(out);
}

static void expect_error(int r, int expected, const char *part)
{
    assert_int_equal(r, expected);
    if (!strstr(error_text(r), part)) fail_msg("'%s' does not say '%s'", error_text(r), part);
}

static void defaults_below_home(void **state)
{
    expect_dir(PATHS_STATE, false, "/home/u/.local/state/hob");
    expect_dir(PATHS_CACHE, false, "/home/u/.cache/hob");
    expect_dir(PATHS_MODELS, false, "/home/u/.local/share/hob/models");
    expect_dir(PATHS_CONFIG, false, "/home/u/.config/hob");
}

static void xdg_variables_win(void **state)
{
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    setenv("XDG_STATE_HOME", "/s", 1);
    setenv("XDG_CACHE_HOME", "/c", 1);
    setenv("XDG_DATA_HOME", "/d", 1);
    setenv("XDG_CONFIG_HOME", "/f", 1);
    expect_dir(PATHS_RUNTIME, false, "/run/user/7/hob");
    expect_dir(PATHS_STATE, false, "/s/hob");
    expect_dir(PATHS_CACHE, false, "/c/hob");
    expect_dir(PATHS_MODELS, false, "/d/hob/models");
    expect_dir(PATHS_CONFIG, false, "/f/hob");
    setenv("XDG_CACHE_HOME", "", 1); /* empty is not set */
    expect_dir(PATHS_CACHE, false, "/home/u/.cache/hob");
}

static void the_systems(void **state)
{
    expect_dir(PATHS_RUNTIME, true, "/run/hob");
    expect_dir(PATHS_STATE, true, "/var/lib/hob");
    expect_dir(PATHS_CACHE, true, "/var/cache/hob");
    expect_dir(PATHS_MODELS, true, "/var/lib/hob/models");
    expect_dir(PATHS_CONFIG, true, "/etc/hob");
}

static void what_systemd_sets_wins(void **state)
{
    setenv("STATE_DIRECTORY", "/srv/state:/srv/second", 1);
    setenv("CACHE_DIRECTORY", "/srv/cache/", 1);
    setenv("RUNTIME_DIRECTORY", "/run/user/7/hob", 1);
    expect_dir(PATHS_STATE, false, "/srv/state");
    expect_dir(PATHS_STATE, true, "/srv/state");
    expect_dir(PATHS_CACHE, false, "/srv/cache");
    expect_dir(PATHS_RUNTIME, false, "/run/user/7/hob");
    expect_dir(PATHS_MODELS, false, "/home/u/.local/share/hob/models"); /* a user's unit */
    setenv("STATE_DIRECTORY", "/var/lib/hob", 1);
    expect_dir(PATHS_MODELS, false, "/var/lib/hob/models");
}

static void another_services_runtime_directory_is_not_ours(void **state)
{
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    setenv("RUNTIME_DIRECTORY", "/run/backup", 1);
    setenv("CONFIGURATION_DIRECTORY", "/etc/backup", 1);
    expect_dir(PATHS_RUNTIME, false, "/run/user/7/hob");
    expect_dir(PATHS_CONFIG, false, "/home/u/.config/hob");
}

/* Which of the two depends on the machine; that nobody else can write to it does not. */
static void a_runtime_directory_without_a_session(void **state)
{
    char of_session[64], own[64], *out = NULL;
    struct stat st;

    snprintf(of_session, sizeof of_session, "/run/user/%u", (unsigned)geteuid());
    snprintf(own, sizeof own, "/tmp/hob-%u", (unsigned)geteuid());
    assert_int_equal(paths_dir(PATHS_RUNTIME, false, &out), 0);
    if (strcmp(out, own) == 0) {
        assert_int_equal(lstat(own, &st), 0);
        assert_true(S_ISDIR(st.st_mode));
        assert_int_equal(st.st_mode & 0777, 0700);
    } else {
        assert_int_equal(lstat(of_session, &st), 0);
        assert_memory_equal(out, of_session, strlen(of_session));
        assert_string_equal(out + strlen(of_session), "/hob");
    }
    assert_int_equal(st.st_uid, geteuid());
    free(out);
    setenv("XDG_RUNTIME_DIR", "run", 1);
    expect_error(paths_dir(PATHS_RUNTIME, false, &out), -EINVAL, "XDG_RUNTIME_DIR is not an absolute path: run");
}

static void what_is_missing_is_named(void **state)
{
    char *out = NULL;

    unsetenv("HOME");
    expect_error(paths_dir(PATHS_CACHE, false, &out), -ENOENT, "XDG_CACHE_HOME");
    expect_error(paths_dir(PATHS_CACHE, false, &out), -ENOENT, "HOME");
    setenv("HOME", "relative", 1);
    expect_error(paths_dir(PATHS_CACHE, false, &out), -EINVAL, "HOME");
    setenv("XDG_CACHE_HOME", "also/relative", 1);
    expect_error(paths_dir(PATHS_CACHE, false, &out), -EINVAL, "XDG_CACHE_HOME");
    assert_null(out);
}

static void names_stay_names(void **state)
{
    char *out, longest[66];

    memset(longest, 'x', 64);
    longest[64] = 0;
    assert_int_equal(paths_model_name("tiny-1.5", &out), 0);
    assert_string_equal(out, "tiny-1.5");
    free(out);
    assert_int_equal(paths_model_name(longest, &out), 0);
    assert_string_equal(out, longest);
    free(out);
    strcpy(longest + 64, "x");
    expect_error(paths_model_name(longest, &out), -EINVAL, "at most 64 bytes");
    expect_error(paths_model_name("", &out), -EINVAL, "empty");
    expect_error(paths_model_name("..", &out), -EINVAL, "dot");
    expect_error(paths_model_name(".hidden", &out), -EINVAL, "dot");
    expect_error(paths_model_name("a\nb", &out), -EINVAL, "control");
}

/* The name of @model; freed by the next call. */
static const char *name_of(const char *model)
{
    static char *out;

    free(out);
    out = NULL;
    if (model) assert_int_equal(paths_model_name(model, &out), 0);
    return out;
}

static void paths_become_a_label_and_a_hash(void **state)
{
    char first[128], other[256];

    strcpy(first, name_of("/nonexistent/tiny.gguf"));
    assert_memory_equal(first, "tiny-", 5);
    assert_int_equal(strlen(first), 13);
    assert_int_equal(strspn(first + 5, "0123456789abcdef"), 8);
    assert_string_not_equal(first, name_of("/elsewhere/tiny.gguf"));
    assert_string_equal(first, name_of("/nonexistent/tiny.gguf"));

    /* however it is written */
    assert_int_equal(mkdir("sub", 0700), 0);
    strcpy(first, name_of("tiny.gguf"));
    assert_string_equal(first, name_of("./tiny.gguf"));
    assert_string_equal(first, name_of("sub/../tiny.gguf"));
    snprintf(other, sizeof other, "%s//./tiny.gguf", dir);
    assert_string_equal(first, name_of(other));
    assert_string_not_equal(first, name_of("sub/tiny.gguf"));

    assert_memory_equal(name_of("/m/plain"), "plain-", 6);
    assert_memory_equal(name_of("/m/.hidden.gguf"), "_hidden-", 8);
    memset(other, 'y', 200);
    strcpy(other + 200, ".gguf");
    assert_int_equal(strlen(name_of(other)), 64 + 9);
    name_of(NULL);
}

static void paths_without_a_name(void **state)
{
    char *out;

    expect_error(paths_model_name("/models/", &out), -EINVAL, "/models/");
    expect_error(paths_model_name(".gguf", &out), -EINVAL, ".gguf");
}

static void a_name_with_a_hash_is_stable(void **state)
{
    /* FNV-1a 64 of the path, folded; computed apart: sockets of running daemons depend on it */
    assert_string_equal(name_of("/tiny.gguf"), "tiny-842eebe3");
    name_of(NULL);
}

static void touch(const char *path)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    close(fd);
}

static void model_files(void **state)
{
    char expected[256], *out = NULL;

    setenv("XDG_DATA_HOME", dir, 1);
    snprintf(expected, sizeof expected, "%s/hob/models", dir);
    assert_int_equal(paths_make(expected), 0);
    expect_error(paths_model_file("absent", false, &out), -ENOENT, "/hob/models/absent.gguf");
    expect_error(paths_model_file("absent", false, &out), -ENOENT, "/usr/share/hob/models/absent.gguf");
    strcat(expected, "/there.gguf");
    touch(expected);
    assert_int_equal(paths_model_file("there", false, &out), 0);
    assert_string_equal(out, expected);
    free(out);
    assert_int_equal(paths_model_file(expected, false, &out), 0);
    assert_string_equal(out, expected);
    free(out);
    expect_error(paths_model_file("there.gguf", false, &out), -ENOENT, "no model file there.gguf");
    expect_error(paths_model_file(dir, false, &out), -EISDIR, "directory");
    expect_error(paths_model_file("..", false, &out), -EINVAL, "dot");
}

static void sockets(void **state)
{
    char *out = NULL;

    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    assert_int_equal(paths_socket("default", false, &out), 0);
    assert_string_equal(out, "/run/user/7/hob/default.sock");
    free(out);
    assert_int_equal(paths_socket("default", true, &out), 0);
    assert_string_equal(out, "/run/hob/default.sock");
    free(out);
    expect_error(paths_socket(".", false, &out), -EINVAL, "dot");
}

/* The inodes that were synced last. */
static struct {
    ino_t list[8];
    size_t n;
} synced;

int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_fsync(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    if (synced.n < 8) synced.list[synced.n++] = st.st_ino;
    return __real_fsync(fd);
}

/* A directory that a power failure removes takes with it what was synced inside. */
static void syncs_the_names_of_new_directories(void **state)
{
    static const char *const parents[] = {".", "new", "new/one"};
    struct stat st;
    synced.n = 0;
    assert_int_equal(paths_make("new/one/two"), 0);
    assert_int_equal(synced.n, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(stat(parents[i], &st), 0);
        assert_true(synced.list[i] == st.st_ino);
    }
    assert_int_equal(paths_make("new/one/two"), 0);
    assert_int_equal(synced.n, 3);
}

static void makes_directories(void **state)
{
    struct stat st;
    mode_t old = umask(0);

    assert_int_equal(paths_make("a/b//c/"), 0);
    umask(old);
    assert_int_equal(stat("a/b/c", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat("a", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(paths_make("a/b/c"), 0);
    assert_int_equal(paths_make("/"), 0);
    touch("a/file");
    expect_error(paths_make("a/file/x"), -ENOTDIR, "a/file");
    expect_error(paths_make("a/file"), -ENOTDIR, "a/file");
    assert_int_equal(paths_make(""), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(defaults_below_home, home_only),
        cmocka_unit_test_setup(xdg_variables_win, home_only),
        cmocka_unit_test_setup(the_systems, home_only),
        cmocka_unit_test_setup(what_systemd_sets_wins, home_only),
        cmocka_unit_test_setup(another_services_runtime_directory_is_not_ours, home_only),
        cmocka_unit_test_setup(a_runtime_directory_without_a_session, home_only),
        cmocka_unit_test_setup(what_is_missing_is_named, home_only),
        cmocka_unit_test_setup(names_stay_names, home_only),
        cmocka_unit_test_setup(paths_become_a_label_and_a_hash, home_only),
        cmocka_unit_test_setup(paths_without_a_name, home_only),
        cmocka_unit_test_setup(a_name_with_a_hash_is_stable, home_only),
        cmocka_unit_test_setup(model_files, home_only),
        cmocka_unit_test_setup(sockets, home_only),
        cmocka_unit_test_setup(makes_directories, home_only),
        cmocka_unit_test_setup(syncs_the_names_of_new_directories, home_only),
    };

    return cmocka_run_group_tests_name("paths", tests, make_dir, remove_dir);
}
