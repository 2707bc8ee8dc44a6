/* SPDX-License-Identifier: MIT */
#pragma once
/* An index with a pool of recurrent states and one chain of blocks, for the tests of prefix-state*.c. */
#include "daemon/cache/prefix/prefix-state.h"
#include "tests/cache/prefix/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define CHAIN  8
#define STATES 6
#define SLOTS  4 /* of states in host memory */

struct chain {
    struct fixture rig;
    struct kv_pool *pool;           /* of states */
    struct kv_pool *hosts, *slots;  /* of blocks and of states in host memory; NULL: there is none */
    struct prefix_id copied[SLOTS]; /* whose state a slot has */
    unsigned copies;
    bool broken; /* states are not copied */
    struct prefix_node *nodes[CHAIN];
    int32_t tokens[CHAIN * KV_BLOCK];
    struct prefix_info left; /* of the state that was evicted last */
    unsigned evicted;
    bool write;
};

/* *state is a struct chain: blocks of uid 1, without states. The end asserts that all blocks are free. */
int chain_setup(void **state);
/* The same with host memory. */
int chain_setup_host(void **state);
int chain_teardown(void **state);

/* Gives the node, which has none, a state in a free block. */
void chain_attach(struct chain *c, struct prefix_node *n, enum prefix_state_kind kind);
/* The first block of another chain, filled with @token. */
struct prefix_node *chain_alone(struct chain *c, int32_t token, uid_t uid);
/* How many states uid 1 has in memory. */
uint32_t chain_states(const struct chain *c);
