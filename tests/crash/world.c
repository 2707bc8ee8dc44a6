/* SPDX-License-Identifier: MIT */
#include "tests/crash/world.h"
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BETWEEN "\x1f"

/* --- the script --- */

/* The last request of the user of a tag. */
static struct request *last_of(struct script *s, const char *tag)
{
    for (uint32_t i = s->n; i-- > 0;)
        if (strcmp(s->list[i].tag, tag) == 0) return &s->list[i];
    errx(1, "log: '%s' ends what did not begin", tag);
}

static void read_note(struct script *s, char *note, uint32_t at)
{
    const char *tag = strsep(&note, BETWEEN), *kind = strsep(&note, BETWEEN);
    if (kind && strcmp(kind, "DONE") == 0) {
        struct request *q = last_of(s, tag);
        q->answer = note;
        q->done = at;
        return;
    }
    struct request *q = &s->list[s->n++];
    *q = (struct request){.tag = tag, .begun = at, .done = UINT32_MAX};
    q->what = strsep(&note, BETWEEN);
    q->name = strsep(&note, BETWEEN);
    q->to = strsep(&note, BETWEEN);
    q->text = note;
    if (!q->text) errx(1, "log: a broken note");
}

void script_read(struct script *s, const struct history *h)
{
    *s = (struct script){.list = calloc(h->n + 1, sizeof(*s->list)), .texts = calloc(h->n + 1, sizeof(*s->texts))};
    if (!s->list || !s->texts) err(1, "script");
    for (uint32_t i = 0; i < h->n; i++) {
        const struct change *c = &h->changes[i];
        if (c->r->op != RECORD_NOTE) continue;
        char *text = s->texts[s->n_texts++] = strndup(c->bytes, c->r->bytes);
        read_note(s, text, i);
    }
}

void script_free(struct script *s)
{
    for (uint32_t i = 0; i < s->n_texts; i++) free(s->texts[i]);
    free(s->texts);
    free(s->list);
}

/* --- the sessions --- */

const struct world_session *world_find(const struct world *w, const char *name)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (strcmp(w->list[i].name, name) == 0) return &w->list[i];
    return NULL;
}

static struct world_session *get(struct world *w, const char *name)
{
    struct world_session *x = (struct world_session *)(uintptr_t)world_find(w, name);
    if (x) return x;
    if (w->n == WORLD_SESSIONS) errx(1, "too many sessions");
    x = &w->list[w->n++];
    *x = (struct world_session){.name = name};
    return x;
}

static void drop(struct world *w, const char *name)
{
    struct world_session *x = (struct world_session *)(uintptr_t)world_find(w, name);
    if (x) *x = w->list[--w->n];
}

static void apply(struct world *w, const struct request *q)
{
    const char *name = q->name;
    if (strcmp(q->what, "remove") == 0) {
        drop(w, name);
        return;
    }
    if (*q->to) {
        struct world_session copy = *get(w, name);
        copy.name = q->to;
        if (strcmp(q->what, "rename") == 0) drop(w, name);
        *get(w, q->to) = copy;
        name = q->to;
    }
    if (!strstr(q->what, "turn")) return;
    struct world_session *x = get(w, name);
    if (x->n == WORLD_TURNS) errx(1, "too many turns");
    x->texts[x->n] = q->text;
    x->answers[x->n++] = q->answer;
}

uint32_t world_at(const struct script *s, uint32_t at, struct world *before, struct world *after,
                  const struct request *open[WORLD_ANYTIME], uint32_t *n_open)
{
    uint32_t done = 0;
    before->n = *n_open = 0;
    for (uint32_t i = 0; i < s->n && s->list[i].begun < at; i++) {
        if (s->list[i].done < at) {
            apply(before, &s->list[i]);
            done++;
        } else {
            if (*n_open == WORLD_ANYTIME) errx(1, "too many requests at a time");
            open[(*n_open)++] = &s->list[i];
        }
    }
    *after = *before;
    for (uint32_t i = 0; i < *n_open; i++) apply(after, open[i]);
    return done;
}

/* --- the check --- */

bool world_same(const struct world_session *told, const struct world_session *found)
{
    if (!told || !found || told->n != found->n) return told == found;
    for (uint32_t i = 0; i < told->n; i++) {
        if (strcmp(told->texts[i], found->texts[i]) != 0) return false;
        if (told->answers[i] && strcmp(told->answers[i], found->answers[i]) != 0) return false;
    }
    return true;
}

static bool same_in(const struct world *told, const struct world *found, const struct request *q)
{
    return world_same(world_find(told, q->name), world_find(found, q->name)) &&
           (!*q->to || world_same(world_find(told, q->to), world_find(found, q->to)));
}

static bool is_about(const struct request *const *open, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(open[i]->name, name) == 0 || strcmp(open[i]->to, name) == 0) return true;
    return false;
}

static const char *wrong(const char *name, const struct world *told, const struct world *found)
{
    static char text[256];
    const struct world_session *a = world_find(told, name), *b = world_find(found, name);
    snprintf(text, sizeof(text), "session %s should have %d turns and has %d%s", name, a ? (int)a->n : -1,
             b ? (int)b->n : -1, a && b && a->n == b->n ? ", others" : "");
    return text;
}

const char *world_check(const struct script *s, uint32_t at, const struct world *found)
{
    static struct world before, after;
    const struct request *open[WORLD_ANYTIME];
    uint32_t n;
    world_at(s, at, &before, &after, open, &n);
    for (uint32_t i = 0; i < n; i++)
        if (!same_in(&before, found, open[i]) && !same_in(&after, found, open[i]))
            return wrong(open[i]->name, &before, found);
    for (uint32_t i = 0; i < before.n; i++) {
        const char *name = before.list[i].name;
        if (!is_about(open, n, name) && !world_same(&before.list[i], world_find(found, name)))
            return wrong(name, &before, found);
    }
    for (uint32_t i = 0; i < found->n; i++) {
        const char *name = found->list[i].name;
        if (!is_about(open, n, name) && !world_find(&before, name)) return wrong(name, &before, found);
    }
    return NULL;
}
