/* SPDX-License-Identifier: MIT */
#include "daemon/text/template/jinja-arena.h"
#include <errno.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_MIN (16u << 10)
#define CHUNK_MAX (1u << 20)

struct jj_chunk {
    struct jj_chunk *next;
    size_t used, size;
    alignas(max_align_t) char data[];
};

/* Makes room for @n more bytes, with slack, so that a growing string is not moved each time. */
static int add_chunk(struct jj_arena *a, size_t n)
{
    size_t size = a->head ? a->head->size * 2 : CHUNK_MIN;
    if (size > CHUNK_MAX) size = CHUNK_MAX;
    if (n > SIZE_MAX / 2 - sizeof(struct jj_chunk)) return -E2BIG;
    if (n > size / 2) size = n + n / 2 + CHUNK_MIN;
    if (a->budget && a->budget->left < size) size = n;
    if (a->budget && a->budget->left < size) return -E2BIG;

    struct jj_chunk *c = malloc(sizeof(*c) + size);
    if (!c) return -ENOMEM;
    if (a->budget) a->budget->left -= size;
    *c = (struct jj_chunk){.next = a->head, .size = size};
    a->head = c;
    return 0;
}

static char *take(struct jj_arena *a, size_t n, size_t align, int *err)
{
    size_t used = a->head ? (a->head->used + align - 1) / align * align : 0;
    if (!a->head || used > a->head->size || a->head->size - used < n) {
        int r = add_chunk(a, n);
        if (r < 0) {
            *err = r;
            return NULL;
        }
        used = 0;
    }
    a->head->used = used + n;
    return a->head->data + used;
}

void *jj_arena_alloc(struct jj_arena *a, size_t n, int *err)
{
    char *p = take(a, n, alignof(max_align_t), err);
    return p ? memset(p, 0, n) : NULL;
}

char *jj_arena_bytes(struct jj_arena *a, size_t n, int *err)
{
    return take(a, n, 1, err);
}

bool jj_arena_resize(struct jj_arena *a, const void *p, size_t old, size_t n)
{
    struct jj_chunk *c = a->head;
    uintptr_t at = (uintptr_t)p; /* may point into another chunk: compared as a number */
    if (!c || at < (uintptr_t)c->data || at - (uintptr_t)c->data > c->used) return false;
    size_t off = at - (uintptr_t)c->data;
    if (off + old != c->used || n > c->size - off) return false;
    c->used = off + n;
    return true;
}

void jj_arena_fini(struct jj_arena *a)
{
    while (a->head) {
        struct jj_chunk *next = a->head->next;
        free(a->head);
        a->head = next;
    }
}
