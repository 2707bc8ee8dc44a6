/* SPDX-License-Identifier: MIT */
#include "daemon/output/call-list.h"
#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

static void call_fini(struct listed_call *c)
{
    buf_fini(&c->id);
    buf_fini(&c->name);
    buf_fini(&c->arguments);
}

void call_list_fini(struct call_list *l)
{
    for (size_t i = 0; i < l->n; i++) call_fini(&l->calls[i]);
    free(l->calls);
    *l = (struct call_list){0};
}

static int copy(struct buf *to, const struct buf *from)
{
    return from->len ? buf_append(to, from->data, from->len) : 0;
}

/* A new call at the end, empty; NULL without memory. */
static struct listed_call *append(struct call_list *l, uint32_t index)
{
    struct listed_call *calls = reallocarray(l->calls, l->n + 1, sizeof(*calls));
    if (!calls) return NULL;
    l->calls = calls;
    calls[l->n] = (struct listed_call){.index = index};
    return &calls[l->n++];
}

int call_list_clone(struct call_list *to, const struct call_list *from)
{
    *to = (struct call_list){0};
    for (size_t i = 0; i < from->n; i++) {
        const struct listed_call *f = &from->calls[i];
        struct listed_call *c = append(to, f->index);
        if (!c || copy(&c->id, &f->id) < 0 || copy(&c->name, &f->name) < 0 || copy(&c->arguments, &f->arguments) < 0) {
            call_list_fini(to);
            return -ENOMEM;
        }
        c->whole = f->whole;
    }
    return 0;
}

int call_list_add(struct call_list *l, const struct channel_call *step, const char *id)
{
    struct listed_call *c = l->n ? &l->calls[l->n - 1] : NULL;
    switch (step->step) {
    case CALL_BEGINS:
        c = append(l, step->index);
        return c && buf_puts(&c->id, id) == 0 && buf_puts(&c->name, step->name) == 0 ? 0 : -ENOMEM;
    case CALL_ARGUMENTS:
        return c && step->len ? buf_append(&c->arguments, step->text, step->len) : 0;
    case CALL_ENDS:
        if (c) c->whole = true;
        return 0;
    case CALL_WITHDRAWN:
        if (c) call_fini(c);
        if (c) l->n--;
        return 0;
    }
    return 0;
}

size_t call_list_whole(const struct call_list *l)
{
    return l->n && !l->calls[l->n - 1].whole ? l->n - 1 : l->n;
}

void call_id_make(char out[CALL_ID_BYTES + 1], uint64_t seed, uint32_t index)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    uint64_t h = XXH64(&index, sizeof(index), seed);
    for (int i = 0; i < CALL_ID_BYTES; i++, h /= 62) out[i] = digits[h % 62];
    out[CALL_ID_BYTES] = '\0';
}
