/* SPDX-License-Identifier: MIT */
#include "daemon/cache/reuse.h"
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define RENEW 1024  /* uses seen, sampled or not, between two looks at the whole */
#define KEEP  0.995 /* of what was counted, at each such look */
#define PRIOR 8.0   /* samples of each class and age that are made up */
#define EVEN  0.05  /* their hazard */

uint32_t reuse_age(uint64_t age)
{
    uint64_t x = age + 1;
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(x | 1);
    /* the upper half of an octave begins at sqrt(2) times its beginning: x^2 >= 2 * 4^octave */
    bool upper = octave < 31 ? x * x >= 2ull << (2 * octave) : x >= (3037000500ull << (octave - 31));
    uint32_t k = 2 * octave + upper;
    return k < REUSE_AGES ? k : REUSE_AGES - 1;
}

static double age_begin(uint32_t k)
{
    return exp2(k / 2.0) - 1;
}

static uint32_t class_of(uint32_t uses)
{
    uint32_t class = uses ? uses - 1 : 0;
    return class < REUSE_CLASSES ? class : REUSE_CLASSES - 1;
}

/* Gittins' index of each age: looked for among the ends of the ages behind it. */
static void value_class(struct reuse *r, uint32_t class)
{
    double hazard[REUSE_AGES];
    for (uint32_t k = 0; k < REUSE_AGES; k++) {
        double h = (r->again[class][k] + PRIOR * EVEN) / (r->alive[class][k] + PRIOR);
        hazard[k] = h < 1 ? h : 1;
    }
    for (uint32_t k = 0; k < REUSE_AGES; k++) {
        double left = 1, hits = 0, time = 0, best = 0;
        for (uint32_t j = k; j < REUSE_AGES; j++) {
            double width = age_begin(j + 1) - age_begin(j);
            time += left * width * (1 - hazard[j] / 2);
            hits += left * hazard[j];
            left *= 1 - hazard[j];
            if (hits > best * time) best = hits / time;
        }
        r->value[class][k] = best;
    }
}

void reuse_init(struct reuse *r)
{
    memset(r, 0, sizeof(*r));
    for (uint32_t c = 0; c < REUSE_CLASSES; c++) value_class(r, c);
}

/* Its place, or the free one where it belongs. */
static struct reuse_sample *find(struct reuse *r, uint64_t key)
{
    uint32_t i = (uint32_t)(key >> 32) % REUSE_SAMPLES;
    while (r->samples[i].key && r->samples[i].key != key) i = (i + 1) % REUSE_SAMPLES;
    return &r->samples[i];
}

/* Close the gap, so that no search ends too early. */
static void forget(struct reuse *r, uint32_t i)
{
    r->n--;
    for (uint32_t k = i;;) {
        k = (k + 1) % REUSE_SAMPLES;
        if (!r->samples[k].key) break;
        uint32_t home = (uint32_t)(r->samples[k].key >> 32) % REUSE_SAMPLES;
        if ((k - home) % REUSE_SAMPLES < (k - i) % REUSE_SAMPLES) continue;
        r->samples[i] = r->samples[k];
        i = k;
    }
    r->samples[i].key = 0;
}

/* It was alive, and not used, up to the age that it has now. */
static void grow_old(struct reuse *r, struct reuse_sample *s, uint64_t now)
{
    uint32_t age = reuse_age(now > s->used ? now - s->used : 0);
    while (s->age < age) r->alive[s->class][++s->age]++;
}

static bool is_sampled(const struct reuse *r, uint64_t key)
{
    return key && !(key & ((1ull << r->shift) - 1));
}

static void renew(struct reuse *r, uint64_t now)
{
    r->since = 0;
    for (uint32_t i = 0; i < REUSE_SAMPLES; i++)
        if (r->samples[i].key) grow_old(r, &r->samples[i], now);
    for (uint32_t i = REUSE_SAMPLES; i-- > 0;) /* the oldest age is as good as never */
        while (r->samples[i].key && r->samples[i].age == REUSE_AGES - 1) forget(r, i);
    for (uint32_t c = 0; c < REUSE_CLASSES; c++) {
        value_class(r, c);
        for (uint32_t k = 0; k < REUSE_AGES; k++) {
            r->again[c][k] *= KEEP;
            r->alive[c][k] *= KEEP;
        }
    }
}

/* Half as many keys are looked at from now on. */
static void thin_out(struct reuse *r)
{
    r->shift += r->shift < 63;
    for (uint32_t i = REUSE_SAMPLES; i-- > 0;)
        while (r->samples[i].key && !is_sampled(r, r->samples[i].key)) forget(r, i);
}

void reuse_learn(struct reuse *r, uint64_t key, uint64_t now, uint32_t uses)
{
    if (++r->since >= RENEW) renew(r, now);
    if (!is_sampled(r, key)) return;
    struct reuse_sample *s = find(r, key);
    if (s->key) {
        grow_old(r, s, now);
        r->again[s->class][s->age]++;
    } else if (r->n >= REUSE_SAMPLES * 3 / 4) {
        thin_out(r);
        if (!is_sampled(r, key) || r->n >= REUSE_SAMPLES * 3 / 4) return;
        s = find(r, key);
    }
    r->n += s->key == 0;
    assert(r->n < REUSE_SAMPLES);
    *s = (struct reuse_sample){.key = key, .used = now, .class = (uint8_t)class_of(uses)};
    r->alive[s->class][0]++;
}

double reuse_value(const struct reuse *r, uint32_t uses, uint64_t age)
{
    return r->value[class_of(uses)][reuse_age(age)];
}
