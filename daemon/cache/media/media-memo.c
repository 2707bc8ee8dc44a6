/* SPDX-License-Identifier: MIT */
#include "daemon/cache/media/media-memo.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { SETS = 512, WAYS = 4 };

struct place {
    struct media_key key;
    struct media_fact fact;
    uint64_t added; /* 0: empty */
};

struct media_memo {
    pthread_mutex_t lock;
    uint64_t added; /* facts, ever */
    struct place places[SETS][WAYS];
};

int media_memo_new(struct media_memo **out)
{
    struct media_memo *m = calloc(1, sizeof(*m));
    if (!m) return -ENOMEM;
    pthread_mutex_init(&m->lock, NULL);
    *out = m;
    return 0;
}

struct media_memo *media_memo_free(struct media_memo *m)
{
    if (!m) return NULL;
    pthread_mutex_destroy(&m->lock);
    free(m);
    return NULL;
}

static struct place *set_of(struct media_memo *m, const struct media_key *key)
{
    uint64_t name[2];
    media_name(key, name);
    return m->places[name[0] % SETS];
}

bool media_memo_find(struct media_memo *m, const struct media_key *key, struct media_fact *out)
{
    bool found = false;
    struct place *set = set_of(m, key);
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < WAYS && !found; i++) {
        found = set[i].added && memcmp(&set[i].key, key, sizeof(*key)) == 0;
        if (found) *out = set[i].fact;
    }
    pthread_mutex_unlock(&m->lock);
    return found;
}

void media_memo_add(struct media_memo *m, const struct media_key *key, const struct media_fact *fact)
{
    struct place *set = set_of(m, key), *at = set;
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < WAYS; i++) {
        if (set[i].added < at->added) at = &set[i];
        if (set[i].added && memcmp(&set[i].key, key, sizeof(*key)) == 0) {
            at = &set[i];
            break;
        }
    }
    *at = (struct place){.key = *key, .fact = *fact, .added = ++m->added};
    pthread_mutex_unlock(&m->lock);
}

void media_file_digest(const uint8_t *data, size_t n, uint8_t out[16])
{
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits(data, n));
    memcpy(out, digest.digest, 16);
}
