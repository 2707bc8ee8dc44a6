/* SPDX-License-Identifier: MIT */
/* Where recurrent states are stored, and how many a chain keeps. */
#include "daemon/sequence/live-state.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The blocks before the first @n tokens at whose ends a state is stored, as "1t 5n ". */
static const char *stored(const struct state_plan *p, uint32_t n)
{
    static char out[4096];
    size_t len = 0;
    out[0] = '\0';
    for (uint32_t at = 0; at <= n; at += KV_BLOCK) {
        enum prefix_state_kind kind;
        if (!state_wanted(p, at, &kind)) continue;
        len += (size_t)snprintf(out + len, sizeof(out) - len, "%u%c ", at / KV_BLOCK, kind ? 't' : 'n');
    }
    return out;
}

static void test_prompt(void **state)
{
    (void)state;
    assert_string_equal(stored(&(struct state_plan){0}, 320), "");
    assert_string_equal(stored(&(struct state_plan){.prompt = 1}, 320), "");
    assert_string_equal(stored(&(struct state_plan){.prompt = 32}, 320), ""); /* the last token is computed again */
    assert_string_equal(stored(&(struct state_plan){.prompt = 33}, 320), "1t ");
    assert_string_equal(stored(&(struct state_plan){.prompt = 320 + 5}, 320), "2n 8n 10t ");
    assert_string_equal(stored(&(struct state_plan){.prompt = 320}, 320), "1n 7n 9t ");
    assert_string_equal(stored(&(struct state_plan){.prompt = 8192 + 9, .message = 8150}, 8192),
                        "128n 224n 248n 254t 256t ");
    assert_string_equal(stored(&(struct state_plan){.prompt = 400, .message = 100, .shared = 192}, 400),
                        "3t 4n 6t 10n 12t ");
    assert_string_equal(stored(&(struct state_plan){.prompt = 200, .stride = 2}, 260), "2n 4n 6t 8n ");
}

/* In an answer: 16, 32, 64, ... blocks behind the prompt. The last one moves along. */
static void test_answer(void **state)
{
    (void)state;
    assert_string_equal(stored(&(struct state_plan){.prompt = 65}, 140 * KV_BLOCK), "2t 18n 34n 66n 130n ");
}

static void test_rows(void **state)
{
    (void)state;
    static const bool want[] = {1, 1, 1, 0, 1, 0, 0, 0, 1};
    for (uint32_t i = 0; i < sizeof(want); i++) {
        assert_int_equal(state_row(i, false), want[i]);
        assert_true(state_row(i, true));
    }
}

static void test_budget(void **state)
{
    (void)state;
    const uint64_t mib = 1 << 20;
    const struct state_sizes large = {.state = 19 * mib, .block = 384 << 10, .percent = 49}; /* as qwen35 of 0.8B */
    const struct state_sizes small = {.state = 160 << 10, .block = 384 << 10, .percent = 49};
    const struct state_sizes only = {.state = 19 * mib, .percent = 49};
    assert_int_equal(state_stride(&large), 0);
    assert_int_equal(state_stride(&small), 1);
    assert_int_equal(state_stride(&(struct state_sizes){.state = 512 << 10, .block = 384 << 10, .percent = 49}), 3);
    assert_int_equal(state_stride(&only), 0);
    for (uint32_t tokens = 0; tokens < 1 << 20; tokens += 4096) {
        const uint64_t kv = tokens / KV_BLOCK * large.block, n = state_chain(&large, tokens);
        assert_true(n >= 4);
        if (tokens >= 16384) assert_true(n * large.state * 2 <= kv && (n + 1) * large.state * 100 > kv * 49);
    }
    assert_true(state_chain(&small, 8192) >= 256); /* all of them */
    assert_int_equal(state_chain(&only, 1 << 20), 8);
}

static void add(struct prompt *p, const char *text, bool markup)
{
    assert_int_equal(prompt_record(p, text, strlen(text), markup), 0);
    assert_int_equal(tokens_push(&p->tokens, 1, (uint32_t)p->text.len), 0);
}

/* The last message begins where a user's text begins that no other follows. */
static void test_message(void **state)
{
    (void)state;
    struct prompt p = {0};
    assert_int_equal(live_state_message(&p), 0);
    add(&p, "raw text", false);
    assert_int_equal(live_state_message(&p), 0);
    add(&p, "<user>", true);
    assert_int_equal(live_state_message(&p), 0);
    add(&p, "question", false);
    assert_int_equal(live_state_message(&p), 2);
    add(&p, " two", false);
    add(&p, "<assistant>", true);
    assert_int_equal(live_state_message(&p), 2);
    add(&p, "answer", false);
    assert_int_equal(live_state_message(&p), 5);
    prompt_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompt), cmocka_unit_test(test_answer),  cmocka_unit_test(test_rows),
        cmocka_unit_test(test_budget), cmocka_unit_test(test_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
