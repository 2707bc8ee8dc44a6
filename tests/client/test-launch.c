/* SPDX-License-Identifier: MIT */
/* Finding and starting hobd. What is started here is a script, since what counts is what it inherits and how it ends.
 */
#include "client/endpoints.h"
#include "client/launch.h"
#include "client/options.h"
#include "libcommon/error.h"
#include "libcommon/sock.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>

struct home {
    char path[256], dir[32];
};

static const char *at(struct home *h, const char *below)
{
    snprintf(h->path, sizeof h->path, "%s/%s", h->dir, below);
    return h->path;
}

static void put_file(struct home *h, const char *below, const char *text, mode_t mode)
{
    FILE *f = fopen(at(h, below), "we");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(h->path, mode), 0);
}

static char *get_file(struct home *h, const char *below)
{
    static char text[8192];
    FILE *f = fopen(at(h, below), "re");
    size_t n;

    assert_non_null(f);
    n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    fclose(f);
    return text;
}

static int setup(void **state)
{
    static struct home h;

    strcpy(h.dir, "/tmp/hob-test-XXXXXX");
    if (!mkdtemp(h.dir)) return -1;
    setenv("HOME", h.dir, 1);
    setenv("XDG_RUNTIME_DIR", at(&h, "run"), 1);
    setenv("XDG_STATE_HOME", at(&h, "state"), 1);
    setenv("XDG_DATA_HOME", at(&h, "data"), 1);
    unsetenv("HOB_SOCKET");
    unsetenv("RUNTIME_DIRECTORY");
    unsetenv("STATE_DIRECTORY");
    setenv("NOTIFY_SOCKET", "/nonexistent", 1);
    setenv("PATH", "/usr/bin:/bin", 1);
    *state = &h;
    return 0;
}

static int teardown(void **state)
{
    struct home *h = *state;
    char command[64];

    snprintf(command, sizeof command, "rm -rf '%s'", h->dir);
    return system(command);
}

/* A hobd first in PATH. */
static void put_hobd(struct home *h, const char *script)
{
    char path[300];

    assert_int_equal(mkdir(at(h, "bin"), 0700), 0);
    put_file(h, "bin/hobd", script, 0700);
    put_file(h, "m.gguf", "GGUF", 0600);
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", at(h, "bin"));
    setenv("PATH", path, 1);
}

static void test_hobd_is_found_nearest_first(void **state)
{
    struct home *h = *state;
    char exe[64], path[300], *found;

    snprintf(exe, sizeof exe, "%s/client", h->dir);
    snprintf(path, sizeof path, "relative::%s/none:%s/p", h->dir, h->dir);
    assert_int_equal(mkdir(at(h, "client"), 0700), 0);
    assert_int_equal(mkdir(at(h, "daemon"), 0700), 0);
    assert_int_equal(mkdir(at(h, "p"), 0700), 0);

    assert_int_equal(launch_find(exe, path, &found), -ENOENT);
    put_file(h, "p/hobd", "", 0700);
    assert_int_equal(launch_find(exe, path, &found), 0);
    assert_string_equal(found, at(h, "p/hobd"));
    free(found);
    put_file(h, "daemon/hobd", "", 0700);
    assert_int_equal(launch_find(exe, path, &found), 0);
    assert_string_equal(found, at(h, "client/../daemon/hobd"));
    free(found);
    put_file(h, "client/hobd", "", 0600); /* cannot be run */
    assert_int_equal(launch_find(exe, path, &found), 0);
    assert_string_equal(found, at(h, "client/../daemon/hobd"));
    free(found);
    assert_int_equal(chmod(at(h, "client/hobd"), 0700), 0);
    assert_int_equal(launch_find(exe, path, &found), 0);
    assert_string_equal(found, at(h, "client/hobd"));
    free(found);
    assert_int_equal(launch_find(NULL, NULL, &found), -ENOENT);
}

static void last_words(struct home *h, const char *log, const char *want)
{
    char *words = NULL;

    put_file(h, "log", log, 0600);
    if (!want) {
        assert_int_equal(launch_last_line(at(h, "log"), &words), -ENODATA);
        return;
    }
    assert_int_equal(launch_last_line(at(h, "log"), &words), 0);
    assert_string_equal(words, want);
    free(words);
}

static void test_last_line(void **state)
{
    struct home *h = *state;
    char *words, *large = malloc(20001);

    assert_non_null(large);
    last_words(h, "", NULL);
    last_words(h, "\n \n", NULL);
    last_words(h, "hobd: no such model\n", "no such model");
    last_words(h, "first\nlast\n\n", "last");
    last_words(h, "no newline", "no newline");
    memset(large, 'x', 20000);
    large[20000] = 0;
    memcpy(large + 19990, "\nthe end\n\n", 10);
    last_words(h, large, "the end");
    free(large);
    assert_int_equal(launch_last_line(at(h, "none"), &words), -ENOENT);
}

static void test_failure_has_the_last_line_of_the_log(void **state)
{
    struct home *h = *state;
    char socket[64];
    int r;

    put_hobd(h, "#!/bin/sh\necho 'hobd: first' >&2\necho 'hobd: m.gguf: not a model' >&2\nexit 1\n");
    snprintf(socket, sizeof socket, "%s/run/hob/m.sock", h->dir);
    r = launch_daemon(at(h, "m.gguf"), socket);
    assert_int_equal(r, -ENOEXEC);
    assert_string_equal(error_text(r), "m.gguf: not a model");
}

static void test_a_crash_is_none_of_its_answers(void **state)
{
    struct home *h = *state;
    char socket[64];
    put_hobd(h, "#!/bin/sh\necho 'hobd: a crash' >&2\nkill -SEGV $$\n");
    snprintf(socket, sizeof socket, "%s/run/hob/m.sock", h->dir);
    int r = launch_daemon(at(h, "m.gguf"), socket);
    assert_int_equal(r, -ECHILD);
    assert_string_equal(error_text(r), "the daemon did not start: a crash");
}

static void test_no_model_starts_nothing(void **state)
{
    struct home *h = *state;
    struct stat st;
    char socket[64];
    int r;

    put_hobd(h, "#!/bin/sh\nexit 1\n");
    snprintf(socket, sizeof socket, "%s/run/hob/none.sock", h->dir);
    r = launch_daemon("none", socket);
    assert_int_equal(r, -ENOENT);
    assert_non_null(strstr(error_text(r), "none.gguf"));
    assert_int_equal(stat(at(h, "run"), &st), -1);
}

/* The script tells what it got; nothing of ours may be among it. */
static void test_inherited_state(void **state)
{
    struct home *h = *state;
    char socket[64], script[1024], pid[32], *got;
    int ours = open(h->dir, O_RDONLY | O_DIRECTORY), r; /* not close-on-exec, on purpose */
    struct stat st;

    snprintf(script, sizeof script,
             "#!/bin/sh\nexec >%s/told\nreadlink /proc/$$/fd/0\nls -m /proc/$$/fd\npwd\n"
             "echo \"notify=$NOTIFY_SOCKET\"\necho \"$1 $2 $3 $4 $5\"\ncut -d' ' -f6 /proc/$$/stat\necho $$\nexit 1\n",
             h->dir);
    put_hobd(h, script);
    snprintf(socket, sizeof socket, "%s/run/hob/m.sock", h->dir);
    assert_true(ours >= 0);
    assert_int_equal(chdir(h->dir), 0);
    r = launch_daemon("./m.gguf", socket); /* a relative path reaches it as an absolute one */
    assert_int_equal(chdir("/"), 0);
    close(ours);
    assert_int_equal(r, -ECHILD);
    assert_non_null(strstr(error_text(r), "its log is empty"));
    got = get_file(h, "told");
    snprintf(script, sizeof script, "serve -m %s/m.gguf --socket %s\n", h->dir, socket);
    assert_ptr_equal(strstr(got, "/dev/null\n0, 1, "), got);
    /* 10 is the shell's own: the script itself; any other would be ours. (In a pipeline it has more for a moment.) */
    if (!strstr(got, "\n0, 1, 2\n/\n") && !strstr(got, "\n0, 1, 10, 2\n/\n") && !strstr(got, "\n0, 1, 2, 255\n/\n"))
        fail_msg("descriptors or directory: %s", got);
    assert_non_null(strstr(got, "\nnotify=\n"));
    assert_non_null(strstr(got, script));
    /* Its session is its own. */
    got = strstr(got, script) + strlen(script);
    snprintf(pid, sizeof pid, "%ld\n%ld\n", atol(got), atol(got));
    assert_string_equal(got, pid);
    assert_int_equal(stat(at(h, "run/hob"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

static void test_running_daemon_is_used(void **state)
{
    struct home *h = *state;
    struct options o = {.model = (char *)"m"};
    struct endpoints p;
    int listener, r;

    assert_int_equal(mkdir(at(h, "run"), 0700), 0);
    assert_int_equal(mkdir(at(h, "run/hob"), 0700), 0);
    put_hobd(h, "#!/bin/sh\nexit 1\n");
    listener = sock_listen(at(h, "run/hob/m.sock"), 0600, 4);
    assert_true(listener >= 0);
    assert_int_equal(endpoints_find(&p, &o), 0);
    r = endpoints_connect(&p);
    assert_true(r >= 0);
    close(r);
    /* Also by who was about to start one. */
    r = launch_daemon(at(h, "m.gguf"), p.user);
    assert_true(r >= 0);
    close(r);
    close(listener);
    endpoints_fini(&p);
}

static void test_fixed_socket_starts_nothing(void **state)
{
    struct home *h = *state;
    struct options o = {0};
    struct endpoints p;
    int r;

    put_hobd(h, "#!/bin/sh\ntouch \"$XDG_RUNTIME_DIR/started\"\n");
    setenv("HOB_SOCKET", at(h, "none.sock"), 1);
    assert_int_equal(endpoints_find(&p, &o), 0);
    r = endpoints_connect_or_start(&p);
    assert_int_equal(r, -ENOENT);
    assert_non_null(strstr(error_text(r), "none.sock"));
    endpoints_fini(&p);
}

static void test_order_of_endpoints(void **state)
{
    struct home *h = *state;
    struct options o = {0};
    struct endpoints p;

    assert_int_equal(endpoints_find(&p, &o), 0);
    assert_string_equal(p.user, at(h, "run/hob/default.sock"));
    assert_string_equal(p.system, "/run/hob/default.sock");
    assert_null(p.fixed);
    endpoints_fini(&p);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_hobd_is_found_nearest_first),
        CASE(test_last_line),
        CASE(test_failure_has_the_last_line_of_the_log),
        CASE(test_a_crash_is_none_of_its_answers),
        CASE(test_no_model_starts_nothing),
        CASE(test_inherited_state),
        CASE(test_running_daemon_is_used),
        CASE(test_fixed_socket_starts_nothing),
        CASE(test_order_of_endpoints),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
