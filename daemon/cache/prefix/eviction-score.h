/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The eviction score of a cached block: an estimate of how likely the block is used again, per unit of time that it has
 * to be kept for that. The block with the lowest score is evicted first. The estimate is learned from past uses: from
 * the time between two uses of a block and from the number of its uses. It needs no knowledge of the future and has no
 * settings. The functions do no I/O, and all memory is the struct's own. The caller passes the clock; any counter that
 * never goes back is good, such as the number of uses so far.
 *
 * A block belongs to a class by its number of uses (1, 2, … SCORE_CLASSES or more) and to an age by the time since its
 * last use. Ages are half octaves: age k begins at 2^(k/2) - 1. The hazard of an age is the share of the blocks that
 * reach the age unused and are used before its end. The score of class c at age k is the Gittins index (Gittins, 1979,
 * "Bandit processes and dynamic allocation indices"):
 *
 *     max over t of P(used within t) / E(min(time until the use, t))
 *
 * With hazards that fall with the age, the score is LRU within a class. When hazards rise first, for example because
 * users think between two turns, an older block can have a higher score than a newer one. A prior spreads reuse times
 * evenly over the octaves, so that the order is LRU as long as there are few samples.
 *
 * Uses are sampled by the block's key. The samples include evicted blocks, so that a small cache also learns reuse
 * times that are longer than it can keep a block.
 */
#include <stdint.h>

#define SCORE_CLASSES 6
#define SCORE_AGES    48
#define SCORE_CELLS   (SCORE_CLASSES * SCORE_AGES)
#define SCORE_SAMPLES 4096

/* One sampled block. */
struct eviction_score_sample {
    uint64_t key;       /* 0: the entry is free */
    uint64_t used;      /* the clock at the last use */
    uint8_t class, age; /* alive[class][0 … age] counts the sample */
};

struct eviction_score_cell {
    uint8_t class, age;
};

struct eviction_score {
    uint32_t shift; /* one key in 2^shift is sampled */
    uint32_t n;     /* samples */
    uint32_t since; /* uses since the scores were last computed */
    /* Per class and age: samples that were used again at the age; samples that reached the age; the score. */
    double again[SCORE_CLASSES][SCORE_AGES];
    double alive[SCORE_CLASSES][SCORE_AGES];
    double value[SCORE_CLASSES][SCORE_AGES];
    /* All cells, the lowest score first; among equal scores the older age first, then the lower class. */
    struct eviction_score_cell order[SCORE_CELLS];
    struct eviction_score_sample samples[SCORE_SAMPLES]; /* a hash table with linear probing */
};

/* Sets all samples to none and the scores to LRU. The struct owns nothing and needs no fini. */
void eviction_score_init(struct eviction_score *r);

/* Counts a use of the block with @key at time @now, its @uses-th use (1: the block is new to the cache). @key is a hash
 * of all tokens up to and with the block; its bits must be well mixed. */
void eviction_score_learn(struct eviction_score *r, uint64_t key, uint64_t now, uint32_t uses);

/* The class of a block with @uses uses; below SCORE_CLASSES. */
uint32_t eviction_score_class(uint32_t uses);

/* The score of a block with @uses uses, the last one @age ago. It has no unit: compare it with other scores only. */
double eviction_score_of(const struct eviction_score *r, uint32_t uses, uint64_t age);

/* The index of the half octave that contains the time @age; below SCORE_AGES. Among blocks of one class and one index,
 * the least recently used one is evicted first. */
uint32_t eviction_score_age(uint64_t age);
