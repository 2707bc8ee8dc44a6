/* SPDX-License-Identifier: MIT */
#include "libcommon/buf.h"
#include "libcommon/conf.h"
#include "libcommon/error.h"
#include "libcommon/file.h"
#include "tests/libcommon/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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

static void blocks(void **state)
{
    check("a = \"\"\"\none\n  two # no comment\n\n\"quoted\" = \\n\n\"\"\"\nb = c\n",
          "[a|one\n  two # no comment\n\n\"quoted\" = \\n][b|c]");
    check("a = \"\"\"\n\"\"\"\n", "[a|]");
    check("a = \"\"\"\n\n\"\"\"\n", "[a|]");
    check("a = \"\"\" \r\nx \"\"\"\r\n\"\"\"x\r\n \t\"\"\" \r\n", "[a|x \"\"\"\n\"\"\"x]");
}

static void malformed_lines_are_named(void **state)
{
#define CASE(text, expected) check_error(text, sizeof text - 1, expected)
    CASE("a = b\n\nnonsense\n", "3: expected 'key = value', not 'nonsense'");
    CASE("= b\n", "1: expected 'key = value', not '= b'");
    CASE("a = \"open\n", "1: the closing quote is missing");
    CASE("a = \"x\" y\n", "1: text after the closing quote:  y");
    CASE("x = 1\na = \"\"\"\nb\nc\n", "2: the closing \"\"\" is missing");
    CASE("a = \"\"\"\nb\0c\n\"\"\"\n", "2: a NUL byte");
    CASE("bad = \"\"\"\nb\n\"\"\"\n", "1: unknown key 'bad'");
    CASE("a = b\0c\n", "1: a NUL byte");
    CASE("# x\nbad = 1\n", "2: unknown key 'bad'");
}

static void a_missing_file_is_an_outcome(void **state)
{
    assert_int_equal(conf_read("/nonexistent/hob.conf", collect, NULL), 1);
}

/* None of them is waited for, read without end, or taken for an empty file. */
static void only_a_regular_file_is_read(void **state)
{
    char dir[] = "/tmp/hob-test-conf-XXXXXX", name[64], sentence[128];
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd;

    assert_non_null(mkdtemp(dir));
    snprintf(name, sizeof name, "%s/x", dir);
    snprintf(sentence, sizeof sentence, "%s is not a regular file", name);
    for (int i = 0; i < 4; i++) {
        fd = -1;
        if (i == 0) assert_int_equal(mkfifo(name, 0600), 0); /* nobody writes into it */
        if (i == 1) assert_int_equal(symlink("/dev/zero", name), 0);
        if (i == 2) assert_int_equal(mkdir(name, 0700), 0);
        if (i == 3) {
            strcpy(a.sun_path, name);
            fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
            assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof a), 0);
        }
        alarm(10);
        assert_int_equal(conf_read(name, collect, NULL), -EINVAL);
        alarm(0);
        assert_string_equal(error_text(-EINVAL), sentence);
        if (fd >= 0) close(fd);
        assert_int_equal(i == 2 ? rmdir(name) : unlink(name), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

static void a_file_has_a_limit(void **state)
{
    struct buf got = BUF_INIT;

    write_file("a = b\n", 6);
    assert_int_equal(truncate(path, CONF_BYTES_MAX + 1), 0);
    assert_int_equal(conf_read(path, collect, &got), -EFBIG);
    assert_non_null(strstr(error_text(-EFBIG), "has 1048577 bytes, the limit is 1048576"));
    buf_fini(&got);
}

/* For what is read once: a pipe is, what has no end is not. */
static void a_stream_that_ends(void **state)
{
    int fds[2], fd;
    char name[64];

    assert_int_equal(file_open_once("/dev/zero"), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "/dev/zero is a device, not a file");
    assert_int_equal(file_open_once("/tmp"), -EISDIR);
    assert_int_equal(pipe(fds), 0);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fds[0]);
    fd = file_open_once(name);
    assert_true(fd >= 0);
    close(fd);
    close(fds[0]);
    close(fds[1]);
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
        cmocka_unit_test(pairs_comments_and_blanks),
        cmocka_unit_test(quotes),
        cmocka_unit_test(blocks),
        cmocka_unit_test(malformed_lines_are_named),
        cmocka_unit_test(a_missing_file_is_an_outcome),
        cmocka_unit_test(only_a_regular_file_is_read),
        cmocka_unit_test(a_file_has_a_limit),
        cmocka_unit_test(a_stream_that_ends),
        cmocka_unit_test(nearest_keys),
    };

    return cmocka_run_group_tests_name("conf", tests, make_file, remove_file);
}
