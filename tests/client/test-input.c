/* SPDX-License-Identifier: MIT */
#include "client/generate.h"
#include "client/input.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>

struct fixture {
    struct options o;
    const char *words[4];
    struct option_file files[3];
    char path[2][32];
    struct input in;
    int stdin_fd;
};

static int content(const char *data, size_t n, char path[32])
{
    int fd;

    strcpy(path, "/tmp/hob-test-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, n), n);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

/* Any of them NULL: not given. */
static int read_input(struct fixture *f, const char *in, size_t in_len, const char *file, const char *word1,
                      const char *word2)
{
    char path[32];

    f->in = (struct input){0};
    f->o.words = f->words;
    f->o.files = f->files;
    f->o.n_words = f->o.n_files = 0;
    if (word1) f->words[f->o.n_words++] = word1;
    if (word2) f->words[f->o.n_words++] = word2;
    if (file) {
        close(content(file, strlen(file), f->path[0]));
        f->files[f->o.n_files++] = (struct option_file){f->path[0], 0};
    }
    f->stdin_fd = in ? content(in, in_len, path) : -1;
    if (in) unlink(path);
    return input_read(&f->o, f->stdin_fd, &f->in);
}

static void done(struct fixture *f)
{
    if (f->o.n_files > 0) unlink(f->path[0]);
    if (f->stdin_fd >= 0) close(f->stdin_fd);
    input_fini(&f->in);
}

static void gives(bool raw, const char *in, const char *file, const char *word1, const char *word2, const char *text)
{
    struct fixture f = {.o = {.raw = raw}};

    assert_int_equal(read_input(&f, in, in ? strlen(in) : 0, file, word1, word2), 0);
    assert_string_equal(f.in.text.data, text);
    assert_int_equal(f.in.text.len, strlen(text));
    done(&f);
}

static void test_a_blank_line_separates_pieces(void **state)
{
    gives(false, NULL, NULL, "a", "b", "a b");
    gives(false, "from stdin\n", NULL, NULL, NULL, "from stdin");
    gives(false, "from stdin\n", NULL, "the", "words", "from stdin\n\nthe words");
    gives(false, "s\n\n\n", "f\r\n", "w", NULL, "s\n\nf\n\nw");
    gives(false, NULL, "f", "w", NULL, "f\n\nw");
    gives(false, "\n  keep\n\n inner\n", NULL, "w", NULL, "\n  keep\n\n inner\n\nw");
}

static void test_empty_pieces_leave_no_trace(void **state)
{
    gives(false, "", NULL, "w", NULL, "w");
    gives(false, "\n\n", "", "w", NULL, "w");
    gives(false, "s", "\n", NULL, NULL, "s");
}

static void test_raw_changes_nothing(void **state)
{
    gives(true, "in\n\n", NULL, "a", "b", "in\n\na b");
    gives(true, "in\r\n", "file\n", "", NULL, "in\r\nfile\n");
    gives(true, "\n", NULL, NULL, NULL, "\n");
}

static void test_empty_input_is_reported(void **state)
{
    struct fixture f = {0};

    assert_int_equal(read_input(&f, NULL, 0, NULL, NULL, NULL), 1);
    done(&f);
    assert_int_equal(read_input(&f, "\n\n", 2, NULL, NULL, NULL), 1);
    done(&f);
    assert_int_equal(read_input(&f, NULL, 0, NULL, "", NULL), 1);
    done(&f);
}

static void test_nul_is_a_character(void **state)
{
    struct fixture f = {0};

    assert_int_equal(read_input(&f, "a\0b", 3, NULL, "w", NULL), 0);
    assert_int_equal(f.in.text.len, 6);
    assert_memory_equal(f.in.text.data, "a\0b\n\nw", 6);
    done(&f);
}

static void refused(const char *in, size_t n, const char *file, const char *word, const char *says)
{
    struct fixture f = {0};
    int r = read_input(&f, in, n, file, word, NULL);

    assert_int_equal(r, -EILSEQ);
    if (!strstr(error_text(r), says)) fail_msg("'%s' is not in: %s", says, error_text(r));
    done(&f);
}

static void test_invalid_utf8_is_located(void **state)
{
    refused("0123456789abcdefg\xff", 18, NULL, "w", "standard input: invalid UTF-8 at byte 17");
    refused("s", 1, "ab\xc3", NULL, ": invalid UTF-8 at byte 2");
    refused("s", 1, NULL, "\xed\xa0\x80", "the prompt's words: invalid UTF-8 at byte 0");
    /* A character may not be begun by one piece and ended by the next. */
    refused("\xc3", 1, NULL, "\xa4", "standard input: invalid UTF-8 at byte 0");
}

static void test_missing_file_is_named(void **state)
{
    struct option_file files[] = {{"/nonexistent/hob", 0}};
    struct options o = {.files = files, .n_files = 1};
    struct input in = {0};
    int r = input_read(&o, -1, &in);

    assert_int_equal(r, -ENOENT);
    assert_string_equal(error_text(r), "/nonexistent/hob: No such file or directory");
    files[0].path = "/";
    r = input_read(&o, -1, &in);
    assert_int_equal(r, -EISDIR);
    assert_string_equal(error_text(r), "/: Is a directory");
    files[0].kind = PROTO_MEDIA_IMAGE;
    assert_int_equal(input_read(&o, -1, &in), -EISDIR);
    files[0].path = "/dev/null";
    r = input_read(&o, -1, &in);
    assert_int_equal(r, -EINVAL);
    assert_string_equal(error_text(r), "/dev/null: the file is empty");
    assert_int_equal(in.n_media, 0);
    input_fini(&in);
}

/* Images stand before the text that follows, behind the blank line. */
static void test_media_have_places(void **state)
{
    struct fixture f = {0};
    struct proto_request r;

    assert_int_equal(read_input(&f, "s\n", 2, "file\n", "w", NULL), 0);
    input_fini(&f.in);
    f.files[1] = f.files[0];
    f.files[0].kind = PROTO_MEDIA_IMAGE;
    f.files[2] = (struct option_file){f.path[0], PROTO_MEDIA_SOUND};
    f.o.n_files = 3;
    assert_int_equal(input_read(&f.o, -1, &f.in), 0);
    assert_string_equal(f.in.text.data, "file\n\nw");
    assert_int_equal(f.in.n_media, 2);
    assert_int_equal(f.in.media[0].at, 0);
    assert_int_equal(f.in.media[1].at, 6);
    assert_int_equal(f.in.media[1].kind, PROTO_MEDIA_SOUND);
    assert_int_equal(blob_size(f.in.media[1].file), 5);
    assert_memory_equal(blob_data(f.in.media[1].file), "file\n", 5);
    assert_int_equal(generate_request(&r, &f.o, &f.in), 0);
    assert_int_equal(r.gen.messages[0].n_media, 2);
    assert_int_equal(f.in.n_media, 0);
    proto_request_fini(&r);
    f.o.n_words = 0;
    f.o.n_files = 1; /* an image alone */
    assert_int_equal(input_read(&f.o, -1, &f.in), 0);
    assert_int_equal(f.in.text.len, 0);
    assert_int_equal(f.in.n_media, 1);
    done(&f);
}

static void test_too_much_is_refused(void **state)
{
    struct options o = {0};
    struct input in = {0};
    int ends[2], wstatus, r;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char chunk[65536];

        close(ends[0]);
        memset(chunk, 'x', sizeof chunk);
        while (write(ends[1], chunk, sizeof chunk) > 0) continue; /* without an end */
        _exit(0);
    }
    close(ends[1]);
    r = input_read(&o, ends[0], &in);
    close(ends[0]);
    assert_int_equal(waitpid(pid, &wstatus, 0), pid);
    assert_int_equal(r, -EMSGSIZE);
    assert_non_null(strstr(error_text(r), "standard input: larger than 63 MiB"));
    input_fini(&in);
}

static void test_request_carries_the_options(void **state)
{
    struct options o = {.system = (char *)"sys", .session = (char *)"ses", .max_tokens = 5, .timeout_ms = -1};
    struct input in = {0};
    struct proto_request r;

    o.stop.texts[o.stop.n++] = (char *)"END";
    o.sampling.seed = 3;
    assert_int_equal(buf_puts(&in.text, "question"), 0);
    assert_int_equal(generate_request(&r, &o, &in), 0);
    assert_null(in.text.data);
    assert_int_equal(r.type, PROTO_GENERATE);
    assert_false(r.gen.raw);
    assert_int_equal(r.gen.n_messages, 2);
    assert_string_equal(r.gen.messages[0].role.data, "system");
    assert_string_equal(r.gen.messages[0].content.data, "sys");
    assert_string_equal(r.gen.messages[1].role.data, "user");
    assert_string_equal(r.gen.messages[1].content.data, "question");
    assert_string_equal(r.gen.session.data, "ses");
    assert_string_equal(r.gen.stop[0].data, "END");
    assert_true(r.gen.n_stop == 1 && r.gen.max_tokens == 5 && r.gen.sampling.seed == 3);
    /* Version 4, variant 1. */
    assert_int_equal(strlen(r.gen.uuid), 36);
    assert_true(r.gen.uuid[14] == '4' && strchr("89ab", r.gen.uuid[19]));
    proto_request_fini(&r);

    o.raw = true;
    o.system = NULL;
    assert_int_equal(buf_puts(&in.text, "text"), 0);
    assert_int_equal(generate_request(&r, &o, &in), 0);
    assert_true(r.gen.raw && r.gen.n_messages == 0);
    assert_string_equal(r.gen.prompt.data, "text");
    proto_request_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_blank_line_separates_pieces),
        cmocka_unit_test(test_empty_pieces_leave_no_trace),
        cmocka_unit_test(test_raw_changes_nothing),
        cmocka_unit_test(test_empty_input_is_reported),
        cmocka_unit_test(test_nul_is_a_character),
        cmocka_unit_test(test_invalid_utf8_is_located),
        cmocka_unit_test(test_missing_file_is_named),
        cmocka_unit_test(test_too_much_is_refused),
        cmocka_unit_test(test_request_carries_the_options),
        cmocka_unit_test(test_media_have_places),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
