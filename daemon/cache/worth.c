/* SPDX-License-Identifier: MIT */
#include "daemon/cache/worth.h"
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define RENEW 1024  /* uses seen, sampled or not, between two looks at the whole */
#define KEEP  0.995 /* of what was counted, at each such look */
#define PRIOR 8.0   /* samples of each class and age that are made up */
#define EVEN  0.05  /* their hazard */

uint32_t worth_age(uint64_t age)
{
    uint64_t x = age + 1;
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(x | 1);
    /* the upper half of an octave begins at sqrt(2) times its beginning: x^2 >= 2 * 4^octave */
    bool upper = octave < 31 ? x * x >= 2ull << (2 * octave) : x >= (3037000500ull << (octave - 31));
    uint32_t k = 2 * octave + upper;
    return k < WORTH_AGES ? k : WORTH_AGES - 1;
}

static double age_begin(uint32_t k)
{
    return (k % 2 ? M_SQRT2 : 1) * (double)(1ull << k / 2) - 1;
}

uint32_t worth_class(uint32_t uses)
{
    uint32_t class = uses ? uses - 1 : 0;
    return class < WORTH_CLASSES ? class : WORTH_CLASSES - 1;
}

/* Gittins' index of each age: looked for among the ends of the ages behind it. */
static void value_class(struct worth *r, uint32_t class)
{
    double hazard[WORTH_AGES], width[WORTH_AGES];
    for (uint32_t k = 0; k < WORTH_AGES; k++) {
        double h = (r->again[class][k] + PRIOR * EVEN) / (r->alive[class][k] + PRIOR);
        hazard[k] = h < 1 ? h : 1;
        width[k] = age_begin(k + 1) - age_begin(k);
    }
    for (uint32_t k = 0; k < WORTH_AGES; k++) {
        double left = 1, hits = 0, time = 0, best = 0;
        for (uint32_t j = k; j < WORTH_AGES; j++) {
            time += left * width[j] * (1 - hazard[j] / 2);
            hits += left * hazard[j];
            left *= 1 - hazard[j];
            if (hits > best * time) best = hits / time;
        }
        r->value[class][k] = best;
    }
}

/* Does @a go before @b? */
static bool before(const struct worth *r, struct worth_cell a, struct worth_cell b)
{
    const double x = r->value[a.class][a.age], y = r->value[b.class][b.age];
    if (x != y) return x < y;
    return a.age != b.age ? a.age > b.age : a.class < b.class;
}

/* By insertion: little changes from one time to the next. */
static void sort_cells(struct worth *r)
{
    for (uint32_t i = 1; i < WORTH_CELLS; i++) {
        const struct worth_cell x = r->order[i];
        uint32_t k = i;
        for (; k && before(r, x, r->order[k - 1]); k--) r->order[k] = r->order[k - 1];
        r->order[k] = x;
    }
}

void worth_init(struct worth *r)
{
    memset(r, 0, sizeof(*r));
    for (uint32_t c = 0; c < WORTH_CLASSES; c++) value_class(r, c);
    for (uint32_t i = 0; i < WORTH_CELLS; i++)
        r->order[i] =
            (struct worth_cell){.class = i % WORTH_CLASSES, .age = (uint8_t)(WORTH_AGES - 1 - i / WORTH_CLASSES)};
    sort_cells(r);
}

/* Its place, or the free one where it belongs. */
static struct worth_sample *find(struct worth *r, uint64_t key)
{
    uint32_t i = (uint32_t)(key >> 32) % WORTH_SAMPLES;
    while (r->samples[i].key && r->samples[i].key != key) i = (i + 1) % WORTH_SAMPLES;
    return &r->samples[i];
}

/* Close the gap, so that no search ends too early. */
static void forget(struct worth *r, uint32_t i)
{
    r->n--;
    for (uint32_t k = i;;) {
        k = (k + 1) % WORTH_SAMPLES;
        if (!r->samples[k].key) break;
        uint32_t home = (uint32_t)(r->samples[k].key >> 32) % WORTH_SAMPLES;
        if ((k - home) % WORTH_SAMPLES < (k - i) % WORTH_SAMPLES) continue;
        r->samples[i] = r->samples[k];
        i = k;
    }
    r->samples[i].key = 0;
}

/* It was alive, and not used, up to the age that it has now. */
static void grow_old(struct worth *r, struct worth_sample *s, uint64_t now)
{
    uint32_t age = worth_age(now > s->used ? now - s->used : 0);
    while (s->age < age) r->alive[s->class][++s->age]++;
}

static bool is_sampled(const struct worth *r, uint64_t key)
{
    return key && !(key & ((1ull << r->shift) - 1));
}

static void renew(struct worth *r, uint64_t now)
{
    r->since = 0;
    for (uint32_t i = 0; i < WORTH_SAMPLES; i++)
        if (r->samples[i].key) grow_old(r, &r->samples[i], now);
    for (uint32_t i = WORTH_SAMPLES; i-- > 0;) /* the oldest age is as good as never */
        while (r->samples[i].key && r->samples[i].age == WORTH_AGES - 1) forget(r, i);
    for (uint32_t c = 0; c < WORTH_CLASSES; c++) {
        value_class(r, c);
        for (uint32_t k = 0; k < WORTH_AGES; k++) {
            r->again[c][k] *= KEEP;
            r->alive[c][k] *= KEEP;
        }
    }
    sort_cells(r);
}

/* Half as many keys are looked at from now on. */
static void thin_out(struct worth *r)
{
    r->shift += r->shift < 63;
    for (uint32_t i = WORTH_SAMPLES; i-- > 0;)
        while (r->samples[i].key && !is_sampled(r, r->samples[i].key)) forget(r, i);
}

void worth_learn(struct worth *r, uint64_t key, uint64_t now, uint32_t uses)
{
    if (++r->since >= RENEW) renew(r, now);
    if (!is_sampled(r, key)) return;
    struct worth_sample *s = find(r, key);
    if (s->key) {
        grow_old(r, s, now);
        r->again[s->class][s->age]++;
    } else if (r->n >= WORTH_SAMPLES * 3 / 4) {
        thin_out(r);
        if (!is_sampled(r, key) || r->n >= WORTH_SAMPLES * 3 / 4) return;
        s = find(r, key);
    }
    r->n += s->key == 0;
    assert(r->n < WORTH_SAMPLES);
    *s = (struct worth_sample){.key = key, .used = now, .class = (uint8_t)worth_class(uses)};
    r->alive[s->class][0]++;
}

double worth_of(const struct worth *r, uint32_t uses, uint64_t age)
{
    return r->value[worth_class(uses)][worth_age(age)];
}
