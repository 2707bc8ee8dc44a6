/* SPDX-License-Identifier: MIT */
/* GBNF: each construct with texts that it accepts and refuses, and each error with its place. Also tests
 * gbnf-atoms.c and rules-inline.c. */
#include "daemon/text/grammar/gbnf.h"
#include "daemon/text/grammar/grammar.h"
#include "daemon/text/grammar/token-trie.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include "tests/text/tiny-tokenizer.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int build(const char *text, const struct tokenizer *t, struct grammar **out)
{
    struct grammar_builder *b;
    expr_t root;
    assert_int_equal(grammar_builder_new(&b), 0);
    int r = gbnf_parse(b, text, strlen(text), t, &root);
    if (r == 0) r = grammar_build(out, b, root);
    grammar_builder_free(b);
    return r;
}

static bool accepts(struct grammar *g, const char *s)
{
    struct grammar_state *st;
    assert_int_equal(grammar_state_new(&st, g), 0);
    int r = grammar_state_accept_bytes(st, s, strlen(s));
    assert_true(r >= 0);
    bool in = r && grammar_state_is_accepted(st);
    grammar_state_free(st);
    return in;
}

/* Texts are parted by a line end; a text that begins with '!' is refused. */
static const struct {
    const char *grammar, *texts;
} table[] = {
    {"root ::= \"a\"", "a\n!\n!b\n!aa"},
    {"root ::= \"a\" \"b\" | \"c\"", "ab\nc\n!abc\n!b"},
    {"# comment\n\nroot ::= # here, too\n  \"a\" # and here\n\n# end", "a\n!"},
    {"root ::= (\"a\"\n  | # inside a group lines do not matter\n \"b\")\r\nx ::= \"y\"\r\n", "a\nb\n!y"},
    {"root ::= \"a\" |\n  \"b\"", "a\nb"},
    {"root ::= [a-c] [^a-c\\n] [-x] [x-]", "ad-x\nb.--\n!aa--\n!dd--"},
    {"root ::= [\\x41-\\x43\\u00e9\\U0001F600] [\\[\\]\\\\\\t\"]", "A]\n\xc3\xa9\\\n\xf0\x9f\x98\x80[\nB\"\nC\t\n!D]"},
    {"root ::= \"\\x41\\u00e9\\U0001F600\\\"\\\\[\\]\"", "A\xc3\xa9\xf0\x9f\x98\x80\"\\[]"},
    {"root ::= [a\\-c] [+\\--0]", "-.\na+\nc0\n!b-\n!c1"},
    {"root ::= rule_1 _ rule_1\nrule_1 ::= \"x\"\n_ ::= \"_\"", "x_x\n!xx\n!x_y"},
    {"root ::= \"x\" . \"x\"", "xyx\nx\xe2\x82\xacx\n!xx\n!x\xe2\x82x"},
    {"root ::= \"a\"? \"b\"* \"c\"+", "c\nac\nabbbcc\n!ab\n!aac"},
    {"root ::= \"ab\"{2} [c]{2,} (\"d\" | \"e\"){0,2} \"f\"{,}", "!"},
    {"root ::= \"ab\"{2} [c]{2,} (\"d\" | \"e\"){0,2}", "ababcc\nababcccde\n!abbcc\n!ababc\n!ababccddd"},
    {"root ::= \"a\" { 1 , 2 }", "a\naa\n!aaa"},
    {"root ::= (\"\" | \"a\")", "\na"},
    {"root ::= ", "\n!a"},
    {"root ::= one-2 | Two\none-2 ::= \"1\"\nTwo ::= one-2 \"2\"", "1\n12\n!2"},
    {"root ::= root \"+\" term | term\nterm ::= term \"*\" f | f\nf ::= [0-9] | \"(\" root \")\"",
     "1\n1+2*3\n(1+2)*3+4\n((((5))))\n!1+\n!(1\n!()"},
    {"root ::= a\na ::= b \"x\" | \"y\"\nb ::= a \"z\" | a", "y\nyx\nyzx\nyxzxx\n!yz"},
    {"root ::= a a a\na ::= \"x\" | ", "\nx\nxx\nxxx\n!xxxx"},
    {"root ::= s\ns ::= \"\" | s s | \"(\" s \")\"", "\n()\n(()())()\n!(\n!())"},
    {"root ::= \"a\" root \"b\" | \"\"", "\nab\naaabbb\n!aab\n!abb"},
    {"root ::= [a-c] root [a-c] | [a-c]", "a\nabc\nabcab\n!ab\n!"},
    {"root ::= item+\nitem ::= \"- \" [^\\r\\n\\x0b\\x0c\\x85\\u2028\\u2029]+ \"\\n\"", "!- a\n!"},
    {"root ::= word (\" \" word)*\nword ::= letter+\nletter ::= [a-z] | esc\nesc ::= \"\\\\\" [a-z]",
     "a\nab \\c d\n!a  b\n!a\\"},
    {"root ::= \"1\"\nroot ::= \"2\"", "2\n!1"},
    {"root ::= \"a\"{0}", "\n!a"},
    {"root ::= [a]*?", "\naaa\n!b"},
    /* The kinds of llama.cpp's examples: sums, moves, lists, another script, statements, JSON. */
    {"root ::= (sum \"=\" ws num \"\\n\"?)+\nsum ::= term ([-+*/] ws term)*\nterm ::= name | num | \"(\" ws sum \")\" "
     "ws\n"
     "name ::= [a-z] [a-z0-9_]* ws\nnum ::= [0-9]+ ws\nws ::= [ \\t]*",
     "1+2=3\nx * (y - 4) = 7\na=1b=2\n!1+=3\n!=3\n!(1=2"},
    {"root ::= turn+\nturn ::= [1-9] [0-9]? \". \" move \" \" move \"; \"\nmove ::= (piece | pawn | castle) [+#]?\n"
     "piece ::= [NBKQR] [a-h]? [1-8]? \"x\"? [a-h] [1-8]\npawn ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" [NBQR])?\n"
     "castle ::= \"O-O\" \"-O\"?",
     "1. e4 e5; 2. Nf3 Nc6; 3. O-O a8=Q#; \n1. Nbxd7+ axb3; \n!1. e9 e5; \n!1. e4; \n!e4 e5; "},
    {"root ::= c+ ([ \\n] c+)*\nc ::= [\\u3041-\\u309f] | [\\u30a0-\\u30ff] | [\\u3001-\\u301e] | [\\u4e00-\\u9fff]",
     "\xe3\x81\x82\xe3\x82\xa2 \xe6\x97\xa5\n!a\n!\xe3\x81\x82 \n!\xe3\x81"},
    {"root ::= (type name \"(\" \")\" \"{\" stmt* \"}\")*\ntype ::= (\"int\" | \"char\") \" \"\nname ::= [a-zA-Z_] "
     "[a-zA-Z_0-9]*\n"
     "stmt ::= type name \"=\" expr \";\" | name \"(\" (expr (\",\" expr)*)? \")\" \";\" | \"while\" \"(\" expr cmp "
     "expr \")\" \"{\" stmt* \"}\"\n"
     "cmp ::= \"<=\" | \"<\" | \"==\"\nexpr ::= atom ([-+] atom)*\natom ::= name | [0-9]+ | \"-\" atom | \"(\" expr "
     "\")\"",
     "int f(){int i=0;while(i<=-3){g(i,1+2);}}\nint f(){}char g(){}\n!int f(){i=0;}\n!int f(){int i=;}\n!f(){}"},
    {"root ::= v\nv ::= (\"{\" w (m (\",\" w m)*)? \"}\" | \"[\" w (v (\",\" w v)*)? \"]\" | s | n | \"true\" | "
     "\"null\") w\n"
     "m ::= s \":\" w v\ns ::= \"\\\"\" ([^\"\\\\\\x7f\\x00-\\x1f] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" "
     "[0-9a-fA-F]{4}))* \"\\\"\" w\n"
     "n ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15}) (\".\" [0-9]+)? ([eE] [-+]? [0-9]{1,15})?\nw ::= | \" \" | \"\\n\" [ "
     "\\t]{0,20}",
     "{\"a\": [1, -0.5e3, true], \"\\u00e9\": \"\\\"\"}\n[]\n!{a:1}\n![1,]\n!01\n!\"\\x\""},
};

static void constructs_accept_and_refuse(void **state)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct grammar *g;
        char texts[512];
        int r = build(table[i].grammar, NULL, &g);
        if (strstr(table[i].grammar, "{,}")) {
            assert_int_equal(r, -EINVAL); /* a count needs its least number */
            continue;
        }
        if (r < 0) fail_msg("%s: %s", table[i].grammar, error_text(r));
        snprintf(texts, sizeof(texts), "%s", table[i].texts);
        for (char *s = texts, *next; s; s = next) {
            next = strchr(s, '\n');
            if (next) *next++ = 0;
            bool refused = *s == '!';
            if (accepts(g, s + refused) == refused) fail_msg("%s: %s", table[i].grammar, s);
        }
        grammar_unref(g);
    }
}

static const struct {
    const char *grammar, *error;
} errors[] = {
    {"", "the grammar has no rule 'root'"},
    {"x ::= \"a\"", "the grammar has no rule 'root'"},
    {"root ::= \"a\" x\n", "line 1, column 14: the rule 'x' is not defined"},
    {"root = \"a\"", "line 1, column 6: '::=' is missing behind the name"},
    {"root ::= \"a", "line 1, column 10: the literal has no end"},
    {"root ::= \"a\n\n", "line 1, column 10: the literal has no end"},
    {"root ::= \"\xc3\xa9\" ]", "line 1, column 14: ']' does not belong here"},
    {"\n root ::= [a", "line 2, column 11: the class has no end"},
    {"root ::= []", "line 1, column 10: the class is empty"},
    {"root ::= [z-a]", "line 1, column 11: the range ends before it begins"},
    {"root ::= (\"a\"", "line 1, column 10: a group needs ')' at its end"},
    {"root ::= (\"a\" ]", "line 1, column 15: a group needs ')' at its end"},
    {"root ::= * \"a\"", "line 1, column 10: nothing stands before '*'"},
    {"root ::= \"a\"{2,1}", "line 1, column 13: the most repetitions are fewer than the least"},
    {"root ::= \"a\"{x}", "line 1, column 14: a number of repetitions is missing"},
    {"root ::= \"a\"{1", "line 1, column 13: repetitions are {m}, {m,} or {m,n}"},
    {"root ::= \"a\"{99999999}", "line 1, column 14: more than 1000000 repetitions"},
    {"root ::= \"\\q\"", "line 1, column 11: an unknown escape"},
    {"root ::= \"\\x4\"", "line 1, column 11: an escape needs 2 hexadecimal digits"},
    {"root ::= \"\\x4@\"", "line 1, column 11: an escape needs 2 hexadecimal digits"},
    {"root ::= \"\\uD800\"", "line 1, column 11: the escape is no character"},
    {"root ::= \"\xff\"", "line 1, column 11: invalid UTF-8"},
    {"root ::= <x>", "line 1, column 10: tokens need a model"},
    {"root ::= <x", "line 1, column 10: the token has no end"},
    {"root ::= !\"x\"", "line 1, column 11: '!' stands before a token only: !<text> or !<[id]>"},
    {"root ::= \"a\" root", "no text satisfies the constraint"},
    {"root ::= root", "no text satisfies the constraint"},
    {"root ::= x y\nx ::= \"a\"\ny ::= y x", "no text satisfies the constraint"},
};

static void errors_name_their_place(void **state)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct grammar *g;
        int r = build(errors[i].grammar, NULL, &g);
        assert_true(r == -EINVAL || r == -EDOM);
        assert_string_equal(error_text(r), errors[i].error);
    }
}

static void tokens_are_found_by_text_and_id(void **state)
{
    static const struct tiny_token extra[] = {
        {"<think>", TINY_CONTROL, 0}, {"</think>", TINY_CONTROL, 0}, {"<|im_end|>", TINY_CONTROL, 0}};
    struct tiny_tokenizer m = {0};
    struct tokenizer *tok;
    struct token_trie *t;
    struct grammar *g;
    struct grammar_state *st;
    tiny_bpe(&m, "gpt-2", NULL, extra, 3);
    assert_int_equal(tiny_tokenizer_new(&m, &tok), 0);
    assert_int_equal(token_trie_new(&t, tok), 0);
    assert_int_equal(build("root ::= <think> !</think>* </think> <[97]>", tok, &g), 0);
    assert_int_equal(grammar_state_new(&st, g), 0);
    assert_int_equal(grammar_state_accept_token(st, t, 257), 0);
    const int32_t ids[] = {256, 'x', 'y', 257, 'a', 258};
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(grammar_state_is_accepted(st), i == 5);
        assert_int_equal(grammar_state_accept_token(st, t, ids[i]), 1);
    }
    grammar_state_free(st);
    grammar_unref(g);
    assert_int_equal(build("root ::= <thin>", tok, &g), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "line 1, column 10: '<thin>' is not one token of the model, but 6");
    assert_int_equal(build("root ::= <[259]>", tok, &g), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "line 1, column 10: the model has no token 259");
    assert_int_equal(build("root ::= <[1x]>", tok, &g), -EINVAL);
    token_trie_free(t);
    tokenizer_free(tok);
}

/* Each rule is that of its name, before and behind its definition. */
static void many_rules(void **state)
{
    struct buf text = BUF_INIT;
    struct grammar *g;
    assert_int_equal(buf_puts(&text, "root ::= r0 r299\n"), 0);
    for (int i = 0; i < 300; i++)
        assert_int_equal(buf_printf(&text, "r%d ::= \"%d,\" r%d?\n", i, i, i % 2 ? i - 1 : i + 3), 0);
    assert_int_equal(buf_puts(&text, "r301 ::= \"!\""), 0);
    assert_int_equal(build(text.data, NULL, &g), 0);
    assert_true(accepts(g, "0,3,2,5,4,299,298,!"));
    assert_true(accepts(g, "0,299,"));
    assert_false(accepts(g, "0,1,299,"));
    grammar_unref(g);
    buf_fini(&text);
}

/* A grammar cut anywhere, or with a byte changed, is refused or built, and nothing else happens. */
static void broken_grammars_are_survived(void **state)
{
    static const char text[] =
        "root ::= (\"a\\x41\" | [^a-z\\u1234]{2,3} x*)+ # c\nx ::= root? \"b\" . | y{2}\ny ::= \"\\n\" x";
    uint64_t random = 9;
    for (size_t i = 0; i < 3000; i++) {
        char s[sizeof(text)];
        struct grammar *g;
        memcpy(s, text, sizeof(text));
        if (i < sizeof(text)) s[i] = 0;
        for (unsigned k = 0; i >= sizeof(text) && k < 1 + i % 3; k++)
            s[next_random(&random) % (sizeof(text) - 1)] = "\"\\[](){}|*+?.:=<>!# \nax1-,"[next_random(&random) % 27];
        int r = build(s, NULL, &g);
        assert_true(r == 0 || r == -EINVAL || r == -EDOM || r == -E2BIG);
        if (r == 0) accepts(g, "aAa");
        if (r == 0) grammar_unref(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constructs_accept_and_refuse),    cmocka_unit_test(errors_name_their_place),
        cmocka_unit_test(tokens_are_found_by_text_and_id), cmocka_unit_test(many_rules),
        cmocka_unit_test(broken_grammars_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
