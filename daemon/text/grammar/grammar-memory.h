/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The memory of all grammars of one owner (a user), and of the parts of masks made for them, with a limit. A grammar
 * grows while answers use it: it takes memory in steps before it grows, and a question that would exceed the limit
 * fails with -EDQUOT. Parts of masks are charged when they are made, so the limit can be exceeded by one part for each
 * thread. Without an owner (NULL) nothing is counted. Any thread may use these functions.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define GRAMMAR_MEMORY_STEP ((size_t)64 << 10)

struct grammar_memory {
    atomic_uint refs;
    atomic_size_t used;
    size_t max;
    size_t cached; /* bytes of parts in the mask cache, which guards it */
    /* Frees something that nobody uses now. False: there is nothing. Called while a grammar is locked. NULL: there
     * never is. */
    bool (*free_some)(struct grammar_memory *m);
};

/* One holder's part of it. {m} holds @m until grammar_memory_give_all. */
struct grammar_share {
    struct grammar_memory *memory; /* NULL: not counted */
    size_t taken;
};

struct grammar_memory *grammar_memory_ref(struct grammar_memory *m); /* NULL ok */
/* NULL ok, returns NULL. The last holder frees the memory behind @m, from malloc. */
struct grammar_memory *grammar_memory_unref(struct grammar_memory *m);

/* Is less than the limit used? Otherwise frees what nobody uses. False: it is not. NULL: true. */
bool grammar_memory_has_room(struct grammar_memory *m);
/* Is more than three quarters of the limit used? NULL: false. */
bool grammar_memory_is_short(const struct grammar_memory *m);
/* -EDQUOT; sets the error message. */
int grammar_memory_error(const struct grammar_memory *m);

/* Take what the holder lacks for @bytes in all. False: the limit is reached. */
bool grammar_share_cover(struct grammar_share *s, size_t bytes);
/* Give back what the holder does not need for @bytes. */
void grammar_share_trim(struct grammar_share *s, size_t bytes);
/* Give back all, and hold the memory no longer. */
void grammar_share_close(struct grammar_share *s);
