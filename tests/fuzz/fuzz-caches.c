/* SPDX-License-Identifier: MIT */
/* A script of calls of the eviction score, of the cache of embeddings and of the memo of files: scores keep their
 * order, the cache its bound, and what is found is what was added. */
#include "daemon/cache/media/media-cache.h"
#include "daemon/cache/media/media-memo.h"
#include "daemon/cache/prefix/eviction-score.h"
#include "libcommon/hex.h"
#include "tests/fuzz/fuzz.h"
#include "tests/libcommon/check.h"
#include <math.h>
#include <string.h>

const char *const fuzz_seeds[] = {
    "hex:00ff0100ff01400080ff10",
    "hex:00f005020040ff20006000f0031000f0ff",
    "hex:02010203030102040203010202410281028102c1",
    "hex:010101000141010201430181",
    NULL,
};

enum { STEPS_MAX = 100, LEARN_MAX = 600, BYTES_MAX = 4096, FACTS = 64 };

static struct {
    struct eviction_score score;
    uint64_t now;
    struct media_cache cache;
    struct media_memo *memo;
    uint32_t facts[FACTS]; /* the width of the last one added; 0: none */
} s;

static void check_score(void)
{
    double before = 0;
    FUZZ_CHECK(s.score.n <= SCORE_SAMPLES * 3 / 4);
    for (unsigned i = 0; i < SCORE_CELLS; i++) {
        const struct eviction_score_cell *c = &s.score.order[i];
        const double v = s.score.value[c->class][c->age];
        FUZZ_CHECK(isfinite(v) && v > 0 && v >= before);
        before = v;
    }
}

/* Uses of some blocks, again and again, or of new ones. */
static void learn(struct fuzz_input *in)
{
    unsigned n = fuzz_byte(in) * 8, how = fuzz_byte(in), steps = fuzz_byte(in);
    uint64_t random = how;
    if (!s.score.value[0][0]) eviction_score_init(&s.score);
    for (unsigned i = 0; i < n && i < LEARN_MAX; i++) {
        uint64_t key = next_random(&random);
        if (how & 1) key = (key % (1 + how)) * 0x9e3779b97f4a7c15;
        s.now += how & 2 ? (uint64_t)1 << steps % 40 : steps;
        eviction_score_learn(&s.score, key, s.now, 1 + i % (1 + how % 9));
    }
    FUZZ_CHECK(eviction_score_of(&s.score, how, s.now >> steps % 64) > 0);
    check_score();
}

static void cache(struct fuzz_input *in)
{
    unsigned how = fuzz_byte(in), which = fuzz_byte(in);
    const struct media_key key = {{(uint8_t)(how % 2)}, {(uint8_t)(which % 64)}};
    const float value = (float)(which % 64 * 2 + how % 2);
    if (how & 64) {
        struct embeddings *e;
        FUZZ_CHECK(embeddings_new(&e, 1 + which % 16, 1 + how / 4 % 16) == 0);
        e->values[0] = value;
        media_cache_add(&s.cache, &key, 1000 + how % 5, e);
        embeddings_unref(e);
    } else if (how & 128) {
        media_cache_shed(&s.cache);
    }
    struct embeddings *e = media_cache_find(&s.cache, &key);
    if (e) FUZZ_CHECK(e->values[0] == value);
    embeddings_unref(e);
    FUZZ_CHECK(s.cache.table.bytes <= BYTES_MAX);
}

static void memo(struct fuzz_input *in)
{
    unsigned how = fuzz_byte(in), which = how % FACTS;
    struct media_key key = {.namespace = {(uint8_t)which}};
    struct media_fact fact = {.kind = (enum media_kind)(1 + how % 2)};
    media_file_digest((const uint8_t *)&which, sizeof(which), key.digest);
    if (how & 64) {
        fact.width = s.facts[which] = 1 + fuzz_byte(in);
        media_memo_add(s.memo, &key, &fact);
    }
    if (media_memo_find(s.memo, &key, &fact)) FUZZ_CHECK(s.facts[which] && fact.width == s.facts[which]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    memset(&s, 0, sizeof(s));
    s.cache.bytes_max = BYTES_MAX;
    FUZZ_CHECK(media_memo_new(&s.memo) == 0);
    for (int i = 0; i < STEPS_MAX && in.n; i++) {
        switch (fuzz_byte(&in) % 4) {
        case 0:
            learn(&in);
            break;
        case 1:
            memo(&in);
            break;
        default:
            cache(&in);
        }
    }
    media_cache_fini(&s.cache);
    media_memo_free(s.memo);
    return 0;
}
