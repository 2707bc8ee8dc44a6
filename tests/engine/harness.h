/* SPDX-License-Identifier: MIT */
#pragma once
/* A real engine over a tiny model, and what its requests answered. Not timed: everything waits for events. */
#include "daemon/engine/engine.h"
#include "daemon/request/loaded-model.h"
#include "tests/support/tiny.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ANSWERS 64

/* All that came for one request. Its id is its index; several answers to one prompt have those behind it. */
struct answer {
    bool ended;
    unsigned events, texts, queued_n;
    struct buf text;
    int32_t *ids;
    float *logprobs;
    size_t n;
    uint32_t queued[64];
    uint64_t prefill_first, prefill_last, prefill_total;
    unsigned prefill_n;
    struct proto_event last; /* done, error, tokens, status */
};

struct harness {
    char path[64], dir[64]; /* dir: "" or what harness_dirs made */
    char state_dir[80], cache_dir[80], packed_dir[80];
    struct engine_config config;
    struct engine *engine;
    struct answer answers[ANSWERS];
    uint64_t n;     /* ids used; the first is 1 */
    bool held;      /* harness_hold */
    bool forgetful; /* who gives its slot up may find less than it had read */
};

/* Only a model, for what needs no engine: load @t with @c (NULL: the defaults and 4 MiB of KV), 1 thread. What
 * load_model says. */
int harness_load(struct loaded *m, const struct tiny *t, const struct engine_config *c);

/* Write @t (NULL: tiny_init's, with a context of 2048) and prepare a config: 1 thread, 4 MiB of KV. */
void harness_init(struct harness *h, const struct tiny *t);
void harness_start(struct harness *h); /* and wait until it is READY */
void harness_stop(struct harness *h);  /* forgets the answers; may be started again */
void harness_fini(struct harness *h);

/* Stop the engine's thread in the middle of a turn, before it begins with new requests, until harness_go: what is
 * submitted meanwhile comes into its next turn together. It has stopped when this returns. One engine at a time. */
void harness_hold(struct harness *h);
void harness_go(struct harness *h);
/* While it stands there: let it go to the same place in its next turn, and take the events that came meanwhile. */
void harness_turn(struct harness *h);

/* Before harness_start: a state and a cache directory of its own, removed by harness_fini. */
void harness_dirs(struct harness *h);
/* Wait until what is computed may be kept on disk. */
void harness_wait_disk(struct harness *h);
/* The number behind "KEY": in the status that root sees; its own uid's with @uid. */
long long harness_status(struct harness *h, uid_t uid, const char *key);

/* cmocka fixtures: *state is a struct harness of harness_init(h, NULL), not started. */
int harness_setup(void **state);
int harness_teardown(void **state);

/* Numbers below @n, and ten words, the same after the same seed. */
extern unsigned harness_seed;
unsigned harness_draw(unsigned n);
const char *harness_word(void);
/* @words of them into @out, as many as it has room for; each @seed has its own. */
void harness_text(char *out, size_t size, unsigned seed, unsigned words);

/* A prompt of some dozens of tokens. */
extern const char harness_story[];

/* Requests to fill in and submit. Greedy, with logprobs, 16 tokens unless changed. */
struct proto_request harness_raw(const char *prompt);
struct proto_request harness_user(const char *session, const char *content);
struct proto_request harness_simple(enum proto_type type);
/* @prompt as raw text, sampled with a seed, 40 tokens. */
struct proto_request harness_seeded(const char *prompt);

/* An answer that has ended, for the caller, who calls answer_fini: it outlives the engine. @a is empty then. */
struct answer answer_take(struct answer *a);
void answer_fini(struct answer *a); /* zero is ok; leaves zero */

/* The answer of the last id, which has ended, is forgotten: the id can be had again. */
void harness_forget(struct harness *h);

/* Submit; returns the id. @conn 1 and uid 1000 in the short form. */
uint64_t harness_submit(struct harness *h, struct proto_request *r);
uint64_t harness_submit_as(struct harness *h, uint64_t conn, uid_t uid, struct proto_request *r);
/* Take events until request @id has ended. */
struct answer *harness_wait(struct harness *h, uint64_t id);
/* Take events until @id has at least @texts text events, or has ended. */
struct answer *harness_wait_texts(struct harness *h, uint64_t id, unsigned texts);
/* Take events until @id has had any event. */
struct answer *harness_wait_any(struct harness *h, uint64_t id);
struct answer *harness_run(struct harness *h, struct proto_request *r);
/* A long answer for uid 1000 on @conn, which has begun. Returns its id. */
uint64_t harness_occupy(struct harness *h, uint64_t conn);
/* The answer of harness_seeded to @first and @second as one prompt, for @uid. */
struct answer *harness_run_seeded(struct harness *h, uid_t uid, const char *first, const char *second);

/* For requests that engine_submit got: drop the events that have come, and take the requests that ended off *live. */
void harness_drop_events(struct harness *h, uint32_t *live);

/* No sequence and no job has blocks: all are free, or only in the cache. */
void assert_all_blocks_free(struct harness *h);
void assert_done(const struct answer *a, enum proto_reason reason);
void assert_error(const struct answer *a, int code, const char *part);
/* The same ids and, bit for bit, logprobs. */
void assert_same(const struct answer *a, const struct answer *b);
