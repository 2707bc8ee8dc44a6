/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The constraints of answers, compiled. They are kept for later requests of the same owner with the same constraint.
 * Nobody learns from the time of a compilation, or of a mask, about the constraints of others.
 *
 * All memory of a user's constraints is counted (grammar-memory.h) and limited to CONSTRAINTS_USER_BYTES, while they
 * are compiled and while answers use them. At the limit those that nobody uses are forgotten, the least recently used
 * first; then a compilation is refused, and an answer whose constraint must grow ends with an error. Beyond
 * CONSTRAINTS_BYTES in all, those of the user who has the most are forgotten, but none of a user below an even share.
 *
 * Any thread may use the cache and what is in it.
 */
#include "daemon/request/tool-grammar.h"
#include "daemon/text/grammar/grammar.h"
#include "daemon/text/grammar/token-trie.h"
#include "daemon/text/tokenizer/tokenizer.h"
#include "libcommon/proto.h"
#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>

#define CONSTRAINTS_BYTES      ((size_t)256 << 20)
#define CONSTRAINTS_USER_BYTES ((size_t)192 << 20)

/* One compiled constraint. Its grammar grows while answers use it. */
struct constraint {
    struct grammar *grammar;
    const struct token_trie *trie; /* the cache's, which outlives all constraints */
    char *ignored;                 /* lines about what a lenient schema ignores; NULL: nothing */
    bool slow;                     /* a mask took long; the engine thread's */
    pthread_mutex_t lock;          /* guards @jobs */
    pthread_cond_t idle;
    uint32_t jobs; /* that compute masks of it: the grammar may be locked for long */
};

struct constraints;

struct constraint_owner {
    uid_t uid;
    const struct proto_text *salt;
};

/* The texts that an answer, or its calls, may be. */
struct constraint_source {
    const struct proto_constraint *constraint; /* NULL: calls of tools */
    const struct tool_grammar *tools;
    const struct proto_text *list; /* of @tools as the request has it */
};

struct constraints_stats {
    size_t n, bytes;
};

/* The cache for the vocabulary of @t, which must outlive it. 0, and the caller owns *out; or -errno. */
int constraints_new(struct constraints **out, const struct tokenizer *t);
struct constraints *constraints_free(struct constraints *c); /* NULL ok, returns NULL. Nothing is held any more. */

/* The compiled form of @s, which may take long. 0, and the caller holds *out until constraint_drop; -EDOM: it is
 * invalid, cannot be enforced or exceeds a limit; -EDQUOT; -ENOMEM: sets the error message. */
int constraint_hold(struct constraints *c, const struct constraint_owner *owner, const struct constraint_source *s,
                    struct constraint **out);
void constraint_keep(struct constraints *c, struct constraint *x); /* holds it once more */
void constraint_drop(struct constraints *c, struct constraint *x); /* NULL ok */

/* A job that computes masks begins, which holds @x; it ends, and still holds it. */
void constraint_job_begins(struct constraints *c, struct constraint *x);
void constraint_job_ends(struct constraint *x);
bool constraint_busy(const struct constraint *x);
bool constraint_wait(struct constraint *x,
                     uint64_t until); /* until no job runs: true; or the time, monotonic us: false */

/* Those of @uid. */
void constraints_stats(struct constraints *c, uid_t uid, struct constraints_stats *out);

/* constraint-compile.c: one constraint as a grammar, counted in @memory. Adds to @ignored the lines about what is
 * ignored. 0, and the caller holds *out; -ENOMEM; or another error: sets the error message. */
int constraint_compile(struct grammar **out, const struct constraint_source *s, const struct tokenizer *t,
                       struct grammar_memory *memory, struct buf *ignored);
