/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Slots of one size in a backend's host memory. The memory is taken in pieces: one at the start, others by jobs, and
 * stays until the end. The engine's thread calls these functions.
 */
#include <stdbool.h>
#include <stdint.h>

struct backend;
struct job_returns;
struct kv_pool;

struct host_slots {
    struct backend *backend;
    struct job_returns *jobs;
    struct kv_pool *pool;           /* those that have memory; NULL: there are none */
    uint8_t **pieces;               /* [n_pieces] of the slots 0, 1, …; the first @taken have memory */
    uint64_t stride;                /* bytes of a slot */
    uint32_t each, n_pieces, taken; /* each: slots of a piece */
    bool growing;                   /* a job takes memory */
    bool *unsure;                   /* [slots] copies to it may be under way, */
    uint32_t n_unsure;              /* to so many slots */
};

/* The bytes of a slot that has room for @payload. */
uint64_t host_slots_stride(uint64_t payload);
/* Fill @h (zero before) with @slots slots for @payload bytes each, and take memory for the first ones. With 0 slots,
 * @h stays as it is. 0 or -ENOMEM; host_slots_free in either case. */
int host_slots_new(struct host_slots *h, struct backend *b, struct job_returns *jobs, uint64_t payload, uint64_t slots);
/* The memory is given back; @h is zero. */
void host_slots_free(struct host_slots *h);

/* Let a job take memory, if less than @ahead slots are free and not all have memory. @h must stay until it has ended.
 */
void host_slots_grow(struct host_slots *h, uint32_t ahead);

/* The slot's memory. */
uint8_t *host_slots_at(const struct host_slots *h, uint32_t slot);
/* A copy to the slot may be under way. */
void host_slots_mark(struct host_slots *h, uint32_t slot);
/* None is, to any slot. */
void host_slots_settle(struct host_slots *h);

/* Slots, with those that have no memory yet; those of them that are free; bytes of memory that was taken. */
uint64_t host_slots_all(const struct host_slots *h);
uint64_t host_slots_left(const struct host_slots *h);
uint64_t host_slots_taken(const struct host_slots *h);
