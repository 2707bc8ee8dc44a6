/* SPDX-License-Identifier: MIT */
/* The trie against a search through all texts. */
#include "daemon/text/tokenizer/vocab.h"
#include "tests/text/tiny-tokenizer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 300, LEN = 6 };

/* Texts of a few letters, some of them not UTF-8; no two are equal. Returns their number. */
static uint32_t random_texts(struct strings *keys, uint64_t *seed)
{
    static const char letters[] = "ab\xff\x01";
    uint32_t n = 0;
    keys->off[0] = 0;
    for (int i = 0; i < N; i++) {
        char *s = keys->data + keys->off[n];
        uint32_t len = 1 + tiny_random(seed) % LEN;
        bool known = false;
        for (uint32_t k = 0; k < len; k++) s[k] = letters[tiny_random(seed) % 4];
        for (uint32_t k = 0; k < n && !known; k++) {
            size_t other;
            const char *t = strings_at(keys, k, &other);
            known = other == len && memcmp(s, t, len) == 0;
        }
        if (!known) keys->off[++n] = (uint32_t)(s - keys->data) + len;
    }
    return n;
}

static size_t slow(const struct strings *keys, uint32_t n, const char *s, size_t len, int32_t *id)
{
    size_t longest = 0;
    for (uint32_t i = 0; i < n; i += 2) { /* those that are in the trie */
        size_t l;
        const char *t = strings_at(keys, i, &l);
        if (l > len || l <= longest || memcmp(s, t, l) != 0) continue;
        longest = l;
        *id = (int32_t)i;
    }
    return longest;
}

static void longest(void **state)
{
    uint64_t seed = 4;
    char data[N * LEN], text[200];
    uint32_t off[N + 1], ids[N];
    struct strings keys = {data, off};
    for (int round = 0; round < 50; round++) {
        struct trie t = {0};
        uint32_t n = random_texts(&keys, &seed), in = 0;
        for (uint32_t i = 0; i < n; i += 2) ids[in++] = i;
        assert_int_equal(trie_init(&t, &keys, ids, in), 0);
        for (size_t i = 0; i < sizeof(text); i++) text[i] = "abb\xff\x01z"[tiny_random(&seed) % 6];
        for (size_t i = 0; i < sizeof(text); i++) {
            int32_t a = -1, b = -1;
            size_t len = trie_longest(&t, text + i, sizeof(text) - i, &a);
            assert_int_equal(len, slow(&keys, n, text + i, sizeof(text) - i, &b));
            assert_int_equal(a, b);
        }
        trie_fini(&t);
    }
}

static void empty(void **state)
{
    struct trie t = {0};
    uint32_t off[1] = {0}, ids[1];
    struct strings keys = {NULL, off};
    int32_t id = 7;
    assert_int_equal(trie_init(&t, &keys, ids, 0), 0);
    assert_int_equal(trie_longest(&t, "a", 1, &id), 0);
    assert_int_equal(id, 7);
    trie_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(longest), cmocka_unit_test(empty)};
    return cmocka_run_group_tests_name("trie", tests, NULL, NULL);
}
