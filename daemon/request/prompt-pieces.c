/* SPDX-License-Identifier: MIT */
#include "daemon/request/prompt-pieces.h"
#include "daemon/encoder/encoder-layout.h"
#include "daemon/request/source-plan.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* --- lists --- */

int prompt_sources_add(struct prompt_sources *l, struct media_source *s)
{
    struct media_source **list = reallocarray(l->list, l->n + 1, sizeof(*list));
    if (!list) {
        media_source_unref(s);
        return -ENOMEM;
    }
    l->list = list;
    list[l->n++] = s;
    return 0;
}

void prompt_sources_fini(struct prompt_sources *l)
{
    for (size_t i = 0; i < l->n; i++) media_source_unref(l->list[i]);
    free(l->list);
    *l = (struct prompt_sources){0};
}

void prompt_pieces_fini(struct prompt_pieces *p)
{
    free(p->list);
    free(p->runs);
    *p = (struct prompt_pieces){0};
}

/* Nothing for an empty piece. */
static int add_piece(struct prompt_pieces *p, struct prompt_piece piece)
{
    if (piece.end == (p->n ? p->list[p->n - 1].end : 0)) return 0;
    if ((p->n & (p->n - 1)) == 0) { /* the array grows at powers of two */
        struct prompt_piece *list = reallocarray(p->list, p->n ? 2 * p->n : 1, sizeof(*list));
        if (!list) return -ENOMEM;
        p->list = list;
    }
    p->list[p->n++] = piece;
    return 0;
}

int prompt_pieces_text(struct prompt_pieces *p, size_t len)
{
    return add_piece(p, (struct prompt_piece){.end = len});
}

/* --- images and sounds --- */

/* Of run @i of @n of an image or a sound. */
static struct item_run run_of(const struct media_source *s, const struct encoder *e, uint32_t i, uint32_t n)
{
    struct item_run run = {.kind = s->kind == MEDIA_SOUND ? ITEM_SOUND : ITEM_IMAGE};
    struct {
        uint8_t pixels[MEDIA_DIGEST], identity[ENCODER_IDENTITY], index[4], count[4];
    } key;
    XXH128_canonical_t digest;
    memcpy(key.pixels, s->digest, sizeof(key.pixels));
    encoder_identity(e, key.identity);
    for (int b = 0; b < 4; b++) {
        key.index[b] = (uint8_t)(i >> (8 * b));
        key.count[b] = (uint8_t)(n >> (8 * b));
    }
    XXH128_canonicalFromHash(&digest, XXH3_128bits(&key, sizeof(key)));
    memcpy(run.digest, digest.digest, sizeof(run.digest));
    return run;
}

static int append_part(struct prompt_pieces *p, struct text *out, const struct encoder_part *part, struct item_run run)
{
    const char *s = part->text ? part->text : PROMPT_RUN_TEXT;
    int r = text_append(out, s, strlen(s), true);
    run.n = part->n;
    return r < 0 ? r : add_piece(p, (struct prompt_piece){out->s.len, part->text ? (struct item_run){0} : run});
}

static int append_media(struct prompt_pieces *p, const struct encoder *e, const struct media_source *s,
                        struct text *out, uint32_t *runs)
{
    _cleanup_(encoder_layout_fini) struct encoder_layout layout = {0};
    struct encoder_plan plan;
    uint32_t n = 0;
    int r = source_plan(e, s, &plan);
    if (r == 0) r = encoder_layout(e, &plan, &layout);
    for (uint32_t i = 0; r == 0 && i < layout.n; i++) n += !layout.parts[i].text;
    *runs = 0;
    for (uint32_t i = 0; r == 0 && i < layout.n; i++) {
        struct item_run run = {0};
        if (!layout.parts[i].text) run = run_of(s, e, (*runs)++, n);
        run.columns = layout.parts[i].text ? 0 : (uint16_t)plan.grid_columns;
        r = append_part(p, out, &layout.parts[i], run);
    }
    return r;
}

int prompt_pieces_place(struct prompt_pieces *p, const struct encoder *e, const struct prompt_sources *sources,
                        const struct media_marks *marks, const struct text *in, struct text *out)
{
    _cleanup_(freep) struct media_place *places = calloc(sources->n ? sources->n : 1, sizeof(*places));
    p->runs = calloc(sources->n ? sources->n : 1, sizeof(*p->runs));
    if (!places || !p->runs) return -ENOMEM;
    int r = media_marks_find(marks, in, sources->list, places);
    size_t at = 0;
    for (size_t i = 0; r == 0 && i <= sources->n; i++) {
        size_t to = i < sources->n ? places[i].begin : in->s.len;
        r = text_append_range(out, in, at, to);
        if (r == 0) r = add_piece(p, (struct prompt_piece){.end = out->s.len});
        if (r < 0 || i == sources->n) break;
        at = places[i].end;
        r = append_media(p, e, sources->list[i], out, &p->runs[i]);
    }
    return r;
}
