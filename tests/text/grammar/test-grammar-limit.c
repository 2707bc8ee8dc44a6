/* SPDX-License-Identifier: MIT */
/* The memory of an owner's grammars (grammar-memory.c), and the mask cache between owners (mask-cache.c). */
#include "daemon/text/grammar/gbnf.h"
#include "daemon/text/grammar/grammar-inside.h"
#include "daemon/text/grammar/mask-cache.h"
#include "daemon/text/grammar/mask-part.h"
#include "daemon/text/grammar/token-trie.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include "tests/text/tiny-tokenizer.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP GRAMMAR_MEMORY_STEP

static struct grammar_memory *new_memory(size_t max)
{
    struct grammar_memory *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    m->refs = 1;
    m->max = max;
    return m;
}

static unsigned idle; /* steps that free_idle can free */

static bool free_idle(struct grammar_memory *m)
{
    if (!idle) return false;
    idle--;
    m->used -= STEP;
    return true;
}

static void shares_of_a_limit(void **state)
{
    struct grammar_memory *m = new_memory(4 * STEP);
    struct grammar_share a = {grammar_memory_ref(m), 0}, b = {grammar_memory_ref(m), 0}, none = {0};
    assert_true(grammar_share_cover(&none, SIZE_MAX / 2));
    assert_true(grammar_share_cover(&a, 1));
    assert_int_equal(m->used, STEP);
    assert_true(grammar_share_cover(&a, STEP));
    assert_int_equal(m->used, STEP);
    assert_true(grammar_share_cover(&b, 2 * STEP + 1));
    assert_int_equal(m->used, 4 * STEP);
    assert_false(grammar_memory_has_room(m));
    assert_true(grammar_memory_is_short(m));
    assert_false(grammar_share_cover(&a, STEP + 1));
    assert_int_equal(m->used, 4 * STEP);
    m->free_some = free_idle;
    idle = 1;
    m->used += STEP; /* of somebody else */
    assert_false(grammar_share_cover(&a, STEP + 1));
    idle = 1;
    grammar_share_trim(&b, STEP);
    assert_int_equal(m->used, 2 * STEP);
    assert_true(grammar_share_cover(&a, 3 * STEP));
    assert_int_equal(idle, 1);
    assert_int_equal(m->used, 4 * STEP);
    grammar_share_close(&a);
    grammar_share_close(&b);
    assert_int_equal(m->used, 0);
    assert_int_equal(grammar_memory_error(m), -EDQUOT);
    grammar_memory_unref(m);
}

static int build(struct grammar_memory *m, const struct tokenizer *tok, const char *text, struct grammar **out)
{
    struct grammar_builder *b;
    expr_t root;
    assert_int_equal(grammar_builder_new(&b), 0);
    grammar_builder_set_memory(b, m);
    int r = gbnf_parse(b, text, strlen(text), tok, &root);
    if (r == 0) r = grammar_build(out, b, root);
    grammar_builder_free(b);
    return r;
}

static struct tokenizer *make_tokenizer(void)
{
    struct tiny_tokenizer m = {0};
    struct tokenizer *tok;
    tiny_bpe(&m, "gpt-2", NULL, (const struct tiny_token[]){{"<|im_end|>", TINY_CONTROL, 0}}, 1);
    assert_int_equal(tiny_tokenizer_new(&m, &tok), 0);
    return tok;
}

/* A text that nests deeper and deeper needs a row for each byte. At the limit it is not accepted, and nothing changes;
 * it is accepted when the memory of others is free again. */
static void a_grammar_does_not_grow_over_its_limit(void **state)
{
    struct grammar_memory *m = new_memory((size_t)1 << 20);
    struct tokenizer *tok = make_tokenizer();
    struct grammar *g;
    struct grammar_state *st, *other;
    assert_int_equal(build(m, tok, "root ::= \"(\" root \")\" | \"[\" root \"]\" | \"x\"", &g), 0);
    assert_int_equal(grammar_state_new(&st, g), 0);
    assert_int_equal(grammar_state_new(&other, g), 0);
    int r = 1;
    for (int i = 0; i < 500 && r == 1; i++) r = grammar_state_accept_bytes(other, "[", 1);
    size_t n = 0;
    while (n < 100000 && (r = grammar_state_accept_bytes(st, "(", 1)) == 1) n++;
    assert_int_equal(r, -EDQUOT);
    assert_non_null(strstr(error_text(r), "this user's requests need more than 1 MiB"));
    assert_true(m->used <= m->max);
    assert_true(n > 100);
    assert_int_equal(grammar_state_accepts(st), n);
    grammar_state_free(other);
    for (int i = 0; i < 200; i++) assert_int_equal(grammar_state_accept_bytes(st, "(", 1), 1);
    grammar_state_free(st);
    grammar_unref(g);
    assert_int_equal(m->used, 0);
    assert_int_equal(m->refs, 1);
    assert_int_equal(build(m, tok, "root ::= [a-z]{1,900} [b-y]{1,900} \"x\" | \"y\" [a-z]{900}", &g), 0);
    grammar_unref(g);
    m->max = STEP - 1;
    assert_int_equal(build(m, tok, "root ::= [a-z]{1,900} [b-y]{1,900} \"x\" | \"y\" [a-z]{900}", &g), -EDQUOT);
    assert_int_equal(m->used, 0);
    grammar_memory_unref(m);
    tokenizer_free(tok);
}

/* A part is charged once, whoever holds it; over the limit no further one is made. */
static void parts_are_charged(void **state)
{
    struct grammar_memory *m = new_memory((size_t)8 << 20);
    struct tokenizer *tok = make_tokenizer();
    struct token_trie *t;
    struct grammar *g[2];
    struct grammar_state *st[2];
    uint64_t mask[8];
    size_t used[2];
    assert_int_equal(token_trie_new(&t, tok), 0);
    assert_true(token_trie_words(t) <= 8);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(build(m, tok, "root ::= [^x]* \"x\"", &g[i]), 0);
        assert_int_equal(grammar_state_new(&st[i], g[i]), 0);
        size_t before = m->used;
        assert_int_equal(grammar_state_mask(st[i], t, mask), 0);
        used[i] = m->used - before;
    }
    assert_true(used[0] > used[1]);
    struct grammar_memory *full = new_memory(1);
    struct grammar *h;
    full->max = (size_t)1 << 20;
    assert_int_equal(build(full, tok, "root ::= [^y]* \"y\"", &h), 0);
    full->max = full->used;
    struct grammar_state *s;
    assert_int_equal(grammar_state_new(&s, h), 0);
    assert_int_equal(grammar_state_mask(s, t, mask), -EDQUOT);
    full->max = (size_t)1 << 20;
    assert_int_equal(grammar_state_mask(s, t, mask), 0);
    grammar_state_free(s);
    grammar_unref(h);
    for (int i = 0; i < 2; i++) {
        grammar_state_free(st[i]);
        grammar_unref(g[i]);
    }
    assert_true(m->used > 0 && m->cached > 0); /* parts are in the cache yet */
    token_trie_free(t);
    assert_true(m->used == 0 && m->cached == 0 && full->used == 0);
    grammar_memory_unref(m);
    grammar_memory_unref(full);
    tokenizer_free(tok);
}

/* A part of about 2 MiB, which is not allocated. */
static void put(struct mask_cache *c, struct grammar_memory *m, const char *key)
{
    struct mask_part *p = calloc(1, sizeof(*p));
    assert_non_null(p);
    p->refs = 1;
    p->words = 1 << 18;
    p->memory = grammar_memory_ref(m);
    m->used += mask_part_bytes(p);
    mask_cache_put(c, key, strlen(key), p);
    mask_part_unref(p);
}

static bool has(struct mask_cache *c, const char *key)
{
    struct mask_part *p = mask_cache_get(c, key, strlen(key));
    mask_part_unref(p);
    return p;
}

static void many_parts_evict_their_own(void **state)
{
    struct grammar_memory *few = new_memory(SIZE_MAX), *many = new_memory(SIZE_MAX);
    struct mask_cache *c;
    char key[16];
    assert_int_equal(mask_cache_new(&c), 0);
    put(c, few, "few 1");
    put(c, few, "few 2");
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "many %d", i);
        put(c, many, key);
    }
    assert_true(has(c, "few 1") && has(c, "few 2") && has(c, "many 99"));
    assert_false(has(c, "many 0"));
    assert_true(many->cached + few->cached <= MASK_CACHE_BYTES);
    assert_true(many->used <= many->cached && many->used > MASK_CACHE_BYTES / 2);
    for (int i = 0; i < 100; i++) { /* an even share of the cache, but no more */
        snprintf(key, sizeof(key), "few %d", i);
        put(c, few, key);
    }
    assert_true(has(c, "many 99") && has(c, "few 99"));
    assert_true(many->cached > MASK_CACHE_BYTES / 3 && few->cached > MASK_CACHE_BYTES / 3);
    assert_true(mask_cache_evict(c, few));
    while (mask_cache_evict(c, few)) assert_true(has(c, "many 99"));
    assert_true(few->cached == 0 && few->used == 0);
    assert_true(has(c, "many 99"));
    mask_cache_free(c);
    assert_true(many->refs == 1 && few->refs == 1);
    grammar_memory_unref(few);
    grammar_memory_unref(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_of_a_limit),
        cmocka_unit_test(a_grammar_does_not_grow_over_its_limit),
        cmocka_unit_test(parts_are_charged),
        cmocka_unit_test(many_parts_evict_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
