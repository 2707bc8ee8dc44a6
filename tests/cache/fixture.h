/* SPDX-License-Identifier: MIT */
#pragma once
/* A KV cache over a backend whose blocks are numbers, with a job pool and directories of its own. */
#include "daemon/cache/cache.h"
#include "daemon/cache/disk/disk.h"
#include "tests/support/folder.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define FIXTURE_BLOCKS  12
#define FIXTURE_PAYLOAD (KV_BLOCK * 4)        /* bytes of a block */
#define FIXTURE_FILE    DISK_UNIT             /* what its file counts */
#define FIXTURE_WINDOW  (2 * FIXTURE_PAYLOAD) /* bytes of a block of layers with a window */
#define FIXTURE_STATES  6
#define FIXTURE_STATE   4096 /* bytes of a recurrent state; its file counts 2 FIXTURE_FILE */

struct fixture {
    struct kv_cache cache;
    struct backend backend;
    uint8_t blocks[FIXTURE_BLOCKS][FIXTURE_PAYLOAD];
    uint8_t windows[FIXTURE_BLOCKS][FIXTURE_WINDOW];
    uint8_t states[FIXTURE_STATES][FIXTURE_STATE];
    unsigned reads, state_reads; /* calls of kv_read, for blocks and for states */
    bool unknown;                /* the model's identity is not known yet */
    bool broken;                 /* kv_read fails */
    char top[FOLDER_PATH], state_dir[80], cache_dir[80];
    struct spill_config config;
    struct job_returns jobs;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_mutex_t hold;
    struct job holder;
};

/* *state is a struct fixture with directories, whose cache fixture_open has not opened. Without limits. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

void fixture_recurrent(struct fixture *f);             /* before fixture_open: the model has recurrent layers too */
void fixture_windowed(struct fixture *f);              /* before fixture_open: it has layers with a window instead */
void fixture_open(struct fixture *f);                  /* kv_cache_new; blocks may be kept on disk */
void fixture_close(struct fixture *f, uint64_t until); /* kv_cache_free; all blocks are free */

/* A block of tokens that are all @token, the child of @parent (NULL: of the root of the public namespace), with bytes
 * that depend on @token. Only the index refers to it. */
struct prefix_node *fixture_add(struct fixture *f, struct prefix_node *parent, int32_t token);
/* Gives the node a block of the layers with a window, with bytes that depend on @value. Only the index refers to it. */
void fixture_add_window(struct fixture *f, struct prefix_node *n, int32_t value);
/* Gives the node a state that the end of a turn left, with bytes that depend on @value. Only the index refers to it. */
void fixture_add_state(struct fixture *f, struct prefix_node *n, int32_t value);
/* The node of one block of @token in memory or on disk; NULL: none. */
struct prefix_node *fixture_find(struct fixture *f, int32_t token);
bool fixture_on_disk(struct fixture *f, int32_t token);
/* The disk has the bytes that belong to @token. */
void fixture_check_file(struct fixture *f, int32_t token);

/* No file can be written from now on, or again. */
void fixture_fail_writes(bool fail);

/* The jobs that are sent from now on wait until fixture_release. */
void fixture_hold(struct fixture *f);
void fixture_release(struct fixture *f);
/* Wait until the jobs under way have finished, and deliver them. Returns how many there were. */
unsigned fixture_deliver(struct fixture *f);
