/* SPDX-License-Identifier: MIT */
/* A mask that takes long delays its own answer and no other, and changes neither. */
#include "daemon/request/mask-job.h"
#include "daemon/text/grammar/grammar.h"
#include "tests/engine/harness.h"
#include <unistd.h>

/* While it is set, the masks of jobs wait. */
static atomic_bool shut;
static atomic_uint waiting;     /* jobs that wait now */
static __thread bool is_engine; /* the engine's thread */

void __real_mask_jobs_begin(struct core *core, uint32_t n);
void __wrap_mask_jobs_begin(struct core *core, uint32_t n);

void __wrap_mask_jobs_begin(struct core *core, uint32_t n)
{
    is_engine = true;
    __real_mask_jobs_begin(core, n);
}

int __real_grammar_state_mask(struct grammar_state *st, const struct token_trie *t, uint64_t *mask);
int __wrap_grammar_state_mask(struct grammar_state *st, const struct token_trie *t, uint64_t *mask);

int __wrap_grammar_state_mask(struct grammar_state *st, const struct token_trie *t, uint64_t *mask)
{
    if (is_engine) usleep(2 * MASK_SLOW_USEC); /* masks that take long are for jobs */
    if (!is_engine) atomic_fetch_add(&waiting, 1);
    while (atomic_load(&shut) && !is_engine) usleep(100);
    if (!is_engine) atomic_fetch_sub(&waiting, 1);
    return __real_grammar_state_mask(st, t, mask);
}

static struct proto_request constrained(int64_t seed)
{
    struct proto_request r = harness_seeded(harness_story);
    r.constraint.type = PROTO_CONSTRAINT_REGEX;
    assert_int_equal(proto_text_set(&r.constraint.text, "([a-z]{3}, then ){6,}", 21), 0);
    r.gen.sampling.seed = seed;
    r.gen.max_tokens = 120;
    return r;
}

static struct proto_request endless(uint32_t tokens)
{
    struct proto_request r = harness_seeded(harness_story);
    r.gen.ignore_eos = true;
    r.gen.max_tokens = tokens;
    return r;
}

/* Masks wait from now on; returns when @n jobs do. */
static void shut_masks(struct harness *h, uint64_t id, unsigned n)
{
    atomic_store(&shut, true);
    while (atomic_load(&waiting) < n && !h->answers[id].ended) usleep(100);
    assert_int_equal(atomic_load(&waiting), n);
}

/* Two answers with masks and a free one. The masks wait until the free answer has advanced by 20 tokens, or has ended.
 */
static void others_go_on(struct harness *h, struct proto_request (*slow)(int64_t seed))
{
    struct answer *alone[3];
    uint64_t ids[3];
    for (int i = 0; i < 3; i++) {
        struct proto_request r = i < 2 ? slow(i) : endless(400);
        alone[i] = harness_run(h, &r);
        assert_int_equal(alone[i]->last.type, PROTO_EV_DONE);
    }
    for (int end = 0; end < 2; end++) {
        harness_hold(h);
        for (int i = 0; i < 3; i++) {
            struct proto_request r = i < 2 ? slow(i) : endless(400);
            ids[i] = harness_submit(h, &r);
        }
        harness_go(h);
        struct answer *free = harness_wait_texts(h, ids[2], 3);
        harness_wait_any(h, ids[0]);
        shut_masks(h, ids[0], 1);
        if (end)
            harness_wait(h, ids[2]);
        else
            harness_wait_texts(h, ids[2], free->texts + 20);
        assert_false(h->answers[ids[0]].ended);
        atomic_store(&shut, false);
        for (int i = 0; i < 3; i++) assert_same(harness_wait(h, ids[i]), alone[i]);
    }
}

static void test_others_go_on(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    others_go_on(h, constrained);
}

/* --- calls of tools in a free answer --- */

static const char caller[] =
    "{% if tools %}{{ tools | tojson }}\n{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<|im_start|>{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}</call>{% endfor %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";
static const char tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"say\",\"parameters\":{\"properties\":"
                            "{\"words\":{\"type\":\"string\",\"maxLength\":9}},\"required\":[\"words\"]}}}]";
static int64_t call_mark; /* the token that begins a call */

static int64_t id_of(const struct tokenizer *t, const char *text)
{
    for (size_t i = 0; i < tokenizer_vocab(t); i++) {
        size_t len;
        const char *s = tokenizer_piece(t, (int32_t)i, &len);
        if (len == strlen(text) && memcmp(s, text, len) == 0) return (int64_t)i;
    }
    fail_msg("no token %s", text);
    return -1;
}

static int setup_caller(void **state)
{
    struct harness *h = *state = malloc(sizeof(*h));
    struct loaded m = {0};
    struct tiny t;
    assert_non_null(h);
    tiny_init(&t);
    t.ctx = 2048;
    t.chat_template = caller;
    harness_init(h, &t);
    assert_int_equal(harness_load(&m, &t, NULL), 0);
    call_mark = id_of(m.tokenizer, "<|im_start|>");
    loaded_fini(&m);
    return 0;
}

/* A model that likes to call tools, although no call is required. */
static struct proto_request calling(int64_t seed)
{
    struct proto_request r = harness_user(NULL, "say it");
    assert_int_equal(proto_text_set(&r.tools.list, tools, sizeof(tools) - 1), 0);
    r.gen.biases = calloc(1, sizeof(*r.gen.biases));
    assert_non_null(r.gen.biases);
    r.gen.biases[0] = (struct proto_bias){.id = call_mark, .bias = 100};
    r.gen.n_biases = 1;
    r.gen.sampling.temperature = 1.5f;
    r.gen.sampling.seed = seed;
    r.gen.max_tokens = 300;
    return r;
}

static void test_others_go_on_beside_calls(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    others_go_on(h, calling);
}

/* --- */

/* The masks of one user's constraints are computed side by side, those of one constraint by one job. */
static void test_constraints_side_by_side(void **state)
{
    struct harness *h = *state;
    uint64_t ids[4];
    harness_start(h);
    harness_hold(h);
    for (int i = 0; i < 4; i++) {
        struct proto_request r = i < 3 ? constrained(i) : endless(400);
        if (i == 2) memcpy(r.constraint.text.data, "([b-y]{3}", 9);
        ids[i] = harness_submit(h, &r);
    }
    harness_go(h);
    for (int i = 0; i < 3; i++) harness_wait_texts(h, ids[i], 1);
    shut_masks(h, ids[0], 2);
    harness_wait(h, ids[3]);
    assert_int_equal(atomic_load(&waiting), 2);
    atomic_store(&shut, false);
    for (int i = 0; i < 3; i++) assert_int_equal(harness_wait(h, ids[i])->last.type, PROTO_EV_DONE);
}

/* One that is cancelled meanwhile ends at once. */
static void test_cancelled_meanwhile(void **state)
{
    struct harness *h = *state;
    uint64_t ids[2];
    harness_start(h);
    struct proto_request r = constrained(1), q = endless(400);
    harness_hold(h);
    ids[0] = harness_submit_as(h, 7, 1000, &r);
    ids[1] = harness_submit(h, &q);
    harness_go(h);
    harness_wait_texts(h, ids[0], 1);
    shut_masks(h, ids[0], 1);
    engine_cancel(h->engine, 7, ids[0]);
    assert_done(harness_wait(h, ids[0]), PROTO_STOP_CANCEL);
    assert_done(harness_wait(h, ids[1]), PROTO_STOP_LENGTH);
    atomic_store(&shut, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_others_go_on, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_others_go_on_beside_calls, setup_caller, harness_teardown),
        cmocka_unit_test_setup_teardown(test_constraints_side_by_side, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_cancelled_meanwhile, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
