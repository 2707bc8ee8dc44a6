/* SPDX-License-Identifier: MIT */
/* hob embed before daemons that send what none should, or end in the middle. */
#include "tests/client/peer.h"
#include "tests/libcommon/check.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[3][64];

/* Three files, one text each. */
static int write_files(void **state)
{
    for (int i = 0; i < 3; i++) {
        snprintf(path[i], sizeof path[i], "/tmp/hob-test-embed-%d-%d", (int)getpid(), i);
        FILE *f = fopen(path[i], "w");
        if (!f) return -1;
        fprintf(f, "text %d", i);
        fclose(f);
    }
    return 0;
}

static int remove_files(void **state)
{
    for (int i = 0; i < 3; i++) unlink(path[i]);
    return 0;
}

/* The next request; checks that its texts are those from @from on. */
static uint64_t take(struct peer *p, int from)
{
    struct proto_request r;
    peer_take(p, PROTO_EMBED, &r);
    assert_int_equal(r.embed.n_texts, 3 - from);
    for (int i = from; i < 3; i++) {
        char want[16];
        snprintf(want, sizeof want, "text %d", i);
        assert_string_equal(r.embed.texts[i - from].data, want);
    }
    const uint64_t id = r.id;
    proto_request_fini(&r);
    return id;
}

static void send_vectors(struct peer *p, uint64_t id, uint32_t first, uint32_t n, uint32_t dim, float value)
{
    float values[16];
    uint32_t tokens[4] = {5, 5, 5, 5};
    for (int i = 0; i < 16; i++) values[i] = value;
    peer_send(
        p, &(struct proto_event){.type = PROTO_EV_EMBEDDINGS,
                                 .id = id,
                                 .vectors = {.first = first, .n = n, .dim = dim, .values = values, .tokens = tokens}});
}

static void send_done(struct peer *p, uint64_t id)
{
    peer_send(p, &(struct proto_event){.type = PROTO_EV_DONE, .id = id, .usage_prompt = 15, .miss_at = -1, .seed = -1});
}

static void greet(struct peer *p)
{
    peer_expect_next(p, PROTO_HELLO);
    static const char hello[] = "\x84\xa5"
                                "event\xa5hello\xa7version\x01\xa8"
                                "features\x91\xa5"
                                "embed\xa8software\xa1x";
    peer_frame(p, hello, sizeof hello - 1);
}

static void whole(struct peer *p)
{
    greet(p);
    const uint64_t id = take(p, 0);
    send_vectors(p, id, 0, 2, 2, 0.5f);
    send_vectors(p, id, 2, 1, 2, -1);
    send_done(p, id);
}

static void two_then_gone(struct peer *p)
{
    greet(p);
    send_vectors(p, take(p, 0), 0, 2, 2, 0.5f);
}

static void the_third(struct peer *p)
{
    greet(p);
    const uint64_t id = take(p, 2);
    send_vectors(p, id, 0, 1, 2, -1);
    send_done(p, id);
}

static void of_other_texts(struct peer *p)
{
    greet(p);
    send_vectors(p, take(p, 0), 1, 2, 2, 0.5f);
}

static void of_another_length(struct peer *p)
{
    greet(p);
    const uint64_t id = take(p, 0);
    send_vectors(p, id, 0, 1, 2, 0.5f);
    send_vectors(p, id, 1, 1, 3, 0.5f);
}

static void too_many(struct peer *p)
{
    greet(p);
    send_vectors(p, take(p, 0), 0, 4, 2, 0.5f);
}

static void too_few(struct peer *p)
{
    greet(p);
    const uint64_t id = take(p, 0);
    send_vectors(p, id, 0, 2, 2, 0.5f);
    send_done(p, id);
}

static void an_old_daemon(struct peer *p)
{
    peer_expect_next(p, PROTO_HELLO);
    static const char hello[] = "\x84\xa5"
                                "event\xa5hello\xa7version\x01\xa8"
                                "features\x90\xa8software\xa1x";
    peer_frame(p, hello, sizeof hello - 1);
}

static void refuses(struct peer *p)
{
    greet(p);
    take(p, 0);
    static const char *const why = "texts[1]: 900 tokens; the context holds 512";
    peer_send(p, &(struct proto_event){
                     .type = PROTO_EV_ERROR, .id = 1, .code = E2BIG, .message = {(char *)why, strlen(why)}});
}

static void run(const peer_script *scripts, int status, const char *out, const char *err)
{
    struct peer_result r;
    peer_run(&r, scripts, -1, (const char *const[]){"embed", path[0], path[1], path[2], NULL});
    assert_string_equal(r.err, err);
    assert_string_equal(r.out, out);
    assert_int_equal(r.status, status);
    peer_fini(&r);
}

#define ALL                        "0.5 0.5\n0.5 0.5\n-1 -1\n"
#define RUN(status, out, err, ...) run((const peer_script[]){__VA_ARGS__, NULL}, status, out, err)

static void test_vectors_in_pieces(void **state)
{
    RUN(0, ALL, "", whole);
}

static void test_the_rest_is_asked_of_the_next_daemon(void **state)
{
    RUN(0, ALL, "", two_then_gone, the_third);
}

static void test_wrong_answers(void **state)
{
    static const char other[] = "hob: the daemon sent vectors of other texts than expected\n";
    RUN(1, "", other, of_other_texts);
    RUN(1, "0.5 0.5\n", other, of_another_length);
    RUN(1, "", other, too_many);
    RUN(1, "0.5 0.5\n0.5 0.5\n", "hob: the daemon ended the request before its last vector\n", too_few);
    RUN(1, "", "hob: texts[1]: 900 tokens; the context holds 512\n", refuses);
    RUN(1, "", "hob: the daemon has no feature 'embed', it is older than hob; restart it\n", an_old_daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors_in_pieces),
        cmocka_unit_test(test_the_rest_is_asked_of_the_next_daemon),
        cmocka_unit_test(test_wrong_answers),
    };
    return cmocka_run_group_tests(tests, write_files, remove_files);
}
