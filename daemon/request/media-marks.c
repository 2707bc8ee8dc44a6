/* SPDX-License-Identifier: MIT */
#include "daemon/request/media-marks.h"
#include "libcommon/error.h"
#include "libcommon/random.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BEGIN_BYTES = 2 + 20 + 1 /* of "[#KEY:" */ };

int media_marks_init(struct media_marks *k)
{
    *k = (struct media_marks){0};
    return random_fill(&k->key, sizeof(k->key)) ? error_say(-EIO, "no random number for the marks of images") : 0;
}

int media_marks_put(struct media_marks *k, const struct proto_message *m, size_t n, struct buf *out)
{
    const struct proto_text *text = &m->content;
    size_t from = 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < m->n_media; i++) {
        size_t at = m->media[i].at;
        if (at < from || at > text->len || (at < text->len && ((unsigned char)text->data[at] & 0xC0) == 0x80))
            return error_say(-EINVAL, "message %zu: byte %zu of the content is no place for an image", n, at);
        if (at > from) r = buf_append(out, text->data + from, at - from);
        from = at;
        if (r == 0) r = buf_printf(out, "[#%020" PRIu64 ":%zu#]", k->key, ++k->n);
    }
    return r < 0 || from == text->len ? r : buf_append(out, text->data + from, text->len - from);
}

/* The number of the mark at @p[@len], which begins with "[#KEY:", and the bytes of the mark; 0: it is cut. */
static size_t number_at(const char *p, size_t len, size_t *bytes)
{
    size_t v = 0, i = BEGIN_BYTES;
    for (; i < len && i < BEGIN_BYTES + 9 && p[i] >= '0' && p[i] <= '9'; i++) v = v * 10 + (size_t)(p[i] - '0');
    if (len - i < 2 || p[i] != '#' || p[i + 1] != ']') return 0;
    *bytes = i + 2;
    return v;
}

/* How often the text has each mark, and the places of the first k->n marks that it has. Returns whether they are in
 * order. */
static bool count(const struct media_marks *k, const struct text *t, unsigned *times, struct media_place *out)
{
    char begin[BEGIN_BYTES + 1];
    size_t at = 0, bytes, found = 0, last = 0;
    bool sorted = true;
    snprintf(begin, sizeof(begin), "[#%020" PRIu64 ":", k->key);
    while (at < t->s.len) {
        const char *p = memmem(t->s.data + at, t->s.len - at, begin, BEGIN_BYTES);
        if (!p) break;
        at = (size_t)(p - t->s.data);
        size_t number = number_at(p, t->s.len - at, &bytes);
        if (number == 0 || number > k->n) {
            at += BEGIN_BYTES;
            continue;
        }
        times[number - 1]++;
        sorted = sorted && number > last;
        last = number;
        if (found < k->n) out[found++] = (struct media_place){at, at + bytes};
        at += bytes;
    }
    return sorted;
}

int media_marks_find(const struct media_marks *k, const struct text *t, struct media_source *const *sources,
                     struct media_place *out)
{
    unsigned *times = calloc(k->n ? k->n : 1, sizeof(*times));
    if (!times) return -ENOMEM;
    bool sorted = count(k, t, times, out);
    int r = 0;
    for (size_t i = 0; r == 0 && i < k->n; i++)
        if (times[i] != 1)
            r = error_say(-EINVAL, "the chat template %s %s %zu", times[i] ? "repeats" : "drops",
                          media_kind_name(sources[i]->kind), i + 1);
    free(times);
    return r < 0 || sorted ? r : error_say(-EINVAL, "the chat template changes the order of the images");
}
