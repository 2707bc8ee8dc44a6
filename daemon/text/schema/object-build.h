/* SPDX-License-Identifier: MIT */
#pragma once
/* The members of an object in their possible orders, inside schema-object.c, object-order.c and object-any-order.c. */
#include "daemon/text/schema/schema-core.h"

#define OBJECT_MEMBERS_MAX 2000 /* with a name in the schema */
#define OBJECT_EXACT_MAX   6    /* any order: so many named members are all told apart; of more only the required */
#define OBJECT_NEEDS_MAX                                                                                               \
    8                              /* any order: so many required members; more come in the order of the schema, or of \
                                    * "required" */
#define OBJECT_STATES_MAX    20000 /* combinations of what was written and how many members */
#define OBJECT_WITNESSES_MAX 3

struct member {
    expr_t text; /* "name":value */
    bool required;
    size_t rank;                            /* among the required members, in the order of "required" */
    expr_t show[1 << OBJECT_WITNESSES_MAX]; /* by a set of witnesses: the texts whose value is all of them; none */
};

struct object {
    struct schema *core;
    struct member *members; /* [n] in the order of the schema */
    size_t n;
    expr_t others; /* any other member; none */
    unsigned n_witnesses;
    expr_t show[1 << OBJECT_WITNESSES_MAX]; /* other members, as of struct member */
    uint32_t min, max;                      /* number of members; a min over 1 only without others */
    bool not_empty;                         /* min is 1, which the first member settles; min is 0 then */
    uint32_t cap;                           /* more members need not be told apart */
};

/* Each returns the members without the braces; perhaps none. EXPR_ERROR: schema.err is set. */
expr_t object_in_order(struct object *o);
expr_t object_any_order(struct object *o); /* without witnesses */
