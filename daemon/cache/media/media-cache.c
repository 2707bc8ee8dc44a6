/* SPDX-License-Identifier: MIT */
#include "daemon/cache/media/media-cache.h"

#define SHED_SHARE 4 /* one of so many bytes is given back */

static uint64_t bytes_of(const struct embeddings *e)
{
    return sizeof(*e) + (uint64_t)e->n * e->dim * sizeof(*e->values);
}

struct embeddings *media_cache_find(struct media_cache *c, const struct media_key *key)
{
    uint64_t name[2];
    media_name(key, name);
    struct media_entry *x = media_table_find(&c->table, name);
    if (!x) return NULL;
    media_table_use(&c->table, x);
    return embeddings_ref(x->e);
}

/* Remove entries until @bytes are free, and a place. */
static void make_room(struct media_cache *c, uint64_t bytes)
{
    struct media_table *t = &c->table;
    while (t->n && (t->n == MEDIA_ENTRIES_MAX || t->bytes > c->bytes_max - bytes))
        media_table_remove(t, media_table_victim(t));
}

void media_cache_add(struct media_cache *c, const struct media_key *key, uid_t uid, struct embeddings *e)
{
    struct media_entry x = {.uid = uid, .bytes = bytes_of(e), .e = e};
    media_name(key, x.name);
    if (x.bytes > c->bytes_max || media_table_find(&c->table, x.name)) return;
    make_room(c, x.bytes);
    (void)!media_table_add(&c->table, &x); /* without memory it is encoded again */
}

void media_cache_shed(struct media_cache *c)
{
    uint64_t want = c->table.bytes - c->table.bytes / SHED_SHARE;
    while (c->table.bytes > want) media_table_remove(&c->table, media_table_victim(&c->table));
}

void media_cache_fini(struct media_cache *c)
{
    media_table_fini(&c->table);
}
