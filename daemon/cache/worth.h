/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What a cached block is worth: how likely it is used again, for the time it has to be kept for that. Learned from how
 * long after a use the next one came, by how often the block had been used before; no knowledge of the future, no
 * setting. Pure: the clock is the caller's (uses of anything, counted; or any other), memory is the struct's own.
 *
 * For blocks of a class (used once, twice, … WORTH_CLASSES or more times) the hazard of an age is the share of those
 * that got so old unused and were then used before they were sqrt(2) times as old. The value at an age is the largest,
 * over all times t to keep the block from now on, of P(used within t) / E(time until then, at most t): Gittins' index.
 * Where hazards fall with age that is LRU within a class; where think times make them rise first, an old block can be
 * worth more than a new one, which LRU cannot say. Until there are enough samples, hazards are as if reuse times were
 * spread evenly over the octaves: LRU.
 *
 * Uses are sampled by the block's key, also those of blocks that were evicted meanwhile: what a small cache cannot keep
 * long enough to see is learned all the same.
 */
#include <stdint.h>

#define WORTH_CLASSES 6
#define WORTH_AGES    48
#define WORTH_CELLS   (WORTH_CLASSES * WORTH_AGES)
#define WORTH_SAMPLES 4096

struct worth_sample {
    uint64_t key; /* 0: none */
    uint64_t used;
    uint8_t class, age; /* counted as alive up to this age */
};

struct worth_cell {
    uint8_t class, age;
};

struct worth {
    uint32_t shift; /* one key in 2^shift is looked at */
    uint32_t n, since;
    double again[WORTH_CLASSES][WORTH_AGES], alive[WORTH_CLASSES][WORTH_AGES];
    double value[WORTH_CLASSES][WORTH_AGES];
    struct worth_cell order[WORTH_CELLS]; /* least value first; of equal ones the older age, then the lower class */
    struct worth_sample samples[WORTH_SAMPLES];
};

void worth_init(struct worth *r);

/* The block with @key (its content's and its parents'; well mixed) is used, for the @uses-th time (1: it is new to the
 * cache). */
void worth_learn(struct worth *r, uint64_t key, uint64_t now, uint32_t uses);

/* The class of a block used @uses times: below WORTH_CLASSES. */
uint32_t worth_class(uint32_t uses);

/* The worth of a block used @uses times, @age ago: larger is better, only to be compared. */
double worth_of(const struct worth *r, uint32_t uses, uint64_t age);

/* The class of ages it falls into: of blocks of one class and age the oldest goes first. */
uint32_t worth_age(uint64_t age);
