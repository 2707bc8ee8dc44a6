/* SPDX-License-Identifier: MIT */
/* The program hobd tokenize: its output, its errors, its exit codes. */
#include "tests/text/mini.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *hobd;
static char model[] = "/tmp/hob-test-XXXXXX";

/* Runs hobd tokenize with @args (NULL-terminated) and @in. Returns the exit code. @out and @err receive its output. */
static int run(const char *const *args, const char *in, struct buf *out, struct buf *err)
{
    FILE *files[3] = {tmpfile(), tmpfile(), tmpfile()};
    const char *argv[16] = {hobd, "tokenize"};
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
        execv(hobd, (char *const *)argv);
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

static void says(const char *in, const char *want, const char *const *args)
{
    struct buf out = BUF_INIT, err = BUF_INIT;
    int code = run(args, in, &out, &err);
    assert_string_equal(err.data, "");
    assert_string_equal(out.data, want);
    assert_int_equal(code, 0);
    buf_fini(&out);
    buf_fini(&err);
}
#define SAYS(in, want, ...) says(in, want, (const char *const[]){"-m", model, __VA_ARGS__}) /* options, NULL */

/* Expects an empty standard output and one line on standard error that contains @word. */
static void fails(int code, const char *in, const char *word, const char *const *args)
{
    struct buf out = BUF_INIT, err = BUF_INIT;
    assert_int_equal(run(args, in, &out, &err), code);
    assert_string_equal(out.data, "");
    assert_memory_equal(err.data, "hobd tokenize: ", 15);
    assert_ptr_equal(strchr(err.data, '\n'), err.data + err.len - 1);
    if (!strstr(err.data, word)) fail_msg("no \"%s\" in: %s", word, err.data);
    buf_fini(&out);
    buf_fini(&err);
}
#define FAILS(code, in, word, ...) fails(code, in, word, (const char *const[]){__VA_ARGS__, NULL})

static void ids(void **state)
{
    SAYS("ab c", "[256, 257]\n", NULL);
    SAYS("", "[]\n", NULL);
    SAYS("ab", "[259, 256]\n", "--bos", NULL);
    SAYS("\n", "[10]\n", NULL);
}

static void specials(void **state)
{
    SAYS("<e>", "[60, 101, 62]\n", NULL);
    SAYS("<e>", "[258]\n", "--special", NULL);
}

static void back(void **state)
{
    SAYS("[256, 257]", "ab c", "--detokenize", NULL);
    SAYS("[195,169, 258]\n", "é", "--detokenize", NULL);
    SAYS("[97, 195, 258, 98]", "a\xef\xbf\xbd<e>b", "--detokenize", "--special", NULL);
    SAYS("[]", "", "--detokenize", NULL);
}

static void bad_input(void **state)
{
    FAILS(1, "ab\xff", "byte 2", "-m", model);
    FAILS(1, "[1, 2", "line 1", "-m", model, "--detokenize");
    FAILS(1, "{}", "array", "-m", model, "--detokenize");
    FAILS(1, "[1, 260]", "element 1", "-m", model, "--detokenize");
    FAILS(1, "[1, 2, -1]", "element 2", "-m", model, "--detokenize");
    FAILS(1, "[1.5]", "element 0", "-m", model, "--detokenize");
    FAILS(1, "[99999999999999999999]", "standard input", "-m", model, "--detokenize");
    FAILS(1, "", "no-such-model", "-m", "no-such-model");
    FAILS(1, "", "/dev/null", "-m", "/dev/null");
}

static void usage(void **state)
{
    FAILS(2, "", "-m", "--special");
    FAILS(2, "", "'--frob'", "-m", model, "--frob");
    FAILS(2, "", "'-x'", "-m", model, "-x");
    FAILS(2, "", "needs a value", "-m");
    FAILS(2, "", "'more'", "-m", model, "more");
    FAILS(2, "", "--bos", "-m", model, "--bos", "--detokenize");
}

static int setup(void **state)
{
    const char *const merges[] = {"a b", "_ c", NULL};
    const struct mini_token extra[] = {{"<e>", MINI_CONTROL, 0}, {"<s>", MINI_CONTROL, 0}};
    struct mini m = {0};
    int fd = mkstemp(model);
    if (fd < 0) return -1;
    mini_bpe(&m, "smollm", merges, extra, 2);
    mini_u32(&m, "tokenizer.ggml.bos_token_id", 259);
    mini_write(&m, fd);
    buf_fini(&m.body);
    return close(fd);
}

static int teardown(void **state)
{
    return unlink(model);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids),       cmocka_unit_test(specials), cmocka_unit_test(back),
        cmocka_unit_test(bad_input), cmocka_unit_test(usage),
    };
    if (argc != 2) return 2;
    hobd = argv[1];
    return cmocka_run_group_tests_name("tokenize", tests, setup, teardown);
}
