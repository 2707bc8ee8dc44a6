/* SPDX-License-Identifier: MIT */
/* What the client makes of the events of an answer: bytes, notes, exit status. */
#include "libcommon/cleanup.h"
#include "tests/client/peer.h"
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>

static void two_words(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_text(p, "one ");
    peer_text(p, "two");
    peer_done(p, PROTO_STOP_EOS);
}

static void with_media(struct peer *p)
{
    struct proto_media_usage media[] = {
        {PROTO_MEDIA_IMAGE, 576, false, 223.5}, {PROTO_MEDIA_SOUND, 30, true, 0}, {PROTO_MEDIA_IMAGE, 9, true, 0}};
    const struct proto_event done = {
        .type = PROTO_EV_DONE, .id = 1, .media = media, .n_media = 3, .miss_at = -1, .seed = 1};

    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_send(p, &done);
}

static void with_newline(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_text(p, "line\n");
    peer_done(p, PROTO_STOP_EOS);
}

static void length(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_text(p, "cut");
    peer_done(p, PROTO_STOP_LENGTH);
}

static void nothing(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_done(p, PROTO_STOP_EOS);
}

static void daemon_cancels(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_text(p, "some");
    peer_done(p, PROTO_STOP_CANCEL);
}

static void code(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_text(p, "So:\n``");
    peer_text(p, "`sh\nls -l");
    peer_text(p, "\n```\nThat is all.");
    peer_done(p, PROTO_STOP_EOS);
}

static void code_cut(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_text(p, "```\nls");
    peer_done(p, PROTO_STOP_EOS);
}

static void expect(struct peer_result *r, int status, const char *out, const char *err)
{
    assert_string_equal(r->err, err);
    assert_string_equal(r->out, out);
    assert_int_equal(r->status, status);
    peer_fini(r);
}

static void test_text_ends_with_one_newline(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, two_words, "hi");
    expect(&r, 0, "one two\n", "");
    PEER_RUN(&r, with_newline, "hi");
    expect(&r, 0, "line\n", "");
    PEER_RUN(&r, nothing, "hi");
    expect(&r, 0, "", "");
}

static void test_code_is_extracted(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, code, "-x", "hi");
    expect(&r, 0, "ls -l\n", "");
    PEER_RUN(&r, code_cut, "--extract", "--no-stream", "hi");
    expect(&r, 0, "ls\n", "");
    PEER_RUN(&r, two_words, "-x", "hi");
    expect(&r, 1, "", "hob: the answer has no fenced code block; run without --extract to print all of it\n");
}

static void test_raw_text_gets_none(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, two_words, "--raw", "hi");
    expect(&r, 0, "one two", "");
}

static void test_no_stream_gives_the_same(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, two_words, "--no-stream", "hi");
    expect(&r, 0, "one two\n", "");
}

static void test_cut_answer_is_noted(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, length, "hi");
    expect(&r, 0, "cut\n", "hob: answer cut after 7 tokens: limit of --max-tokens\n");
    PEER_RUN(&r, length, "-q", "hi");
    expect(&r, 0, "cut\n", "");
}

static void test_verbose_prints_usage(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, two_words, "-v", "hi");
    expect(&r, 0, "one two\n",
           "hob: prompt 11 tokens (4 cached), answer 7 tokens, first token 2 ms, total 5 ms, 2333.3 tok/s, "
           "seed 9007199254740993, energy unknown\n");
}

static void test_verbose_prints_media(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, with_media, "-v", "hi");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.err, "hob: image 1 of 2: 576 tokens, encoded in 0.2 s\n"
                                  "hob: audio 1 of 1: 30 tokens (cached)\nhob: image 2 of 2: 9 tokens (cached)\n"));
    peer_fini(&r);
}

static void test_jsonl_lines(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, two_words, "--jsonl", "hi");
    expect(&r, 0,
           "{\"event\":\"text\",\"text\":\"one \"}\n"
           "{\"event\":\"text\",\"text\":\"two\"}\n"
           "{\"event\":\"done\",\"reason\":\"stop\",\"text\":\"one two\",\"usage\":{\"prompt\":11,\"cached\":4,"
           "\"completion\":7},\"timings\":{\"queue_ms\":0.250,\"prefill_ms\":1.500,\"decode_ms\":3.000,"
           "\"ttft_ms\":2.000},\"session\":null,\"miss_at\":null,\"seed\":9007199254740993}\n",
           "");
}

static void test_end_by_the_daemon_is_no_answer(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, daemon_cancels, "hi");
    expect(&r, 69, "some", "hob: the daemon ended the answer before it was complete\n");
}

static void queued_then_busy(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_send(p, &(struct proto_event){.type = PROTO_EV_QUEUED, .id = 1, .position = 3});
    peer_error(p, EBUSY, "the queue is full (64), try again");
}

static void late_before(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_error(p, ETIMEDOUT, "deadline");
}

static void late_after(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_text(p, "word");
    peer_error(p, ETIMEDOUT, "deadline");
}

static void refused(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_error(p, EINVAL, "the prompt has 600 tokens, the context 512");
}

static void test_errors_by_code(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, queued_then_busy, "hi");
    expect(&r, 75, "", "hob: the queue is full (64), try again\n");
    PEER_RUN(&r, late_before, "hi");
    expect(&r, 75, "", "hob: deadline\n");
    PEER_RUN(&r, late_after, "hi");
    expect(&r, 1, "word", "hob: deadline\n");
    PEER_RUN(&r, refused, "-q", "hi");
    expect(&r, 1, "", "hob: the prompt has 600 tokens, the context 512\n");
}

static void test_errors_as_json(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, queued_then_busy, "--jsonl", "hi");
    expect(&r, 75,
           "{\"event\":\"queued\",\"position\":3}\n"
           "{\"event\":\"error\",\"code\":\"EBUSY\",\"message\":\"the queue is full (64), try again\"}\n",
           "hob: the queue is full (64), try again\n");
    PEER_RUN(&r, late_after, "--jsonl", "--no-stream", "hi");
    expect(&r, 1,
           "{\"event\":\"text\",\"text\":\"word\"}\n"
           "{\"event\":\"error\",\"code\":\"ETIMEDOUT\",\"message\":\"deadline\"}\n",
           "hob: deadline\n");
}

static void test_no_stream_prints_no_part_of_a_failure(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, late_after, "--no-stream", "hi");
    expect(&r, 1, "", "hob: deadline\n");
}

static void session_busy(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_error(p, EBUSY, "session 'a' is in use by another request");
}

static void queue_full(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_error(p, EBUSY, "the queue is full");
}

static void test_busy_session_names_wait(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, session_busy, "-S", "a", "hi");
    expect(&r, 75, "", "hob: session 'a' is in use by another request; use --wait to wait for it\n");
    PEER_RUN(&r, session_busy, "-c", "hi");
    expect(&r, 75, "", "hob: session 'a' is in use by another request; use --wait to wait for it\n");
    /* Who waited already is not told to, and a full queue is not waited for. */
    PEER_RUN(&r, session_busy, "-S", "a", "--wait", "hi");
    expect(&r, 75, "", "hob: session 'a' is in use by another request\n");
    PEER_RUN(&r, queue_full, "-S", "a", "hi");
    expect(&r, 75, "", "hob: the queue is full\n");
}

static void warm(struct peer *p)
{
    struct proto_request req;

    peer_expect_next(p, PROTO_HELLO);
    peer_take(p, PROTO_WARM, &req);
    assert_string_equal(req.gen.messages[0].content.data, "hi");
    proto_request_fini(&req);
    peer_hello(p);
    peer_send(p, &(struct proto_event){.type = PROTO_EV_PREFILL, .id = 1, .done = 4, .total = 11, .cached = 4});
    peer_text(p, "what no daemon should say here");
    peer_done(p, PROTO_STOP_LENGTH);
}

static void test_warm_prints_nothing(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, warm, "--warm", "hi");
    expect(&r, 0, "", "");
    PEER_RUN(&r, warm, "--warm", "-v", "hi");
    expect(&r, 0, "", "hob: prompt 11 tokens (4 cached), prefill 5 ms, energy unknown\n");
    PEER_RUN(&r, warm, "--warm", "--jsonl", "hi");
    assert_non_null(strstr(r.out, "{\"event\":\"done\","));
    assert_int_equal(r.status, 0);
    peer_fini(&r);
}

static void session_keys(struct peer *p)
{
    struct proto_request req;

    peer_expect_next(p, PROTO_HELLO);
    peer_take(p, PROTO_GENERATE, &req);
    assert_string_equal(req.gen.session.data, "old");
    assert_string_equal(req.gen.fork.data, "new");
    assert_true(req.gen.wait);
    assert_int_equal(req.gen.context, PROTO_CONTEXT_SHIFT);
    proto_request_fini(&req);
    peer_hello(p);
    peer_text(p, "fine");
    peer_done(p, PROTO_STOP_EOS);
}

static void no_session_keys(struct peer *p)
{
    struct proto_request req;

    peer_expect_next(p, PROTO_HELLO);
    peer_take(p, PROTO_GENERATE, &req);
    assert_int_equal(req.gen.session.len + req.gen.fork.len + req.gen.salt.len, 0);
    assert_true(!req.gen.wait && !req.gen.continue_last && req.gen.context == PROTO_CONTEXT_UNSET);
    proto_request_fini(&req);
    peer_hello(p);
    peer_text(p, "fine");
    peer_done(p, PROTO_STOP_EOS);
}

static void test_session_options_are_sent(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, session_keys, "-S", "old", "--fork", "new", "--wait", "--context", "shift", "hi");
    expect(&r, 0, "fine\n", "");
    PEER_RUN(&r, no_session_keys, "hi");
    expect(&r, 0, "fine\n", "");
}

static void shifted(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_text(p, "fine");
    peer_send(p, &(struct proto_event){.type = PROTO_EV_DONE,
                                       .id = 1,
                                       .usage_prompt = 300,
                                       .usage_cached = 40,
                                       .usage_completion = 1,
                                       .session = {(char *)"s", 1},
                                       .miss_at = -1,
                                       .cut.shifted = 200,
                                       .seed = 3});
}

static void test_dropped_tokens_are_reported(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, shifted, "-v", "-S", "s", "hi");
    expect(&r, 0, "fine\n",
           "hob: prompt 300 tokens (40 cached, 200 dropped), answer 1 tokens, first token 0 ms, total 0 ms, 0.0 tok/s, "
           "seed 3, session s, energy unknown\n");
    PEER_RUN(&r, shifted, "--jsonl", "-S", "s", "hi");
    assert_non_null(strstr(r.out, "\"seed\":3,\"shifted\":200}\n"));
    peer_fini(&r);
}

static void drafted(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_text(p, "fine");
    peer_send(p, &(struct proto_event){.type = PROTO_EV_DONE,
                                       .id = 1,
                                       .usage_prompt = 3,
                                       .usage_completion = 30,
                                       .usage_drafted = 25,
                                       .usage_accepted = 15,
                                       .usage_drafted_model = 7,
                                       .miss_at = -1});
}

static void test_proposed_tokens_are_reported(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, drafted, "-v", "hi");
    assert_non_null(strstr(r.err, ", drafted 25 (7 by the draft model), accepted 15 (2.0 tokens a step), seed 0"));
    peer_fini(&r);
    PEER_RUN(&r, drafted, "--jsonl", "hi");
    assert_non_null(strstr(r.out, "\"completion\":30,\"drafted\":25,\"accepted\":15,\"drafted_model\":7}"));
    peer_fini(&r);
}

static void interrupt_me(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_text(p, "wor");
    kill(p->pid, SIGINT);
    peer_expect_next(p, PROTO_CANCEL);
    peer_text(p, "d");
    peer_done(p, PROTO_STOP_CANCEL);
}

static void test_interrupt_cancels(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, interrupt_me, "hi");
    assert_int_equal(r.status, 130);
    assert_string_equal(r.err, "");
    peer_fini(&r);
}

static void test_interrupt_as_json(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, interrupt_me, "--jsonl", "hi");
    assert_int_equal(r.status, 130);
    assert_non_null(strstr(r.out, "\"reason\":\"cancel\",\"text\":\"word\""));
    peer_fini(&r);
}

/* Waits for the client to hang up. */
static void silent(struct peer *p)
{
    char c;

    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_send(p, &(struct proto_event){.type = PROTO_EV_QUEUED, .id = 1, .position = 1});
    while (read(p->fd, &c, 1) > 0) continue;
}

static void test_deadline_does_not_rely_on_the_daemon(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, silent, "--timeout", "1ms", "hi");
    expect(&r, 75, "", "hob: no answer in time\n");
}

static void test_closed_reader_ends_the_wait(void **state)
{
    struct peer_result r;
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    peer_run(&r, (const peer_script[]){silent, NULL}, ends[1], (const char *const[]){"hi", NULL});
    close(ends[1]);
    expect(&r, 0, "", "");
}

static void test_full_disk_is_one_line(void **state)
{
    struct peer_result r;
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

    assert_true(full >= 0);
    peer_run(&r, (const peer_script[]){two_words, NULL}, full, (const char *const[]){"hi", NULL});
    close(full);
    expect(&r, 1, "", "hob: standard output: No space left on device\n");
}

/* Half an answer on a terminal, then silence: what the user sees. */
static void lost(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_text(p, "half");
}

static void on_a_terminal(peer_script script, const char *arg, int status, const char *want)
{
    struct peer_result r;
    char seen[256] = "";
    int master, slave;

    assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
    peer_run(&r, (const peer_script[]){script, NULL}, slave, (const char *const[]){arg, "hi", NULL});
    peer_terminal(master, seen, sizeof seen, want);
    close(master);
    close(slave);
    assert_int_equal(r.status, status);
    assert_string_equal(seen, want);
    peer_fini(&r);
}

static void commands(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    peer_text(p, "a\033[2J\xc2\x9b"
                 "b\a\tc");
    peer_done(p, PROTO_STOP_EOS);
}

/* Control characters in an answer are text. */
static void test_no_control_characters_on_a_terminal(void **state)
{
    struct peer_result r;

    on_a_terminal(commands, "-q", 0, "a\u241b[2J\ufffdb\u2407\tc\r\n");
    on_a_terminal(commands, "--raw", 0, "a\u241b[2J\ufffdb\u2407\tc\r\n");
    on_a_terminal(commands, "--no-stream", 0, "a\u241b[2J\ufffdb\u2407\tc\r\n");
    PEER_RUN(&r, commands, "hi");
    expect(&r, 0,
           "a\033[2J\xc2\x9b"
           "b\a\tc\n",
           "");
}

static void test_terminal_gets_its_line_ended(void **state)
{
    on_a_terminal(lost, "-q", 69, "half\r\n");
    on_a_terminal(late_after, "-q", 1, "word\r\n");
    on_a_terminal(two_words, "--raw", 0, "one two\r\n");
    on_a_terminal(with_newline, "-q", 0, "line\r\n");
}

static void reads_nothing(struct peer *p)
{
    siginfo_t end;

    assert_int_equal(waitid(P_PID, (id_t)p->pid, &end, WEXITED | WNOWAIT), 0);
}

/* More than a socket takes, to a peer that does not read. */
static void test_deadline_holds_while_sending(void **state)
{
    size_t n = 4u << 20, i;
    char path[] = "/tmp/hob-test-XXXXXX", *text = malloc(n);
    struct peer_result r;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_non_null(text);
    for (i = 0; i < n; i++) text[i] = 'x';
    assert_int_equal(write(fd, text, n), n);
    PEER_RUN(&r, reads_nothing, "--timeout", "1ms", "-f", path);
    free(text);
    close(fd);
    unlink(path);
    expect(&r, 75, "", "hob: the daemon did not accept the request in time\n");
}

/* --- other channels --- */

static void think(struct peer *p, const char *text)
{
    peer_send(p, &(struct proto_event){
                     .type = PROTO_EV_TEXT, .id = 1, .channel = "thinking", .text = {(char *)text, strlen(text)}});
}

static void thoughtful(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    think(p, "hm");
    peer_text(p, "yes");
    peer_done(p, PROTO_STOP_EOS);
}

static void only_thoughtful(struct peer *p)
{
    peer_expect(p, PROTO_GENERATE);
    peer_hello(p);
    think(p, "hm");
    peer_done(p, PROTO_STOP_LENGTH);
}

static void test_reasoning(void **state)
{
    struct peer_result r;

    PEER_RUN(&r, thoughtful, "x");
    assert_string_equal(r.out, "yes\n");
    assert_int_equal(r.status, 0);
    peer_fini(&r);
    PEER_RUN(&r, thoughtful, "--jsonl", "x");
    assert_non_null(strstr(r.out, "{\"event\":\"text\",\"channel\":\"thinking\",\"text\":\"hm\"}\n"));
    assert_non_null(strstr(r.out, "\"reason\":\"stop\",\"text\":\"yes\""));
    peer_fini(&r);
    PEER_RUN(&r, only_thoughtful, "x");
    assert_string_equal(r.out, "");
    assert_non_null(strstr(r.err, ", all of them thinking: limit of --max-tokens\n"));
    peer_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_ends_with_one_newline),
        cmocka_unit_test(test_raw_text_gets_none),
        cmocka_unit_test(test_no_stream_gives_the_same),
        cmocka_unit_test(test_cut_answer_is_noted),
        cmocka_unit_test(test_verbose_prints_usage),
        cmocka_unit_test(test_verbose_prints_media),
        cmocka_unit_test(test_jsonl_lines),
        cmocka_unit_test(test_end_by_the_daemon_is_no_answer),
        cmocka_unit_test(test_errors_by_code),
        cmocka_unit_test(test_errors_as_json),
        cmocka_unit_test(test_no_stream_prints_no_part_of_a_failure),
        cmocka_unit_test(test_busy_session_names_wait),
        cmocka_unit_test(test_warm_prints_nothing),
        cmocka_unit_test(test_session_options_are_sent),
        cmocka_unit_test(test_dropped_tokens_are_reported),
        cmocka_unit_test(test_proposed_tokens_are_reported),
        cmocka_unit_test(test_interrupt_cancels),
        cmocka_unit_test(test_interrupt_as_json),
        cmocka_unit_test(test_deadline_does_not_rely_on_the_daemon),
        cmocka_unit_test(test_closed_reader_ends_the_wait),
        cmocka_unit_test(test_full_disk_is_one_line),
        cmocka_unit_test(test_code_is_extracted),
        cmocka_unit_test(test_terminal_gets_its_line_ended),
        cmocka_unit_test(test_no_control_characters_on_a_terminal),
        cmocka_unit_test(test_deadline_holds_while_sending),
        cmocka_unit_test(test_reasoning),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
