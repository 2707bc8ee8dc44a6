/* SPDX-License-Identifier: MIT */
#pragma once
/* A second backend, "counting": the CPU backend behind functions that count their calls. A program that links
 * counting.c has a table of its own, in which "counting" is the first and "cpu" the second. */
#include "daemon/model/backend.h"

struct counts {
    uint64_t forwards, tokens, rows;   /* calls, tokens of all entries, and those of them with logits */
    uint64_t picks;                    /* tokens of whose logits the id of the largest is wanted */
    uint64_t logsumexps, copies, made; /* made: backends created */
    uint64_t recoveries;
    uint64_t pieces; /* of host_alloc that are not freed */
};

/* The forward with this number (counts.forwards) fails, and all blocks are lost, as with a device; then it is 0. */
extern uint64_t counting_fail;

/* Called by each forward with the tokens of its entries; NULL: nothing is called. */
extern void (*counting_hook)(uint64_t tokens);

/* Backends that are created now pick. */
extern bool counting_picks;

/* Backends that are created now have host_alloc, as one with a device, which gives so many pieces at most; -1: they do
 * not have it. */
extern int counting_host;

/* No backend knows its model's fingerprint. */
extern bool counting_unknown;

/* Of all backends of this type. Read it while no engine runs. */
extern struct counts counting;
