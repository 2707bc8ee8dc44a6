/* SPDX-License-Identifier: MIT */
/* Masks of strings over a vocabulary with long words and characters of several bytes, whole and cut, against the
 * acceptance of each token. Also tests byte-groups.c, mask-rest.c, relax.c and stays.c. */
#include "daemon/text/grammar/byte-groups.h"
#include "daemon/text/grammar/grammar-inside.h"
#include "daemon/text/grammar/token-trie.h"
#include "tests/libcommon/check.h"
#include "tests/text/tiny-tokenizer.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 700
#define END   (256 + WORDS)

/* Appends a byte as the BPE of GPT-2 writes it: as a character above ASCII if it is not printable. */
static void put_byte(struct buf *out, uint8_t b)
{
    uint32_t c = b;
    bool printable = (b > 0x20 && b < 0x7f) || (b > 0xa0 && b != 0xad);
    for (uint32_t i = c = printable ? b : 256; !printable && i < 256u + b; i++) {
        uint8_t before = (uint8_t)(i - 256);
        c += !((before > 0x20 && before < 0x7f) || (before > 0xa0 && before != 0xad));
    }
    if (c < 0x80)
        assert_int_equal(buf_append(out, &(char){(char)c}, 1), 0);
    else
        assert_int_equal(buf_append(out, (char[]){(char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f))}, 2), 0);
}

/* Words that share their beginnings; some are longer than RELAX_BYTES, some end inside a character, some are no UTF-8.
 */
static void put_word(struct buf *out, uint64_t *random)
{
    static const char *const pieces[] = {"a",
                                         "b",
                                         "x",
                                         "9",
                                         "0",
                                         " ",
                                         "e",
                                         "\"",
                                         "\\",
                                         "\n",
                                         "\xc3\xa9",
                                         "\xe6\x97\xa5",
                                         "\xf0\x9f\x98\x80",
                                         "\xe6",
                                         "\xf0\x9f",
                                         "\xff",
                                         "\xa0"};
    unsigned n = 2 + next_random(random) % 7, longer = next_random(random) % 10 ? 0 : 15 + next_random(random) % 50;
    unsigned same = next_random(random) % 7;
    for (unsigned i = 0; i < longer; i++) put_byte(out, (uint8_t)*pieces[next_random(random) % 12 ? same : i % 7]);
    for (unsigned i = 0; i < n; i++) {
        const char *s = pieces[i + 1 == n                      ? next_random(random) % 17
                               : next_random(random) % 100 < 4 ? 13
                                                               : next_random(random) % 13];
        for (; *s; s++) put_byte(out, (uint8_t)*s);
    }
}

static struct token_trie *make_trie(uint64_t *random)
{
    struct tiny_tokenizer m = {0};
    struct tiny_token *extra = calloc(WORDS + 1, sizeof(*extra));
    struct buf *words = calloc(WORDS, sizeof(*words));
    struct tokenizer *tok;
    struct token_trie *t;
    assert_true(extra && words);
    for (int i = 0; i < WORDS; i++) {
        for (bool again = true; again;) {
            buf_clear(&words[i]);
            put_word(&words[i], random);
            again = false;
            for (int k = 0; k < i && !again; k++)
                again = words[k].len == words[i].len && !memcmp(words[k].data, words[i].data, words[i].len);
        }
        assert_int_equal(buf_append(&words[i], "", 1), 0);
        words[i].len--;
        extra[i] = (struct tiny_token){words[i].data, TINY_NORMAL, 0};
    }
    extra[WORDS] = (struct tiny_token){"<|im_end|>", TINY_CONTROL, 0};
    tiny_bpe(&m, "gpt-2", NULL, extra, WORDS + 1);
    assert_int_equal(tiny_tokenizer_new(&m, &tok), 0);
    assert_int_equal(token_trie_new(&t, tok), 0);
    tokenizer_free(tok);
    for (int i = 0; i < WORDS; i++) buf_fini(&words[i]);
    free(words);
    free(extra);
    return t;
}

/* Compares the mask with each token. Returns a random token of the mask; -1: it is empty. */
static int32_t check_mask(struct grammar_state *st, const struct token_trie *t, uint64_t *random)
{
    uint64_t mask[END / 64 + 1];
    int32_t some = -1;
    unsigned n = 0;
    assert_int_equal(token_trie_words(t), sizeof(mask) / 8);
    assert_int_equal(grammar_state_mask(st, t, mask), 0);
    for (int32_t id = 0; id <= END; id++) {
        int r = grammar_state_accept_token(st, t, id);
        assert_int_equal(mask[id >> 6] >> (id & 63) & 1, r);
        if (r == 0) continue;
        grammar_state_rollback(st, 1);
        if (next_random(random) % ++n == 0) some = id;
    }
    return some;
}

static expr_t text(struct grammar_builder *b, const char *s)
{
    return expr_bytes(b, s, strlen(s));
}

static expr_t seq3(struct grammar_builder *b, expr_t x, expr_t y, expr_t z)
{
    return expr_seq(b, (expr_t[]){x, y, z}, 3);
}

/* The inside of a string: any characters, those that a pattern is found in, those that it is not found in, a count of
 * them, loops that share characters with what follows. */
static expr_t make_inside(struct grammar_builder *b, uint64_t *random)
{
    static const struct expr_range plain[] = {{' ', '!'}, {'#', '['}, {']', 0x10ffff}},
                                   some[] = {{'a', 'f'}, {0xe9, 0xe9}};
    uint32_t min = next_random(random) % 3, max = min + next_random(random) % 9;
    expr_t c = expr_chars(b, plain, 3), any = expr_repeat(b, c, 0, EXPR_UNLIMITED), few = expr_chars(b, some, 2);
    expr_t word = text(b, (const char *[]){"ab", "9", "\xe6\x97\xa5", "e0x"}[next_random(random) % 4]);
    expr_t found = seq3(b, any, next_random(random) % 2 ? word : expr_repeat(b, few, 1, 3), any);
    expr_t counted = expr_repeat(b, c, min, max), many = expr_repeat(b, c, 0, 10 + next_random(random) % 70);
    expr_t part =
        seq3(b, expr_repeat(b, few, 1, EXPR_UNLIMITED), text(b, next_random(random) % 2 ? " " : "0"), expr_empty(b));
    expr_t parts = seq3(b, expr_repeat(b, part, 0, 5 + next_random(random) % 40), few, expr_empty(b));
    switch (next_random(random) % 12) {
    case 0:
        return any;
    case 1:
        return found;
    case 2:
        return expr_and(b, any, expr_not(b, found));
    case 3:
        return expr_and(b, counted, found);
    case 4:
        return seq3(b, expr_repeat(b, few, min, EXPR_UNLIMITED), expr_repeat(b, c, 0, max), word);
    case 5:
        return expr_and(b, any, expr_not(b, seq3(b, word, word, any)));
    case 6:
        return expr_and(b, many, expr_not(b, found));
    case 7:
        return expr_and(b, many, parts);
    case 8:
        return parts;
    case 9:
        return seq3(b, expr_and(b, many, found), expr_repeat(b, text(b, "9"), 0, 60), expr_repeat(b, word, min, 12));
    case 10:
        return expr_and(b, many, seq3(b, any, expr_repeat(b, word, 16, 20), expr_empty(b)));
    default:
        return counted;
    }
}

static void strings_have_exact_masks(void **state)
{
    uint64_t random = 3;
    struct token_trie *t = make_trie(&random);
    for (int i = 0; i < 250; i++) {
        struct grammar_builder *b;
        struct grammar *g;
        struct grammar_state *st;
        assert_int_equal(grammar_builder_new(&b), 0);
        expr_t mark = text(b, "\""), strings[2], list = expr_rule(b);
        for (int k = 0; k < 2; k++) strings[k] = seq3(b, mark, make_inside(b, &random), mark);
        expr_t more = seq3(b, text(b, i % 3 ? "" : "\n"), expr_alt(b, strings, i % 2 + 1), list);
        expr_define(b, list, expr_alt(b, (expr_t[]){more, strings[0]}, 2));
        int r = grammar_build(&g, b, i % 5 ? list : strings[0]);
        grammar_builder_free(b);
        if (r == -EDOM) continue;
        assert_int_equal(r, 0);
        assert_int_equal(grammar_state_new(&st, g), 0);
        for (int steps = 0; steps < 7; steps++) {
            int32_t id = check_mask(st, t, &random);
            if (id < 0) break;
            assert_int_equal(grammar_state_accept_token(st, t, id), 1);
        }
        grammar_state_free(st);
        grammar_unref(g);
    }
    token_trie_free(t);
}

/* The grammar of a string, after its first two masks. */
static struct grammar *masked_string(const struct token_trie *t, struct mask_space space)
{
    static const struct expr_range plain[] = {{' ', '!'}, {'#', '['}, {']', 0x10ffff}};
    uint64_t mask[END / 64 + 1], random = 1;
    struct grammar_builder *b;
    struct grammar *g;
    struct grammar_state *st;
    assert_int_equal(grammar_builder_new(&b), 0);
    expr_t any = expr_repeat(b, expr_chars(b, plain, 3), 0, EXPR_UNLIMITED), mark = text(b, "\"");
    assert_int_equal(grammar_build(&g, b, seq3(b, mark, any, mark)), 0);
    grammar_builder_free(b);
    grammar_set_space(g, space);
    assert_int_equal(grammar_state_new(&st, g), 0);
    assert_int_equal(grammar_state_mask(st, t, mask), 0);
    assert_int_equal(grammar_state_accept_token(st, t, check_mask(st, t, &random)), 1);
    assert_int_equal(grammar_state_mask(st, t, mask), 0);
    grammar_state_free(st);
    return g;
}

static unsigned shared_parts(const struct grammar *x, const struct grammar *y)
{
    unsigned n = 0;
    for (size_t i = 0; i < x->rows.dfa.n; i++)
        for (size_t k = 0; k < y->rows.dfa.n; k++)
            n += x->rows.dfa.states[i].part && x->rows.dfa.states[i].part == y->rows.dfa.states[k].part;
    return n;
}

static void parts_are_shared_within_a_space(void **state)
{
    uint64_t random = 3;
    struct token_trie *t = make_trie(&random);
    struct grammar *mine = masked_string(t, (struct mask_space){{1, 2}}),
                   *more = masked_string(t, (struct mask_space){{1, 2}});
    struct grammar *other = masked_string(t, (struct mask_space){{1, 3}});
    assert_true(shared_parts(mine, more) > 0);
    assert_int_equal(shared_parts(mine, other), 0);
    grammar_unref(mine);
    grammar_unref(more);
    grammar_unref(other);
    token_trie_free(t);
}

static void groups_part_the_bytes(void **state)
{
    struct byte_set all = {{0}};
    uint64_t groups = 0;
    for (unsigned b = 0; b < 256; b++) {
        uint64_t one = byte_group((uint8_t)b);
        assert_int_equal(__builtin_popcountll(one), 1);
        assert_int_equal(one == GROUP_TEXT, b >= 0x80);
        groups |= one;
    }
    assert_int_equal(groups & GROUP_BAD, 0);
    byte_groups_add(groups & ~GROUP_TEXT, &all);
    assert_true(all.w[0] == UINT64_MAX && all.w[1] == UINT64_MAX && all.w[2] == 0 && all.w[3] == 0);
    static const struct {
        const char *s;
        unsigned end;
    } texts[] = {{"a", UTF8_BETWEEN},        {"\xc3\xa9", UTF8_BETWEEN}, {"\xf4\x8f\xbf\xbf", UTF8_BETWEEN},
                 {"\xe6\x97", UTF8_ONE},     {"\xf0\x9f", UTF8_TWO},     {"\xc0\x80", UTF8_BAD},
                 {"\xed\xa0\x80", UTF8_BAD}, {"\xf4\x90", UTF8_BAD},     {"\xe0\x9f", UTF8_BAD},
                 {"\x80", UTF8_BAD},         {"\xffx", UTF8_BAD}};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        unsigned at = UTF8_BETWEEN;
        for (const char *s = texts[i].s; *s; s++) at = utf8_next(at, (uint8_t)*s);
        assert_int_equal(at, texts[i].end);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_have_exact_masks),
        cmocka_unit_test(parts_are_shared_within_a_space),
        cmocka_unit_test(groups_part_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
