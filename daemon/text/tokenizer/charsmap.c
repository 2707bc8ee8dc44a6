/* SPDX-License-Identifier: MIT */
#include "daemon/text/tokenizer/charsmap.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

static const char key[] = "tokenizer.ggml.precompiled_charsmap";

/* No real map replaces a text of so many bytes. A trie with a circle would match texts of any length. */
#define MATCH_MAX 256

static uint32_t offset(uint32_t unit)
{
    return unit >> 10 << ((unit >> 9 & 1) * 8);
}

static bool has_label(uint32_t unit, unsigned char c)
{
    return (unit & 0x800000ff) == c;
}

static bool is_end(uint32_t unit)
{
    return unit >> 8 & 1;
}

static uint32_t value(uint32_t unit)
{
    return unit & 0x7fffffff;
}

/* Unit @i leads to unit @base: is that in the array, and where a text ends, its replacement in the texts? */
static int check_unit(const struct charsmap *m, uint32_t i, uint32_t base)
{
    if (base >= m->n) return error_say(-EINVAL, "%s: unit %u of the trie points to unit %u of %zu", key, i, base, m->n);
    if (is_end(m->units[i]) && value(m->units[base]) >= m->n_texts)
        return error_say(-EINVAL, "%s: unit %u of the trie points to byte %u of %zu bytes of replacements", key, base,
                         value(m->units[base]), m->n_texts);
    return 0;
}

/* Checks every unit that a text can reach, once: where it leads to depends only on its own number and bits. Unit 0, the
 * root, is among them, because a text may come back to it. */
static int check_trie(const struct charsmap *m)
{
    _cleanup_(freep) uint32_t *bases = reallocarray(NULL, m->n, sizeof(*bases));
    _cleanup_(freep) uint8_t *seen = calloc(m->n, 1);
    if (!bases || !seen) return error_origin(-ENOMEM);
    size_t n = 0;
    bases[n++] = offset(m->units[0]);
    seen[0] = 1;
    int r = check_unit(m, 0, bases[0]);
    while (n && r == 0) {
        uint32_t from = bases[--n];
        for (uint32_t c = 1; c < 256 && r == 0; c++) {
            uint32_t i = from ^ c;
            if (i >= m->n || seen[i] || !has_label(m->units[i], (unsigned char)c)) continue;
            seen[i] = 1;
            bases[n] = i ^ offset(m->units[i]);
            r = check_unit(m, i, bases[n++]);
        }
    }
    return r;
}

int charsmap_init(struct charsmap *m, const struct gguf *g)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    uint32_t bytes;
    if (!kv) return 0;
    if (kv->type != GGUF_ARRAY || (kv->elem != GGUF_U8 && kv->elem != GGUF_I8))
        return error_say(-EINVAL, "%s: not an array of bytes", key);
    if (!kv->n) return 0;
    if (kv->n < sizeof(bytes))
        return error_say(-EINVAL, "%s: cut off after %llu bytes", key, (unsigned long long)kv->n);
    memcpy(&bytes, kv->value, sizeof(bytes));
    size_t rest = kv->n - sizeof(bytes);
    if (!bytes || bytes % 4 || bytes >= rest)
        return error_say(-EINVAL, "%s: a trie of %u bytes and replacements cannot be in %zu bytes", key, bytes, rest);
    m->n = bytes / 4;
    m->n_texts = rest - bytes;
    m->units = malloc(bytes);
    m->texts = malloc(m->n_texts);
    if (!m->units || !m->texts) return error_origin(-ENOMEM);
    memcpy(m->units, (const char *)kv->value + sizeof(bytes), bytes);
    memcpy(m->texts, (const char *)kv->value + sizeof(bytes) + bytes, m->n_texts);
    if (m->texts[m->n_texts - 1]) return error_say(-EINVAL, "%s: the last replacement has no end", key);
    return check_trie(m);
}

void charsmap_fini(struct charsmap *m)
{
    free(m->units);
    free(m->texts);
    *m = (struct charsmap){0};
}

size_t charsmap_match(const struct charsmap *m, const char *s, size_t len, const char **to)
{
    size_t longest = 0;
    if (!m->n) return 0;
    if (len > MATCH_MAX) len = MATCH_MAX;
    uint32_t base = offset(m->units[0]);
    for (size_t k = 0; k < len && s[k]; k++) {
        uint32_t i = base ^ (unsigned char)s[k];
        if (i >= m->n || !has_label(m->units[i], (unsigned char)s[k])) break;
        base = i ^ offset(m->units[i]);
        if (!is_end(m->units[i])) continue;
        longest = k + 1;
        *to = m->texts + value(m->units[base]);
    }
    return longest;
}
