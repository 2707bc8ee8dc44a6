/* SPDX-License-Identifier: MIT */
#include "daemon/cache/prefix/eviction-score.h"
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define RENEW 1024  /* uses, sampled or not, after which the scores are computed again */
#define KEEP  0.995 /* factor by which counts decay then */
#define PRIOR 8.0   /* weight of the prior, in samples of each class and age */
#define EVEN  0.05  /* hazard of the prior */

uint32_t eviction_score_age(uint64_t age)
{
    uint64_t x = age + 1;
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(x | 1);
    /* The upper half of an octave begins at sqrt(2) times its start: x^2 >= 2 * 4^octave. 3037000500 is 2^31.5. */
    bool upper = octave < 31 ? x * x >= 2ull << (2 * octave) : x >= (3037000500ull << (octave - 31));
    uint32_t k = 2 * octave + upper;
    return k < SCORE_AGES ? k : SCORE_AGES - 1;
}

static double age_begin(uint32_t k)
{
    return (k % 2 ? M_SQRT2 : 1) * (double)(1ull << k / 2) - 1;
}

uint32_t eviction_score_class(uint32_t uses)
{
    uint32_t class = uses ? uses - 1 : 0;
    return class < SCORE_CLASSES ? class : SCORE_CLASSES - 1;
}

/* Computes the Gittins index of each age of a class. The maximum is taken over the ends of all later ages. Within an
 * age, a use comes after half of its width on average. */
static void value_class(struct eviction_score *r, uint32_t class)
{
    double hazard[SCORE_AGES], width[SCORE_AGES];
    for (uint32_t k = 0; k < SCORE_AGES; k++) {
        hazard[k] = (r->again[class][k] + PRIOR * EVEN) / (r->alive[class][k] + PRIOR); /* below 1: again <= alive */
        width[k] = age_begin(k + 1) - age_begin(k);
    }
    for (uint32_t k = 0; k < SCORE_AGES; k++) {
        double left = 1, hits = 0, time = 0, best = 0;
        for (uint32_t j = k; j < SCORE_AGES; j++) {
            time += left * width[j] * (1 - hazard[j] / 2);
            hits += left * hazard[j];
            left *= 1 - hazard[j];
            if (hits > best * time) best = hits / time;
        }
        r->value[class][k] = best;
    }
}

/* True: blocks of cell @a are evicted before those of cell @b. */
static bool before(const struct eviction_score *r, struct eviction_score_cell a, struct eviction_score_cell b)
{
    const double x = r->value[a.class][a.age], y = r->value[b.class][b.age];
    if (x != y) return x < y;
    return a.age != b.age ? a.age > b.age : a.class < b.class;
}

/* Insertion sort: the order changes little between two calls. */
static void sort_cells(struct eviction_score *r)
{
    for (uint32_t i = 1; i < SCORE_CELLS; i++) {
        const struct eviction_score_cell x = r->order[i];
        uint32_t k = i;
        for (; k && before(r, x, r->order[k - 1]); k--) r->order[k] = r->order[k - 1];
        r->order[k] = x;
    }
}

void eviction_score_init(struct eviction_score *r)
{
    memset(r, 0, sizeof(*r));
    for (uint32_t c = 0; c < SCORE_CLASSES; c++) value_class(r, c);
    for (uint32_t i = 0; i < SCORE_CELLS; i++)
        r->order[i] = (struct eviction_score_cell){.class = i % SCORE_CLASSES,
                                                   .age = (uint8_t)(SCORE_AGES - 1 - i / SCORE_CLASSES)};
    sort_cells(r);
}

/* The sample with @key, or the free entry for it. */
static struct eviction_score_sample *find(struct eviction_score *r, uint64_t key)
{
    uint32_t i = (uint32_t)(key >> 32) % SCORE_SAMPLES;
    while (r->samples[i].key && r->samples[i].key != key) i = (i + 1) % SCORE_SAMPLES;
    return &r->samples[i];
}

/* Removes sample @i and moves later samples into the gap, so that each search still finds them. */
static void forget(struct eviction_score *r, uint32_t i)
{
    r->n--;
    for (uint32_t k = i;;) {
        k = (k + 1) % SCORE_SAMPLES;
        if (!r->samples[k].key) break;
        uint32_t home = (uint32_t)(r->samples[k].key >> 32) % SCORE_SAMPLES;
        if ((k - home) % SCORE_SAMPLES < (k - i) % SCORE_SAMPLES) continue;
        r->samples[i] = r->samples[k];
        i = k;
    }
    r->samples[i].key = 0;
}

/* Counts the sample as alive and unused up to the age that it has now. */
static void grow_old(struct eviction_score *r, struct eviction_score_sample *s, uint64_t now)
{
    uint32_t age = eviction_score_age(now > s->used ? now - s->used : 0);
    while (s->age < age) r->alive[s->class][++s->age]++;
}

static bool is_sampled(const struct eviction_score *r, uint64_t key)
{
    return key && !(key & ((1ull << r->shift) - 1));
}

static bool is_oldest(const struct eviction_score *r, const struct eviction_score_sample *s)
{
    return s->age == SCORE_AGES - 1;
}

static bool is_left_out(const struct eviction_score *r, const struct eviction_score_sample *s)
{
    return !is_sampled(r, s->key);
}

/* Removes the samples for which @is is true. It goes backwards from a free entry, because no sample is moved over that:
 * each one that is moved was looked at before. */
static void forget_all(struct eviction_score *r,
                       bool (*is)(const struct eviction_score *r, const struct eviction_score_sample *s))
{
    uint32_t free = 0;
    while (r->samples[free].key) free++;
    for (uint32_t n = 1; n < SCORE_SAMPLES; n++) {
        const uint32_t i = (free - n) % SCORE_SAMPLES;
        if (r->samples[i].key && is(r, &r->samples[i])) forget(r, i);
    }
}

static void renew(struct eviction_score *r, uint64_t now)
{
    r->since = 0;
    for (uint32_t i = 0; i < SCORE_SAMPLES; i++)
        if (r->samples[i].key) grow_old(r, &r->samples[i], now);
    forget_all(r, is_oldest); /* such a block counts as never used again */
    for (uint32_t c = 0; c < SCORE_CLASSES; c++) {
        value_class(r, c);
        for (uint32_t k = 0; k < SCORE_AGES; k++) {
            r->again[c][k] *= KEEP;
            r->alive[c][k] *= KEEP;
        }
    }
    sort_cells(r);
}

/* Halves the share of sampled keys. */
static void thin_out(struct eviction_score *r)
{
    r->shift += r->shift < 63;
    forget_all(r, is_left_out);
}

void eviction_score_learn(struct eviction_score *r, uint64_t key, uint64_t now, uint32_t uses)
{
    if (++r->since >= RENEW) renew(r, now);
    if (!is_sampled(r, key)) return;
    struct eviction_score_sample *s = find(r, key);
    if (s->key) {
        grow_old(r, s, now);
        r->again[s->class][s->age]++;
    } else if (r->n >= SCORE_SAMPLES * 3 / 4) {
        thin_out(r);
        if (!is_sampled(r, key) || r->n >= SCORE_SAMPLES * 3 / 4) return;
        s = find(r, key);
    }
    r->n += s->key == 0;
    assert(r->n < SCORE_SAMPLES);
    *s = (struct eviction_score_sample){.key = key, .used = now, .class = (uint8_t)eviction_score_class(uses)};
    r->alive[s->class][0]++;
}

double eviction_score_of(const struct eviction_score *r, uint32_t uses, uint64_t age)
{
    return r->value[eviction_score_class(uses)][eviction_score_age(age)];
}
