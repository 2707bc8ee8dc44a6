/* SPDX-License-Identifier: MIT */
/* The line about a long prompt: what it says, that it comes, that it goes. */
#include "client/progress.h"
#include "tests/client/peer.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>

static void says(uint64_t done, uint64_t total, uint64_t cached, uint64_t had, int64_t ms, unsigned width,
                 const char *want)
{
    const struct proto_event e = {.type = PROTO_EV_PREFILL, .done = done, .total = total, .cached = cached};
    char out[PROGRESS_LINE];

    assert_string_equal(progress_line(out, &e, had, ms, width), want);
}

static void test_line(void **state)
{
    says(1024, 3000, 512, 512, 3110, 80, "prefill 1024/3000 tokens (512 cached) 12 s left");
    says(1024, 3000, 0, 0, 1024, 80, "prefill 1024/3000 tokens 2 s left");
    says(512, 3000, 512, 512, 2000, 80, "prefill 512/3000 tokens (512 cached)"); /* no speed is known yet */
    says(2999, 3000, 0, 0, 1000, 80, "prefill 2999/3000 tokens 1 s left");
    says(10, 30000, 0, 0, 1000, 80, "prefill 10/30000 tokens 50 min left");
    says(1, INT64_MAX, 0, 0, 1000, 80, "prefill 1/9223372036854775807 tokens");
}

static void test_line_is_never_broken(void **state)
{
    says(1024, 3000, 512, 512, 3110, 48, "prefill 1024/3000 tokens (512 cached) 12 s left");
    says(1024, 3000, 512, 512, 3110, 47, "prefill 1024/3000 tokens 12 s left");
    says(1024, 3000, 512, 512, 3110, 34, "prefill 1024/3000");
    says(1024, 3000, 512, 512, 3110, 17, "");
    says(1024, 3000, 512, 512, 3110, 0, "");
    /* values of a malformed peer */
    says(UINT64_MAX - 1, UINT64_MAX, UINT64_MAX, 0, INT64_MAX, PROGRESS_LINE,
         "prefill 18446744073709551614/18446744073709551615 tokens (18446744073709551615 cached) 1 s left");
}

static int master;

/* What the client has written so far; waits for something when @wait. */
static size_t seen(char *text, size_t n, size_t size, bool wait)
{
    struct pollfd pfd = {.fd = master, .events = POLLIN};

    while (n + 1 < size && poll(&pfd, 1, wait ? 100 : 0) > 0) {
        ssize_t got = read(master, text + n, size - 1 - n);

        if (got <= 0) break;
        n += (size_t)got;
        wait = false;
    }
    text[n] = 0;
    return n;
}

static char early[4096];

static void prefill(struct peer *p, uint64_t done)
{
    peer_send(p, &(struct proto_event){.type = PROTO_EV_PREFILL, .id = 1, .done = done, .total = 3000, .cached = 256});
}

/* Reads until the client prints the line. */
static void read_slowly(struct peer *p)
{
    size_t n = 0;

    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    for (uint64_t done = 256; !n; done += done < 2000) {
        prefill(p, done);
        n = seen(early, 0, sizeof early, true);
    }
    prefill(p, 2500);
    while (!strstr(early, "2500/3000")) n = seen(early, n, sizeof early, true);
    prefill(p, 3000);
    peer_text(p, "word");
    peer_done(p, PROTO_STOP_EOS);
}

static void read_at_once(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    prefill(p, 256);
    prefill(p, 2000);
    prefill(p, 3000);
    peer_text(p, "word");
    peer_done(p, PROTO_STOP_EOS);
}

static void fail_slowly(struct peer *p)
{
    size_t n = 0;

    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    while (!n) {
        prefill(p, 300);
        n = seen(early, 0, sizeof early, true);
    }
    peer_error(p, EIO, "no more");
}

/* Standard error on a terminal; @both: standard output too. @late receives the output after @early. */
static void on_a_terminal(struct peer_result *r, peer_script script, bool both, char *late, size_t size,
                          const char *const *args)
{
    struct winsize size80 = {.ws_col = 80, .ws_row = 10};
    int slave;

    *early = 0;
    assert_int_equal(openpty(&master, &slave, NULL, NULL, &size80), 0);
    peer_run_on(r, (const peer_script[]){script, NULL}, both ? slave : -1, slave, args);
    seen(late, 0, size, false);
    close(slave);
    close(master);
}

#define ON_A_TERMINAL(r, script, both, late, ...)                                                                      \
    on_a_terminal((r), (script), (both), (late), sizeof(late), (const char *const[]){__VA_ARGS__, NULL})

/* What a terminal shows of one line: @text with its carriage returns obeyed, blanks at the end taken off. */
static void screen(char *line, const char *text)
{
    size_t at = 0, n = 0;

    for (; *text; text++) {
        if (*text == '\r') {
            at = 0;
        } else {
            line[at++] = *text;
            if (at > n) n = at;
        }
    }
    while (n && line[n - 1] == ' ') n--;
    line[n] = 0;
}

static void test_it_comes_and_goes(void **state)
{
    char late[4096], all[8192], line[8192];
    struct peer_result r;

    ON_A_TERMINAL(&r, read_slowly, true, late, "hi");
    screen(line, early);
    assert_int_equal(strncmp(line, "prefill 2500/3000 tokens (256 cached) ", 37), 0);
    snprintf(all, sizeof all, "%s%s", early, late);
    assert_non_null(strstr(all, "word\r\n"));
    *strstr(all, "word\r\n") = 0;
    screen(line, all);
    assert_string_equal(line, ""); /* nothing is left of it where the text begins */
    assert_int_equal(all[strlen(all) - 1], '\r');
    assert_int_equal(r.status, 0);
    peer_fini(&r);
}

static void test_it_is_not_in_the_output(void **state)
{
    char late[4096];
    struct peer_result r;

    ON_A_TERMINAL(&r, read_slowly, false, late, "--jsonl", "hi");
    assert_non_null(strstr(early, "prefill "));
    assert_null(strstr(r.out, "prefill "));
    assert_non_null(strstr(r.out, "\"done\":2500"));
    peer_fini(&r);
}

static void test_an_error_replaces_it(void **state)
{
    char late[4096], line[4096];
    struct peer_result r;

    ON_A_TERMINAL(&r, fail_slowly, false, late, "hi");
    assert_non_null(strstr(late, "\rhob: no more\r\n"));
    *strstr(late, "hob: ") = 0;
    screen(line, late);
    assert_string_equal(line, "");
    assert_int_equal(r.status, 1);
    peer_fini(&r);
}

static void test_a_short_prefill_has_no_line(void **state)
{
    char late[4096];
    struct peer_result r;

    ON_A_TERMINAL(&r, read_at_once, true, late, "-q", "hi");
    assert_string_equal(late, "word\r\n");
    peer_fini(&r);
}

/* Time is the caller's here, so none passes. */
static void test_when_it_is_shown(void **state)
{
    const struct proto_event e = {.type = PROTO_EV_PREFILL, .done = 5, .total = 10},
                             whole = {.type = PROTO_EV_PREFILL, .done = 10, .total = 10};
    struct progress p = {.on = true}, off = {.on = false};
    int out = dup(STDERR_FILENO), slave;

    assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
    dup2(slave, STDERR_FILENO);
    progress_event(&p, &e, 5000);
    progress_event(&p, &e, 5999);
    assert_int_equal(p.shown, 0);
    progress_event(&p, &whole, 9000); /* nothing is left to wait for */
    assert_int_equal(p.shown, 0);
    progress_event(&p, &e, 6000);
    progress_event(&off, &e, 5000);
    progress_event(&off, &e, 9000);
    dup2(out, STDERR_FILENO);
    assert_int_equal(p.shown, strlen("prefill 5/10 tokens"));
    assert_int_equal(off.shown, 0);
    close(out);
    close(slave);
    close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),
        cmocka_unit_test(test_line_is_never_broken),
        cmocka_unit_test(test_when_it_is_shown),
        cmocka_unit_test(test_it_comes_and_goes),
        cmocka_unit_test(test_it_is_not_in_the_output),
        cmocka_unit_test(test_an_error_replaces_it),
        cmocka_unit_test(test_a_short_prefill_has_no_line),
    };

    setenv("TERM", "dumb", 1); /* or errors have colours */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
