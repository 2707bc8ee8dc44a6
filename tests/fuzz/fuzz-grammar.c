/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/token-trie.h"
#include "tests/fuzz/fuzz.h"
#include "tests/text/tiny-tokenizer.h"
#include <stdlib.h>
#include <string.h>

#define TOKENS_MAX 12
#define FUZZ_SHORT 4096 /* bytes of a completion */
#define N_EXTRA    16

static struct token_trie *make_trie(void)
{
    static const char *const texts[N_EXTRA] = {"aa",
                                               "ab",
                                               "abab",
                                               "{\"",
                                               "\":",
                                               "\",",
                                               "\"}",
                                               "tru",
                                               "12",
                                               "00",
                                               "[[",
                                               "]]",
                                               "\\u",
                                               "\xc3\x83\xc2\xa9",
                                               "\xc3\xa2\xc4\xa4",
                                               "<|im_end|>"};
    struct tiny_token extra[N_EXTRA];
    struct tiny_tokenizer m = {0};
    struct tokenizer *tok;
    struct token_trie *t;
    for (int i = 0; i < N_EXTRA; i++)
        extra[i] = (struct tiny_token){texts[i], i + 1 == N_EXTRA ? TINY_CONTROL : TINY_NORMAL, 0};
    tiny_bpe(&m, "gpt-2", NULL, extra, N_EXTRA);
    if (tiny_tokenizer_new(&m, &tok) < 0 || token_trie_new(&t, tok) < 0) fuzz_fail("the vocabulary", "");
    tokenizer_free(tok);
    return t;
}

/* The mask of the state has exactly the tokens that it accepts. Returns one of them, by @choice; -1: none, or a limit.
 */
static int32_t check_mask(struct grammar_state *st, const struct token_trie *t, unsigned choice)
{
    uint64_t mask[(256 + N_EXTRA) / 64 + 1];
    int32_t in[256 + N_EXTRA];
    unsigned n = 0;
    int r = grammar_state_mask(st, t, mask);
    if (r < 0) fuzz_refused(r);
    for (int32_t id = 0; r == 0 && id < (int32_t)t->vocab; id++) {
        int accepted = grammar_state_accept_token(st, t, id);
        if (accepted < 0) return -1;
        if (accepted) grammar_state_rollback(st, 1);
        FUZZ_CHECK((int)(mask[id >> 6] >> (id & 63) & 1) == accepted);
        if (accepted && !token_trie_is_end(t, id)) in[n++] = id;
    }
    return n ? in[choice % n] : -1;
}

/* Takes the shortest completion, and checks that it is one. */
static bool complete(struct grammar_state *st, struct buf *out)
{
    size_t before = out->len;
    int r = grammar_state_shortest(st, out, FUZZ_SHORT);
    if (r < 0) return fuzz_refused(r), false;
    r = grammar_state_accept_bytes(st, out->data ? out->data + before : "", out->len - before);
    if (r < 0) return false;
    FUZZ_CHECK(r == 1 && grammar_state_is_accepted(st));
    return true;
}

static void use(struct grammar *g, const struct token_trie *t, const uint8_t *data, size_t size,
                void (*text)(const char *s, size_t n))
{
    struct grammar_state *st;
    struct buf out = BUF_INIT;
    if (grammar_state_new(&st, g) < 0) return;
    for (size_t i = 0; i < TOKENS_MAX && i < size; i++) {
        size_t len;
        int32_t id = check_mask(st, t, data[size - 1 - i]);
        if (id < 0 || grammar_state_accept_token(st, t, id) != 1) break;
        const char *s = token_trie_text(t, id, &len);
        FUZZ_CHECK(buf_append(&out, s, len) == 0);
    }
    if (complete(st, &out) && text) text(out.data ? out.data : "", out.len);
    buf_fini(&out);
    grammar_state_free(st);
}

void fuzz_grammar(struct grammar_builder *b, expr_t root, const uint8_t *data, size_t size,
                  void (*text)(const char *s, size_t n))
{
    static struct token_trie *t;
    struct grammar *g = NULL;
    if (!t) t = make_trie();
    int r = grammar_build(&g, b, root);
    grammar_builder_free(b);
    if (r < 0) {
        fuzz_refused(r);
        return;
    }
    use(g, t, data, size, text);
    grammar_unref(g);
}
