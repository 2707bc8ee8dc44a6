/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The recognizer: Earley's algorithm ("An Efficient Context-Free Parsing Algorithm", 1970) with terminals that are
 * automata, run byte by byte. A row is the set of all parses of the text so far. Rows are hash-consed: rows with equal
 * kernels are one row, so that loops of a grammar come back to the same row, and what is computed for a row is kept.
 *
 * An item's origin is the row where its nonterminal began. A row refers only to rows that are older, and to itself.
 * Nonterminals that derive the empty text are advanced over when they are predicted (Aycock and Horspool, "Practical
 * Earley Parsing", 2002). The language of a row is the union of the languages of its items.
 *
 * One thread at a time.
 */
#include "daemon/text/grammar/rules.h"

#define ROW_DEAD   0 /* the row of texts that nothing can complete */
#define ROW_FAILED UINT32_MAX
#define ROW_SELF   UINT32_MAX /* as an origin: the row itself */

#define ROW_ITEMS_MAX   20000u              /* of one row */
#define ROWS_BYTES_MAX  ((size_t)256 << 20) /* of all rows */
#define ROWS_BYTES_CALL ((size_t)40 << 20)  /* of the new rows of one question */
#define ROWS_BYTES_IDLE ((size_t)24 << 20)  /* of rows that nobody holds, between two questions */
#define ROWS_BYTES_LOW  ((size_t)1 << 20)   /* the same, while the owner's memory is short */

struct row_item {
    uint32_t dot, origin, count; /* count: of a repetition */
    uint32_t state;              /* THREAD: of the terminal's automaton. KERNEL: 0 for an item that moved its dot */
};

struct row {
    struct row_item *items; /* kernel, then threads, then token threads, then waiting */
    uint32_t n_kernel;      /* sorted; identifies the row */
    uint32_t n_threads;     /* before a terminal, which may have begun */
    uint32_t n_tokens;      /* before a token */
    uint32_t n_waiting;     /* before a nonterminal; sorted by it */
    uint32_t hash;
    uint32_t pins; /* holders; a row with none is freed by rows_begin unless a kept row has it as an origin */
    uint32_t mask; /* the slot with its mask, plus 1 (mask.c) */
    bool accepted, marked, used;
    struct byte_set live; /* bytes that may follow */
    uint32_t n_classes;   /* 0: of and to are not made */
    const uint16_t *of;   /* [256] class of each byte: of the only thread's automaton, or own */
    uint16_t *own;
    uint32_t *to; /* [n_classes] rows; UINT32_MAX: not computed */
    uint32_t
        *finish; /* [n_waiting] NULL: not made. Bytes that must follow the nonterminal of the item (completion.c) */
};

struct item_list {
    struct row_item *v;
    size_t n, cap;
};

struct rows {
    struct rules rules;
    struct dfa dfa;
    struct row *rows;
    size_t n, cap;
    uint32_t *table, *free_rows; /* open addressing, row plus 1; a stack */
    size_t mask, n_used, n_free, cap_free;
    size_t bytes, held;         /* of all rows; of those that were held at the last collection */
    size_t call_max;            /* limit of bytes in this call */
    struct grammar_share share; /* covers @bytes */
    int status;                 /* of the last failed call */
    /* Scratch of the closure. */
    struct item_list kernel, work, threads, tokens, waiting;
    uint32_t *seen; /* items of work, plus 1 */
    size_t seen_mask;
    uint32_t *predicted; /* [nonterminals] stamp */
    uint32_t stamp;
};

/* Takes the rules and automata. 0 or -ENOMEM; rows_fini in both cases. */
int rows_init(struct rows *r, struct rules *g, struct dfa *d);
void rows_fini(struct rows *r);

/* The row before any text. ROW_FAILED as below. */
uint32_t rows_start(struct rows *r);

/* The row behind one more byte; ROW_DEAD; or ROW_FAILED: rows_status tells the error. */
uint32_t rows_step(struct rows *r, uint32_t row, uint8_t b);
uint32_t rows_steps(struct rows *r, uint32_t row, const char *s, size_t n);

/* The row behind token @id with the bytes @s [@n] (NULL: it has no text, as control tokens). */
uint32_t rows_token(struct rows *r, uint32_t row, int32_t id, const char *s, size_t n);

/* The row behind the terminals of threads [@n] of @row, which end here. */
uint32_t rows_after(struct rows *r, uint32_t row, const struct row_item *threads, size_t n);

/* The error of a failed call; sets its message. */
int rows_status(struct rows *r);

/* Begins a question, or an accept: its work is counted from here on, and if memory is short, rows that nobody needs are
 * freed. No row ids but pinned ones may be kept over this call. */
void rows_begin(struct rows *r);

static inline const struct row_item *row_threads(const struct row *w)
{
    return w->items + w->n_kernel;
}

static inline const struct row_item *row_tokens(const struct row *w)
{
    return row_threads(w) + w->n_threads;
}

static inline const struct row_item *row_waiting(const struct row *w)
{
    return row_tokens(w) + w->n_tokens;
}

/* Whether token @id is in @set. */
bool token_set_has(const struct token_set *set, int32_t id);

/* Inside: rows-closure.c fills the scratch lists with the closure of kernel. False: failed. */
bool rows_close(struct rows *r, bool *accepted);
/* The first of the waiting items of @w that waits for nonterminal @n or a higher one; n_waiting: none does. */
uint32_t rows_first_waiting(const struct rows *r, const struct row *w, uint32_t n);
/* rows-classes.c. False: failed. */
void rows_sort_waiting(const struct rules *g, struct row_item *v, size_t n);
bool rows_make_classes(struct rows *r, struct row *w);
bool item_push(struct rows *r, struct item_list *l, struct row_item x);
int item_compare(const void *a, const void *b);
/* The item behind the symbol of @x, an item of the row @self (ROW_SELF: the row that is being made). */
struct row_item item_advance(const struct rows *r, const struct row_item *x, uint32_t self);
