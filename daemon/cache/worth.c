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
    return exp2(k / 2.0) - 1;
}

static uint32_t class_of(uint32_t uses)
{
    uint32_t class = uses ? uses - 1 : 0;
    return class < WORTH_CLASSES ? class : WORTH_CLASSES - 1;
}

/* Gittins' index of each age: looked for among the ends of the ages behind it. */
static void value_class(struct worth *r, uint32_t class)
{
    double hazard[WORTH_AGES];
    for (uint32_t k = 0; k < WORTH_AGES; k++) {
        double h = (r->again[class][k] + PRIOR * EVEN) / (r->alive[class][k] + PRIOR);
        hazard[k] = h < 1 ? h : 1;
    }
    for (uint32_t k = 0; k < WORTH_AGES; k++) {
        double left = 1, hits = 0, time = 0, best = 0;
        for (uint32_t j = k; j < WORTH_AGES; j++) {
            double width = age_begin(j + 1) - age_begin(j);
            time += left * width * (1 - hazard[j] / 2);
            hits += left * hazard[j];
            left *= 1 - hazard[j];
            if (hits > best * time) best = hits / time;
        }
        r->value[class][k] = best;
    }
}

void worth_init(struct worth *r)
{
    memset(r, 0, sizeof(*r));
    for (uint32_t c = 0; c < WORTH_CLASSES; c++) value_class(r, c);
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
    *s = (struct worth_sample){.key = key, .used = now, .class = (uint8_t)class_of(uses)};
    r->alive[s->class][0]++;
}

double worth_of(const struct worth *r, uint32_t uses, uint64_t age)
{
    return r->value[class_of(uses)][worth_age(age)];
}
