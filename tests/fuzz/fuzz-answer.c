/* SPDX-License-Identifier: MIT */
/* What a daemon sends to the client: any bytes end the answer with a status, and what is printed has no escape sequence
 * but the client's own. Byte 0: the options. */
#include "client/answer.h"
#include "client/connection.h"
#include "client/jsonl.h"
#include "libcommon/error.h"
#include "tests/fuzz/fuzz.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const fuzz_seeds[] = {NULL};

enum { SENT_MAX = 32768 };

static struct options options[8];

static void make_options(void)
{
    static char *lines[8][4] = {{"hob", "x"},
                                {"hob", "--jsonl", "x"},
                                {"hob", "--verbose", "x"},
                                {"hob", "--think", "show", "x"},
                                {"hob", "--extract", "x"},
                                {"hob", "--render", "x"},
                                {"hob", "--no-stream", "x"},
                                {"hob", "--quiet", "x"}};
    for (int i = 0; i < 8; i++) {
        int n = 0;
        while (n < 4 && lines[i][n]) n++;
        FUZZ_CHECK(options_parse(&options[i], n, lines[i]) == 0);
        FUZZ_CHECK(options_complete(&options[i], NULL) == 0);
    }
    fuzz_quiet();
    stderr = fopen("/dev/null", "we"); /* notes about the answers; a sanitizer writes to the descriptor */
    FUZZ_CHECK(stderr);
}

static void read_all(struct connection *c, const struct options *opt)
{
    struct answer a;
    struct output out;
    struct proto_event e;
    int r = 0, end = 0;
    output_init(&out, -1, false);
    answer_init(&a, opt, &out);
    for (int i = 0; i < 1000 && end == 0; i++) {
        r = connection_next(c, &e, -1, -1);
        if (r != 0) break;
        struct buf line = BUF_INIT;
        FUZZ_CHECK(jsonl_event(&line, &e, &a.parts, true, true) == 0);
        FUZZ_CHECK(!line.len || !memchr(line.data, 27, line.len));
        buf_fini(&line);
        end = answer_event(&a, &e);
        proto_event_fini(&e);
    }
    if (r < 0) {
        FUZZ_CHECK(strlen(error_text(r)) > 4);
        answer_fail(&a, r, 1);
    }
    answer_fini(&a);
    output_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct connection c;
    int fds[2];
    if (size < 1 || size > SENT_MAX) return 0;
    if (!options[0].words) make_options();
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    FUZZ_CHECK(send(fds[1], data + 1, size - 1, MSG_DONTWAIT) == (ssize_t)size - 1);
    close(fds[1]);
    connection_open(&c, fds[0]);
    read_all(&c, &options[data[0] % 8]);
    connection_close(&c);
    return 0;
}
