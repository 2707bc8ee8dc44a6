/* SPDX-License-Identifier: MIT */
#include "libcommon/buf.h"
#include "libcommon/conf.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static int make_file(void **state)
{
    int fd;

    strcpy(path, "/tmp/hob-test-conf-XXXXXX");
    fd = mkstemp(path);
    if (fd < 0) return -1;
    close(fd);
    return 0;
}

static int remove_file(void **state)
{
    return unlink(path);
}

static void write_file(const char *text, size_t n)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static int collect(void *ctx, const char *key, const char *value)
{
    if (strcmp(key, "bad") == 0) return error_say(-EINVAL, "unknown key 'bad'");
    return buf_printf(ctx, "[%s|%s]", key, value);
}

static void check(const char *text, const char *expected)
{
    struct buf got = BUF_INIT;

    write_file(text, strlen(text));
    assert_int_equal(buf_puts(&got, ""), 0);
    assert_int_equal(conf_read(path, collect, &got), 0);
    assert_string_equal(got.data, expected);
    buf_fini(&got);
}

static void check_error(const char *text, size_t n, const char *expected)
{
    struct buf got = BUF_INIT;
    char sentence[256];

    write_file(text, n);
    assert_int_equal(conf_read(path, collect, &got), -EINVAL);
    snprintf(sentence, sizeof sentence, "%s:%s", path, expected);
    assert_string_equal(error_text(-EINVAL), sentence);
    buf_fini(&got);
}

static void pairs_comments_and_blanks(void **state)
{
    check("", "");
    check("# nothing\n\n   \n\t# here\n", "");
    check("model = tiny\nctx=4096\n", "[model|tiny][ctx|4096]");
    check("  model \t=  two words  \r\n", "[model|two words]");
    check("a = b # c\n", "[a|b # c]");
    check("a = x=y\n", "[a|x=y]");
    check("empty =\nlast = no newline", "[empty|][last|no newline]");
}

static void quotes(void **state)
{
    check("a = \"  spaces kept \"\n", "[a|  spaces kept ]");
    check("a = \"say \\\"hi\\\" \\\\ \\n\"\n", "[a|say \"hi\" \\ \\n]");
    check("a = \"\"\n", "[a|]");
}

static void malformed_lines_are_named(void **state)
{
#define CASE(text, expected) check_error(text, sizeof text - 1, expected)
    CASE("a = b\n\nnonsense\n", "3: expected 'key = value', not 'nonsense'");
    CASE("= b\n", "1: expected 'key = value', not '= b'");
    CASE("a = \"open\n", "1: the closing quote is missing");
    CASE("a = \"x\" y\n", "1: text after the closing quote:  y");
    CASE("a = b\0c\n", "1: a NUL byte");
    CASE("# x\nbad = 1\n", "2: unknown key 'bad'");
}

static void a_missing_file_is_an_outcome(void **state)
{
    assert_int_equal(conf_read("/nonexistent/hob.conf", collect, NULL), 1);
}

static void a_directory_is_an_error(void **state)
{
    assert_int_equal(conf_read("/tmp", collect, NULL), -EISDIR);
    assert_non_null(strstr(error_text(-EISDIR), "/tmp"));
}

static void nearest_keys(void **state)
{
    static const char *const keys[] = {"model", "temperature", "top_p", "top_k", "ctx", "idle-exit", NULL};

    assert_string_equal(conf_nearest("temprature", keys), "temperature");
    assert_string_equal(conf_nearest("modle", keys), "model");
    assert_string_equal(conf_nearest("idle_exit", keys), "idle-exit");
    assert_string_equal(conf_nearest("top-k", keys), "top_k");
    assert_string_equal(conf_nearest("ctx", keys), "ctx");
    assert_string_equal(conf_nearest("temp", keys), "temperature");
    assert_string_equal(conf_nearest("model-of-mine", keys), "model");
    assert_null(conf_nearest("banana", keys));
    assert_null(conf_nearest("t", keys));
    assert_null(conf_nearest("", keys));
    assert_null(conf_nearest("a-very-long-key-that-no-list-of-options-has-and-nobody-would-type-by-hand", keys));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_comments_and_blanks), cmocka_unit_test(quotes),
        cmocka_unit_test(malformed_lines_are_named), cmocka_unit_test(a_missing_file_is_an_outcome),
        cmocka_unit_test(a_directory_is_an_error),   cmocka_unit_test(nearest_keys),
    };

    return cmocka_run_group_tests_name("conf", tests, make_file, remove_file);
}
