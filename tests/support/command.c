/* SPDX-License-Identifier: MIT */
#include "tests/support/command.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct {
    const char *hobd, *name;
} command;

void command_init(const char *hobd, const char *name)
{
    command.hobd = hobd;
    command.name = name;
}

int command_run(const char *const *args, const char *in, struct buf *out, struct buf *err)
{
    FILE *files[3] = {tmpfile(), tmpfile(), tmpfile()};
    const char *argv[16] = {command.hobd, command.name};
    struct buf *got[3] = {NULL, out, err};
    int status;
    for (size_t i = 0; args[i]; i++) argv[2 + i] = args[i];
    for (int i = 0; i < 3; i++) assert_non_null(files[i]);
    fputs(in, files[0]);
    rewind(files[0]);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        for (int i = 0; i < 3; i++) dup2(fileno(files[i]), i);
        execv(command.hobd, (char *const *)argv);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    for (int i = 1; i < 3; i++) {
        char b[4096];
        size_t n;
        buf_clear(got[i]);
        assert_int_equal(buf_reserve(got[i], 1), 0);
        rewind(files[i]);
        while ((n = fread(b, 1, sizeof(b), files[i]))) assert_int_equal(buf_append(got[i], b, n), 0);
    }
    for (int i = 0; i < 3; i++) fclose(files[i]);
    return WEXITSTATUS(status);
}

void command_says(const char *in, const char *want, const char *const *args)
{
    struct buf out = BUF_INIT, err = BUF_INIT;
    int code = command_run(args, in, &out, &err);
    assert_string_equal(err.data, "");
    assert_string_equal(out.data, want);
    assert_int_equal(code, 0);
    buf_fini(&out);
    buf_fini(&err);
}
void command_fails(int code, const char *in, const char *word, const char *const *args)
{
    struct buf out = BUF_INIT, err = BUF_INIT;
    char prefix[64];
    snprintf(prefix, sizeof(prefix), "hobd %s: ", command.name);
    assert_int_equal(command_run(args, in, &out, &err), code);
    assert_string_equal(out.data, "");
    assert_memory_equal(err.data, prefix, strlen(prefix));
    assert_ptr_equal(strchr(err.data, '\n'), err.data + err.len - 1);
    if (!strstr(err.data, word)) fail_msg("no \"%s\" in: %s", word, err.data);
    buf_fini(&out);
    buf_fini(&err);
}
