/* SPDX-License-Identifier: MIT */
/*
 * Finds the special tokens of a text. As in llama.cpp, longer tokens are found before shorter ones, each from left to
 * right in the remaining text. A control token is found only where the template wrote every byte of it.
 */
#include "daemon/text/tokenizer/vocab.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

/* True if every byte of [begin, end) is markup. */
static bool all_markup(const struct text *text, size_t begin, size_t end)
{
    size_t lo = 0, hi = text->n_spans;
    while (lo < hi) { /* finds the span that contains @begin */
        size_t mid = lo + (hi - lo) / 2;
        if (text->spans[mid].end <= begin)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < text->n_spans && text->spans[lo].markup; lo++)
        if (text->spans[lo].end >= end) return true;
    return false;
}

static bool may_stand(const struct tokenizer *t, const struct text *text, int32_t id, size_t begin, size_t end)
{
    return t->kinds[id] == TOKEN_USER || all_markup(text, begin, end);
}

/* The tokens by_text[lo .. hi) are equal up to byte @depth. Returns the end of those whose byte at @depth is at most
 * @c, or with @below, less than @c. */
static uint32_t bound(const struct tokenizer *t, uint32_t lo, uint32_t hi, uint32_t depth, unsigned c, bool below)
{
    const struct specials *sp = &t->specials;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        size_t len;
        const char *s = strings_at(&t->keys, (uint32_t)sp->ids[sp->by_text[mid]], &len);
        unsigned d = depth < len ? (unsigned char)s[depth] + 1u : 0; /* the end of a text sorts first */
        if (d < c + 1 || (d == c + 1 && !below))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Work that one text may cost, in steps of a few nanoseconds each. A text of a megabyte with all special tokens of the
 * largest known vocabularies costs a tenth of the limit. A vocabulary of thousands of overlapping tokens could cost the
 * square of the length. */
struct work {
    uint64_t left;
};

static int spend(struct work *w, uint64_t n)
{
    if (n > w->left)
        return error_say(-E2BIG, "the special tokens of this vocabulary take too long to find in this text");
    w->left -= n;
    return 0;
}

/* Marks in present[] the special tokens that occur in the text from @from on, where they are allowed. Most texts have
 * none, so this saves a search for each token. 1: some occur; 0: none; -E2BIG. */
static int find_present(const struct tokenizer *t, const struct text *text, uint32_t from, struct work *w,
                        uint8_t *present)
{
    const struct specials *sp = &t->specials;
    const char *s = text->s.data;
    uint32_t end = (uint32_t)text->s.len;
    int found = 0;
    for (uint32_t i = from; i < end; i++) {
        unsigned char c = (unsigned char)s[i];
        uint32_t lo = sp->first[c], hi = sp->first[c + 1];
        uint32_t depth = 1;
        for (; lo < hi; depth++) {
            size_t len;
            uint32_t at = sp->by_text[lo];
            strings_at(&t->keys, (uint32_t)sp->ids[at], &len);
            if (len == depth) {
                if (!present[at] && may_stand(t, text, sp->ids[at], i, i + depth)) {
                    present[at] = 1;
                    found = 1;
                }
                lo++;
            }
            if (i + depth == end) break;
            unsigned next = (unsigned char)s[i + depth];
            uint32_t first = bound(t, lo, hi, depth, next, true);
            hi = bound(t, first, hi, depth, next, false);
            lo = first;
        }
        int r = spend(w, depth);
        if (r < 0) return r;
    }
    return found;
}

struct fragments {
    struct fragment *list;
    size_t n, cap;
    struct work work;
};

/* Inserts @new behind fragment @at. *index becomes the index of the new fragment. */
static int insert(struct fragments *f, uint32_t at, struct fragment new, uint32_t *index)
{
    if (f->n == f->cap) {
        size_t cap = f->cap * 2;
        struct fragment *list = reallocarray(f->list, cap, sizeof(*list));
        if (!list) return error_origin(-ENOMEM);
        f->list = list;
        f->cap = cap;
    }
    *index = (uint32_t)f->n++;
    new.next = f->list[at].next;
    f->list[*index] = new;
    f->list[at].next = *index;
    return 0;
}

/* Finds special @id in the text fragment *at, wherever it is allowed, and splits the fragment there. *at becomes the
 * last of the resulting fragments. */
static int take(const struct tokenizer *t, const struct text *text, struct fragments *f, uint32_t *at, int32_t id)
{
    const char *s = text->s.data;
    size_t len;
    const char *needle = strings_at(&t->keys, (uint32_t)id, &len);
    uint32_t from = f->list[*at].begin;
    for (;;) {
        uint32_t begin = f->list[*at].begin, end = f->list[*at].end;
        const char *hit = end - from >= len ? memmem(s + from, end - from, needle, len) : NULL;
        int r = spend(&f->work, 1 + (hit ? (size_t)(hit - s) - from : end - from) / 16);
        if (r < 0 || !hit) return r;
        uint32_t match = (uint32_t)(hit - s), rest = match + (uint32_t)len;
        if (!may_stand(t, text, id, match, rest)) {
            from = match + 1;
            continue;
        }
        if (t->flags[id] & TOKEN_RSTRIP)
            while (rest < end && (s[rest] == ' ' || (s[rest] >= '\t' && s[rest] <= '\r'))) rest++;
        struct fragment special = {.begin = match, .end = rest, .id = id, .next = f->list[*at].next};
        if (match > begin) {
            f->list[*at].end = match;
            r = insert(f, *at, special, at);
            if (r < 0) return r;
        } else {
            f->list[*at] = special;
        }
        if (rest == end) return 0;
        r = insert(f, *at, (struct fragment){.begin = rest, .end = end, .id = -1}, at);
        if (r < 0) return r;
        from = rest;
    }
}

int special_split(const struct tokenizer *t, const struct text *text, uint32_t from, struct fragment **out)
{
    const struct specials *sp = &t->specials;
    struct fragments f = {.cap = 8, .work = {(UINT64_C(1) << 28) + 128 * (uint64_t)(text->s.len - from)}};
    *out = f.list = reallocarray(NULL, f.cap, sizeof(*f.list));
    _cleanup_(freep) uint8_t *present = calloc(sp->n + 1, 1);
    if (!f.list || !present) return error_origin(-ENOMEM);
    f.list[f.n++] = (struct fragment){.begin = from, .end = (uint32_t)text->s.len, .id = -1, .next = FRAGMENT_END};
    int r = find_present(t, text, from, &f.work, present);

    for (size_t i = 0; r > 0 && i < sp->n; i++) {
        if (!present[i]) continue;
        for (uint32_t at = 0; at != FRAGMENT_END; at = f.list[at].next) {
            if (spend(&f.work, 1) < 0) return -E2BIG;
            if (f.list[at].id >= 0) continue;
            r = take(t, text, &f, &at, sp->ids[i]);
            *out = f.list;
            if (r < 0) return r;
            r = 1;
        }
    }
    return r < 0 ? r : 0;
}
