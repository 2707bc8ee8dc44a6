/* SPDX-License-Identifier: MIT */
/* tool-ask.c and editor.c, on a terminal with a user. */
#include "client/interrupt.h"
#include "client/tool-ask.h"
#include "tests/support/folder.h"
#include <errno.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>

static char folder[FOLDER_PATH];

/* The terminal's text up to @mark. */
static void until(int master, char *seen, size_t size, const char *mark)
{
    size_t n = strlen(seen);

    while (!strstr(seen, mark)) {
        ssize_t more = read(master, seen + n, size - 1 - n);
        if (more <= 0) _exit(9);
        n += (size_t)more;
        seen[n] = 0;
    }
}

/* A user who types the @keys, each line after its question. */
static pid_t user(int master, const char *const *keys)
{
    static char seen[65536];
    pid_t pid = fork();

    if (pid != 0) return pid;
    alarm(60);
    for (; *keys; keys++) {
        seen[0] = 0;
        until(master, seen, sizeof(seen), "e (edit): ");
        if (strstr(seen, "\x1b")) _exit(8); /* text of the model reached the terminal raw */
        if (write(master, *keys, strlen(*keys)) < 0) _exit(7);
    }
    _exit(0);
}

/* Ask about a call with @before; the arguments are @after then. */
static int ask(const char *before, const char *after, bool *always, const char *const *keys)
{
    struct tool t = {.about.name = (char *)"f"};
    struct buf arguments = BUF_INIT;
    int master, slave, status;
    bool edited;

    assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
    assert_int_equal(buf_puts(&arguments, before), 0);
    pid_t pid = user(master, keys);
    int r = tool_ask(slave, &t, &arguments, &edited);
    assert_string_equal(arguments.data, after);
    assert_int_equal(edited, strcmp(before, after) != 0);
    *always = t.always;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    buf_fini(&arguments);
    close(master);
    close(slave);
    return r;
}

#define ASK(before, after, ...) ask((before), (after), &always, (const char *const[]){__VA_ARGS__, NULL})

static void test_answers(void **state)
{
    bool always;

    assert_int_equal(ASK("{}", "{}", "y\n"), 0);
    assert_false(always);
    assert_int_equal(ASK("{}", "{}", " Yes \n"), 0);
    assert_int_equal(ASK("{}", "{}", "no\n"), TOOL_REFUSED);
    assert_int_equal(ASK("{}", "{}", "always\n"), 0);
    assert_true(always);
    /* Nothing but an answer is one. */
    assert_int_equal(ASK("{}", "{}", "\n", "yy\n", "what?\n", "yes please\n", "n\n"), TOOL_REFUSED);
    assert_int_equal(ASK("{}", "{}", "\x04"), TOOL_REFUSED);
}

static void test_text_of_the_model_is_not_obeyed(void **state)
{
    bool always;

    assert_int_equal(ASK("{\"a\": \"\x1b[2J\"}", "{\"a\": \"\x1b[2J\"}", "n\n"), TOOL_REFUSED);
}

static void test_ctrl_c_ends_it(void **state)
{
    struct tool t = {.about.name = (char *)"f"};
    struct buf arguments = BUF_INIT;
    int master, slave;
    bool edited;

    assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
    assert_int_equal(buf_puts(&arguments, "{}"), 0);
    raise(SIGINT);
    assert_int_equal(tool_ask(slave, &t, &arguments, &edited), -EINTR);
    interrupt_clear();
    interrupt_init();
    buf_fini(&arguments);
    close(master);
    close(slave);
}

/* An editor that replaces the text. */
static void editor(const char *script)
{
    assert_int_equal(folder_put(folder, "editor", script), 0);
    assert_int_equal(chmod(folder_at(folder, "editor"), 0755), 0);
}

static void test_edit(void **state)
{
    bool always;

    setenv("VISUAL", folder_at(folder, "editor"), 1);
    setenv("TMPDIR", folder, 1);
    editor("#!/bin/sh\n[ -t 0 ] && [ -t 1 ] && sed -i 's/1/2/' \"$1\"\n");
    assert_int_equal(ASK("{\"a\": 1}", "{\"a\": 2}", "e\n", "y\n"), 0);
    /* The question comes again, with the arguments as they were. */
    editor("#!/bin/sh\necho '[1' >\"$1\"\n");
    assert_int_equal(ASK("{\"a\": 1}", "{\"a\": 1}", "e\n", "y\n"), 0);
    editor("#!/bin/sh\necho '[1]' >\"$1\"\n");
    assert_int_equal(ASK("{\"a\": 1}", "{\"a\": 1}", "edit\n", "n\n"), TOOL_REFUSED);
    editor("#!/bin/sh\necho '{}' >\"$1\"\nexit 1\n");
    assert_int_equal(ASK("{\"a\": 1}", "{\"a\": 1}", "e\n", "n\n"), TOOL_REFUSED);
    unsetenv("VISUAL");
    setenv("EDITOR", "true --option", 1);
    assert_int_equal(ASK("{\"a\": 1}", "{\"a\": 1}", "e\n", "y\n"), 0);
    /* No file is left. */
    assert_int_equal(unlink(folder_at(folder, "editor")), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
}

static int setup(void **state)
{
    interrupt_init();
    return folder_make(folder, "ask");
}

static int teardown(void **state)
{
    return folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_text_of_the_model_is_not_obeyed),
        cmocka_unit_test(test_ctrl_c_ends_it),
        cmocka_unit_test(test_edit),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
