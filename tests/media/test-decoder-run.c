/* SPDX-License-Identifier: MIT */
/* Decoders that misbehave: this program, with the name of its fault as argument. */
#include "daemon/media/decoder-run.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint8_t file[] = "\x89PNG\r\n\x1a\n and so on";

static int run(const char *fault, int64_t ms, struct media_reply *reply)
{
    char *const argv[] = {"/proc/self/exe", (char *)fault, NULL};
    return decoder_run(argv, file, sizeof(file), ms, -1, reply);
}

static void check(const char *fault, int64_t ms, int error, const char *text)
{
    struct media_reply reply;
    assert_int_equal(run(fault, ms, &reply), error);
    assert_string_equal(error_text(error), text);
    assert_null(reply.data);
}

static void test_faults(void **state)
{
    check("kill", DECODER_MS, -EBADMSG, "image: PNG: the decoder was killed");
    check("crash", DECODER_MS, -EBADMSG, "image: PNG: the decoder crashed (SIGSEGV)");
    check("abort", DECODER_MS, -EBADMSG, "image: PNG: the decoder crashed (SIGABRT)");
    check("call", DECODER_MS, -EBADMSG, "image: PNG: the decoder was killed for a forbidden system call");
    check("cpu", DECODER_MS, -ETIME, "image: PNG: it takes too much time to decode");
    check("hang", 50, -ETIME, "image: PNG: it takes longer than 0.05 s to decode");
    check("close and hang", 50, -ETIME, "image: PNG: it takes longer than 0.05 s to decode");
    check("exit", DECODER_MS, -EBADMSG, "image: PNG: the decoder ended without an answer");
    check("half a head", DECODER_MS, -EBADMSG, "image: PNG: the decoder ended without an answer");
    check("half an answer", DECODER_MS, -EBADMSG, "image: PNG: the decoder ended without an answer");
    check("nonsense", DECODER_MS, -EPROTO, "image: PNG: the decoder answers nonsense");
    check("too much", DECODER_MS, -EPROTO, "image: PNG: the decoder answers nonsense");
    check("endless", DECODER_MS, -EPROTO, "image: PNG: the decoder answers nonsense");
}

static void test_nobody_waits(void **state)
{
    struct media_reply reply;
    char *const argv[] = {"/proc/self/exe", "hang", NULL};
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    close(pair[0]);
    assert_int_equal(decoder_run(argv, file, sizeof(file), DECODER_MS, pair[1], &reply), -ECANCELED);
    close(pair[1]);
}

static void test_a_program_that_does_not_exist(void **state)
{
    struct media_reply reply;
    char *const argv[] = {"/nowhere/hobd-decode", NULL};
    assert_int_equal(decoder_run(argv, file, sizeof(file), DECODER_MS, -1, &reply), -ENOENT);
    assert_string_equal(error_text(-ENOENT), "image: PNG: the decoder cannot start: No such file or directory");
}

/* A decoder that inherits nothing, and one that reads a file larger than pipes. */
static void test_answers(void **state)
{
    struct media_reply reply;
    size_t n = 3 << 20;
    char *const argv[] = {"/proc/self/exe", "read", NULL};
    uint8_t *big = malloc(n);
    int open_here = open("/dev/null", O_RDONLY); /* not close-on-exec */
    assert_non_null(big);
    assert_true(open_here > STDERR_FILENO);
    for (size_t i = 0; i < n; i++) big[i] = (uint8_t)i;
    assert_int_equal(setenv("HOB_SECRET", "x", 1), 0);
    assert_int_equal(decoder_run(argv, big, n, DECODER_MS, -1, &reply), 0);
    assert_int_equal(reply.head.kind, MEDIA_IMAGE);
    assert_int_equal(reply.head.size, 3);
    assert_int_equal(((uint8_t *)reply.data)[0], 0);
    media_reply_fini(&reply);
    free(big);
    close(open_here);
    assert_int_equal(run("refuse", DECODER_MS, &reply), 0);
    assert_int_equal(reply.head.error, -EBADMSG);
    assert_memory_equal(reply.data, "no", 2);
    media_reply_fini(&reply);
}

static int answer(struct media_head head, const char *data, size_t n)
{
    head.magic = MEDIA_MAGIC;
    return media_write(STDOUT_FILENO, &head, sizeof(head)) < 0 || media_write(STDOUT_FILENO, data, n) < 0;
}

/* One pixel: not 0 if a byte of the file is wrong or something was inherited. */
static int check_input(void)
{
    struct media_ask ask;
    uint8_t pixel[3] = {0};
    if (media_read(STDIN_FILENO, &ask, sizeof(ask)) < 0) return 1;
    for (uint64_t left = ask.size; left > 0; left -= 4096) {
        uint8_t part[4096];
        if (left < sizeof(part) || media_read(STDIN_FILENO, part, sizeof(part)) < 0) return 1;
        for (size_t k = 0; k < sizeof(part); k++) pixel[0] |= (uint8_t)(part[k] ^ k);
    }
    for (int fd = STDERR_FILENO + 1; fd < 1000; fd++)
        if (fcntl(fd, F_GETFD) >= 0) pixel[0] = 1;
    if (getenv("HOB_SECRET")) pixel[0] = 2;
    return answer((struct media_head){.kind = MEDIA_IMAGE, .format = MEDIA_PNG, .width = 1, .height = 1, .size = 3},
                  (char *)pixel, 3);
}

static int misbehave(const char *fault)
{
    static const char nonsense[64] = "neither pixels nor a message";
    const struct media_head refused = {.error = -EBADMSG, .size = 2};
    if (!strcmp(fault, "read")) return check_input();
    if (!strcmp(fault, "refuse")) return answer(refused, "no", 2);
    if (!strcmp(fault, "too much")) return answer(refused, "not", 3);
    if (!strcmp(fault, "half an answer")) return answer(refused, "n", 1);
    if (!strcmp(fault, "half a head")) return media_write(STDOUT_FILENO, &refused, 20) < 0;
    if (!strcmp(fault, "nonsense")) return media_write(STDOUT_FILENO, nonsense, sizeof(nonsense)) < 0;
    while (!strcmp(fault, "endless"))
        if (answer(refused, "no", 2)) return 1;
    if (!strcmp(fault, "kill")) raise(SIGKILL);
    if (!strcmp(fault, "crash")) {
        signal(SIGSEGV, SIG_DFL); /* sanitizers handle it */
        raise(SIGSEGV);
    }
    if (!strcmp(fault, "abort")) raise(SIGABRT);
    if (!strcmp(fault, "call")) raise(SIGSYS);
    if (!strcmp(fault, "cpu")) raise(SIGXCPU);
    if (!strcmp(fault, "close and hang")) {
        close(STDIN_FILENO);
        close(STDOUT_FILENO);
    }
    while (strstr(fault, "hang")) pause();
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_nobody_waits),
        cmocka_unit_test(test_a_program_that_does_not_exist),
        cmocka_unit_test(test_answers),
    };
    if (argc == 2) return misbehave(argv[1]);
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
