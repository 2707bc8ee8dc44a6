/* SPDX-License-Identifier: MIT */
/* The program hobd tokenize: its output, its errors, its exit codes. */
#include "tests/support/command.h"
#include "tests/text/tiny-tokenizer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char model[] = "/tmp/hob-test-XXXXXX";

#define SAYS(in, want, ...)                                                                                            \
    command_says(in, want, (const char *const[]){"-m", model, __VA_ARGS__}) /* options, NULL                           \
                                                                             */

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
    const struct tiny_token extra[] = {{"<e>", TINY_CONTROL, 0}, {"<s>", TINY_CONTROL, 0}};
    struct tiny_tokenizer m = {0};
    int fd = mkstemp(model);
    if (fd < 0) return -1;
    tiny_bpe(&m, "smollm", merges, extra, 2);
    tiny_u32(&m, "tokenizer.ggml.bos_token_id", 259);
    tiny_write_keys(&m, fd);
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
    command_init(argv[1], "tokenize");
    return cmocka_run_group_tests_name("tokenize", tests, setup, teardown);
}
