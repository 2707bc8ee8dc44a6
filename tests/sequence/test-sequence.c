/* SPDX-License-Identifier: MIT */
/* The ends of an answer: the model's end token, a stop string, max_tokens, the context. */
#include "daemon/sequence/sequence.h"
#include "tests/engine/harness.h"
#include <stdio.h>

static void test_context_end(void **state)
{
    struct harness *h = *state;
    h->config.ctx = 128;
    harness_start(h);
    struct proto_request r = harness_raw(harness_story);
    r.gen.ignore_eos = true;
    r.gen.max_tokens = -1;
    struct answer *a = harness_run(h, &r);
    assert_done(a, PROTO_STOP_CONTEXT);
    assert_int_equal(a->last.usage_prompt + a->last.usage_completion, 128);
}

/* An eog token ends it: it is counted, has a logprob and no text. */
static void test_eog(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    for (int i = 0; i < 2; i++) {
        struct proto_request r = harness_raw("the");
        r.gen.sampling.temperature = 100;
        r.gen.sampling.top_k = 0;
        r.gen.sampling.top_p = 1;
        r.gen.sampling.min_p = 0;
        r.gen.sampling.seed = 3;
        r.gen.max_tokens = 2000;
        r.gen.ignore_eos = i == 1;
        struct answer *a = harness_run(h, &r);
        assert_done(a, i == 0 ? PROTO_STOP_EOS : PROTO_STOP_LENGTH);
        assert_int_equal(a->last.usage_completion, a->n);
        if (i == 1)
            assert_int_equal(a->n, 2000);
        else
            assert_true(a->n < 2000);
    }
}

static void test_stop_string(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = harness_raw(harness_story);
    r.gen.max_tokens = 40;
    struct answer *a = harness_run(h, &r);
    assert_true(a->text.len > 20);
    char stop[4] = "";
    for (size_t i = 8; i + 3 <= a->text.len && !stop[0]; i++)
        if (!((a->text.data[i] | a->text.data[i + 1] | a->text.data[i + 2]) & 0x80)) memcpy(stop, a->text.data + i, 3);
    assert_true(stop[0]);
    size_t at = (size_t)(strstr(a->text.data, stop) - a->text.data);
    r = harness_raw(harness_story);
    r.gen.max_tokens = 40;
    r.gen.n_stop = 1;
    assert_int_equal(proto_text_set(&r.gen.stop[0], stop, 3), 0);
    struct answer *b = harness_run(h, &r);
    assert_done(b, PROTO_STOP_EOS);
    assert_int_equal(b->text.len, at);
    assert_true(at == 0 || memcmp(a->text.data, b->text.data, at) == 0);
    assert_memory_equal(a->ids, b->ids, b->n * sizeof(int32_t));
}

/* --- an answer in parts --- */

enum { START, CHANNEL, MESSAGE, END, RETURN, CALL, MARKS }; /* the last tokens of the vocabulary */

/* Push tokens: each character of @what is one, digits are marks. Returns what came, "channel:text|" for each piece. */
static char *push(struct seq *s, const struct loaded *m, const char *what, int *end)
{
    static char said[256];
    said[0] = '\0';
    *end = 0;
    for (; *what && !*end; what++) {
        struct output_step out = {0};
        enum proto_reason reason;
        int32_t id = *what >= '0' && *what <= '9' ? (int32_t)m->vocab - MARKS + (*what - '0') : *what;
        *end = seq_push(s, id, &out, &reason);
        for (size_t i = 0; i < out.n; i++) {
            size_t n = strlen(said);
            snprintf(said + n, sizeof(said) - n, "%s:%s|", out.events[i].channel, out.events[i].text.data);
        }
        output_step_fini(&out);
    }
    return said;
}

static void channels(const char *what, const char *said, const char *answer, const char *stop)
{
    struct loaded m;
    struct tiny t;
    struct seq *s;
    int end;
    tiny_init(&t);
    t.harmony = true;
    assert_int_equal(harness_load(&m, &t, NULL), 0);
    struct proto_text stops = {.data = (char *)stop, .len = stop ? strlen(stop) : 0};
    struct seq *all[1];
    struct seq_group group = {.seqs = all, .n = 1, .left = 1};
    assert_int_equal(seq_new(&s, NULL, &group, 0), 0);
    const struct output_request q = {.stop = &stops, .n_stop = stop != NULL, .format = m.format};
    assert_int_equal(output_init(&s->output, m.tokenizer, &q), 0);
    s->max_tokens = 100;
    assert_string_equal(push(s, &m, what, &end), said);
    assert_int_equal(end, 1);
    assert_string_equal(s->output.answer.data ? s->output.answer.data : "", answer);
    seq_free(s);
    loaded_fini(&m);
}

static void test_parts(void **state)
{
    channels("1ana2hm301final2ok4", "thinking:h|thinking:m|answer:o|answer:k|", "ok", NULL);
    channels("ok4", "answer:o|answer:k|", "ok", NULL);
    /* text that a stop string holds back belongs to the part that it came in */
    channels("1ana2hm301final2ok4", "thinking:h|thinking:m|answer:o|answer:k|", "ok", "mo");
    channels("1ana2ho301final2oko4", "thinking:h|thinking:o|answer:ok|answer:o|", "oko", "oo");
    channels("1ana2h301final2oko4", "thinking:h|answer:o|", "o", "k");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_context_end, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_eog, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_stop_string, harness_setup, harness_teardown),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
