/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * From demands to shapes, inside schema-expand.c, schema-hold.c, schema-negate.c and schema-limits.c: a shape and a
 * list of work that is still to be put into it. Work with alternatives makes a copy of the shape for each.
 */
#include "daemon/text/schema/schema-core.h"

enum work_kind {
    WORK_DEMAND,      /* @demand */
    WORK_LACKS,       /* an object has no property @name; @index: and the value is an object */
    WORK_HAS,         /* the value is an object with a property @name that satisfies @demand */
    WORK_ELEMENT,     /* the value is an array with an element @index that satisfies @demand */
    WORK_VIOLATES,    /* the keyword @word of @demand.schema does not hold */
    WORK_CONTAINS,    /* an array has @min to @max elements from number @index on that satisfy @demand */
    WORK_WITNESS,     /* the value is an object, and @witness */
    WORK_ANY,         /* one of @alternatives */
    WORK_UNEVALUATED, /* everything before is in the shape: unevaluatedProperties, unevaluatedItems of @demand.schema */
};

/* The schemas that a piece of work comes from, at the same place of the value. */
struct via {
    const struct via *next;
    struct demand demand;
    unsigned depth;
};

struct work {
    const struct work *next;
    enum work_kind kind;
    enum schema_word word;
    struct demand demand;
    const struct via *via;
    bool silent;  /* inside a "not": what it says about properties does not count as evaluated */
    bool tracked; /* inside a schema with unevaluatedProperties or unevaluatedItems */
    const char *name;
    uint32_t name_len, index, min, max;
    const struct witness *witness;
    const struct work *alternatives; /* linked by @other; each the first of a list that ends with NULL */
    const struct work *other;
    const struct group *groups; /* the shape's before the work of its schema */
    const struct row *rows;
};

/* Work that comes from the work @from, put before @next. NULL: schema.err is set. */
struct work *work_new(struct schema *c, const struct work *from, const struct work *next, enum work_kind kind);
struct work *work_demand(struct schema *c, const struct work *from, const struct work *next, const struct tree *schema,
                         bool negated);
void work_other(struct work *any, struct work *alternative); /* adds an alternative; NULL is left out */

/* Put the demand of @w into @s; what cannot be put at once goes before *@rest. */
void hold_schema(struct schema *c, struct shape *s, const struct work *w, const struct words *words,
                 const struct work **rest);
void negate_schema(struct schema *c, const struct work *w, const struct words *words, const struct work **rest);
void hold_one_of(struct schema *c, const struct work *w, const struct tree *list, const struct work **rest);

/* Keywords about one type each. False: the keyword is not one of them. */
bool hold_limit(struct schema *c, struct shape *s, const struct words *words, enum schema_word word);
bool violate_limit(struct schema *c, struct shape *s, const struct words *words, enum schema_word word);

void shape_add_group(struct schema *c, struct shape *s, struct group g);
void shape_add_row(struct schema *c, struct shape *s, struct row r);
void shape_require(struct schema *c, struct shape *s, const char *name, uint32_t len);
