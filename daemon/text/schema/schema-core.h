/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The parts of the schema compiler, inside daemon/text/schema.
 *
 * A value must satisfy a list of demands: schemas, each to hold or not to hold. schema-expand.c turns the list into
 * shapes: alternatives, each a plain conjunction of limits for each type. schema-compile.c turns the shapes of a list
 * into an expression, and asks for the lists of the properties and elements in turn. A list that contains itself
 * becomes a rule.
 *
 * Errors stick: the first one is in schema.err with its message; later calls return quickly and their results are not
 * used.
 */
#include "daemon/text/schema/decimal.h"
#include "daemon/text/schema/json-tree.h"
#include "daemon/text/schema/schema.h"
#include "daemon/text/schema/spelling.h"

/* Types of values; an integer is a number whose fraction is 0. */
enum {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4,
    TYPE_FRACTION = 8,
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
    TYPE_ANY = 127
};

/* An item for each keyword; clang-format would indent each line further than the one before. */
/* clang-format off */
#define SCHEMA_KEYWORDS(X) \
    X(REF, "$ref") X(DYNAMIC_REF, "$dynamicRef") X(RECURSIVE_REF, "$recursiveRef") X(ALL_OF, "allOf") \
    X(ANY_OF, "anyOf") X(ONE_OF, "oneOf") X(NOT, "not") X(IF, "if") X(THEN, "then") X(ELSE, "else") \
    X(TYPE, "type") X(ENUM, "enum") X(CONST, "const") X(MINIMUM, "minimum") X(MAXIMUM, "maximum") \
    X(EXCLUSIVE_MINIMUM, "exclusiveMinimum") X(EXCLUSIVE_MAXIMUM, "exclusiveMaximum") \
    X(MULTIPLE_OF, "multipleOf") X(MIN_LENGTH, "minLength") X(MAX_LENGTH, "maxLength") X(PATTERN, "pattern") \
    X(FORMAT, "format") X(PREFIX_ITEMS, "prefixItems") X(ITEMS, "items") \
    X(ADDITIONAL_ITEMS, "additionalItems") X(MIN_ITEMS, "minItems") X(MAX_ITEMS, "maxItems") \
    X(CONTAINS, "contains") X(MIN_CONTAINS, "minContains") X(MAX_CONTAINS, "maxContains") \
    X(UNIQUE_ITEMS, "uniqueItems") X(PROPERTIES, "properties") X(PATTERN_PROPERTIES, "patternProperties") \
    X(ADDITIONAL_PROPERTIES, "additionalProperties") X(REQUIRED, "required") \
    X(PROPERTY_NAMES, "propertyNames") X(MIN_PROPERTIES, "minProperties") X(MAX_PROPERTIES, "maxProperties") \
    X(DEPENDENCIES, "dependencies") X(DEPENDENT_REQUIRED, "dependentRequired") \
    X(DEPENDENT_SCHEMAS, "dependentSchemas") X(UNEVALUATED_ITEMS, "unevaluatedItems") \
    X(UNEVALUATED_PROPERTIES, "unevaluatedProperties")
/* clang-format on */

#define X(id, name) WORD_##id,
enum schema_word { SCHEMA_KEYWORDS(X) WORD_COUNT };
#undef X

/* The keywords of one schema, NULL where it has none. Made once for each schema. */
struct words {
    const struct tree *at[WORD_COUNT];
};

struct demand {
    const struct demand *next;
    const struct tree *schema;
    bool negated;
};

struct limit {
    const struct decimal *value; /* NULL: none */
    bool exclusive;
};

struct factor { /* multipleOf */
    const struct factor *next;
    const struct decimal *value;
    bool negated;
    const struct tree *at;
};

struct value_set { /* enum or const: an array, or one value */
    const struct value_set *next;
    const struct tree *values;
    bool single;
};

/* What one schema says about properties: @properties and @patterns by name, and @others about those that neither names;
 * or about one property, @name. */
struct group {
    const struct group *next;
    const struct tree *properties, *patterns, *others;
    const char *name; /* with @name_len, @demand */
    uint32_t name_len;
    struct demand demand;
    const struct group *beyond, *beyond_end; /* @others are the properties about which these groups say nothing */
    bool has_beyond;
    bool silent; /* does not count as evaluated */
};

/* Some property has a name matching @name and a value satisfying @value. */
struct witness {
    const struct witness *next;
    expr_t name;                /* of written names, without quotes */
    const struct tree *outside; /* the schema whose additionalProperties are meant: instead of @name */
    struct demand value;
};

/* The same for elements: @prefix one by one, then @rest (each NULL: nothing is said). Or about element @index. */
struct row {
    const struct row *next;
    const struct tree *prefix, *rest;
    bool is_single, silent;
    uint32_t index;
    struct demand demand;
    const struct row *beyond, *beyond_end;
    bool has_beyond;
};

struct contains {
    const struct contains *next;
    struct demand demand;
    uint32_t from, min, max; /* of the elements from number @from on, @min to @max satisfy @demand */
};

/* A conjunction. Lists are newest first and never change, so that shapes share them. */
struct shape {
    unsigned types;
    const struct value_set *allowed, *excluded;
    struct limit lo, hi;
    const struct factor *factors;
    expr_t text; /* of a string, without quotes; EXPR_ERROR: any */
    uint32_t min_length, max_length;
    const struct row *rows;
    const struct contains *contains;
    uint32_t min_items, max_items;
    const struct tree *unique;
    const struct group *groups;
    const struct names *required;
    const struct demand *names; /* of every property's name */
    const struct witness *witnesses;
    const struct tree *counted; /* the keyword that limits the number of properties, for messages */
    uint32_t min_properties, max_properties;
};

struct names {
    const struct names *next;
    const char *name;
    uint32_t len;
};

struct shapes {
    struct shape *at;
    size_t n, cap;
};

struct schema {
    struct grammar_builder *b;
    struct jj_arena arena;
    struct jj_budget budget;
    struct spelling spelling;
    struct schema_options options;
    struct buf *ignored;
    const struct tree *root, *at; /* @at: the schema that is being compiled, for messages */
    struct tree always, never;    /* the schemas true and false */
    unsigned draft;               /* 4, 6, 7, 2019, 2020 */
    int err;
    unsigned steps, depth, probes, quiet; /* @quiet: a question is tried; what it cannot answer is no error */
    expr_t comma, colon, open_array, close_array, open_object,
        close_object;           /* with the white space that may be there */
    const struct place *places; /* of references; with @has_places */
    bool has_places;
    struct text_memo *patterns;
    struct memo_table *memos;
    expr_t any_value; /* EXPR_ERROR: not made */
    struct {
        expr_t expr;
        bool none;
    } asked[64]; /* schema-proof.c: texts that are proved to be empty, or not; @n_asked questions so far */
    unsigned n_asked;
};

void *schema_alloc(struct schema *c, size_t n); /* NULL: schema.err is set */
int schema_fail(struct schema *c, int err);     /* keeps the first error; @err's message is set already; returns @err */
/* @at, a keyword's value, cannot be enforced. True: it is to be ignored (@lenient). False: schema.err is set. */
bool schema_refuse(struct schema *c, const struct tree *at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int schema_invalid(struct schema *c, const struct tree *at, const char *why); /* -EBADMSG: not a schema */
bool schema_step(struct schema *c); /* false: the limit is reached, schema.err is set */

/* schema-words.c */
const struct words *schema_words(struct schema *c, const struct tree *schema);
unsigned schema_types(struct schema *c, const struct tree *type);
bool schema_count(struct schema *c, const struct tree *at, uint32_t *out);
const struct tree *schema_target(struct schema *c, const struct tree *ref, bool dynamic); /* schema-ref.c */

/* schema-expand.c: the shapes of @d, in the arena. False: schema.err is set. */
bool schema_shapes(struct schema *c, const struct demand *d, struct shapes *out);
/* schema-proof.c: 1: no value satisfies @d. 0: not proved. */
bool schema_is_none(struct schema *c, const struct demand *d);
bool shape_is_none(struct schema *c, const struct shape *s);
/* schema-values.c */
bool shape_admits(struct schema *c, const struct shape *s, const struct tree *value);
bool shape_admits_but_excluded(struct schema *c, const struct shape *s, const struct tree *value);
bool schema_admits(struct schema *c, const struct demand *d, const struct tree *value);
bool values_equal(const struct tree *x, const struct tree *y);
bool value_in(struct schema *c, const struct value_set *set, const struct tree *v);

/* schema-compile.c */
expr_t schema_compile(struct schema *c, const struct demand *d);
expr_t compile_shape(struct schema *c, const struct shape *s);
expr_t schema_compile_name(struct schema *c, const struct demand *d); /* the strings that satisfy @d, without quotes */
/* The written forms of one value. @point: an integer may have a point and zeros. */
expr_t compile_value(struct schema *c, const struct tree *value, bool point);
expr_t compile_number(struct schema *c, const struct shape *s);
expr_t compile_text(struct schema *c, const struct shape *s); /* without quotes */
expr_t compile_array(struct schema *c, const struct shape *s);
expr_t compile_object(struct schema *c, const struct shape *s);
expr_t compile_quoted(struct schema *c, expr_t text);

/* schema-text.c: the texts that @pattern is found in, or that have the format; EXPR_ERROR: schema.err is set. */
expr_t schema_pattern(struct schema *c, const char *text, uint32_t len, const struct tree *at);
/* *out is EXPR_ERROR when the format is an annotation. False: refused. */
bool schema_format(struct schema *c, const struct tree *format, expr_t *out);

bool text_matches(struct schema *c, expr_t e, const char *text, uint32_t len); /* its written form is in @e */

/* schema-keys.c: what the groups of a shape say about a property, and its rows about an element. NULL: nothing. */
#define KEY_PATTERNS_MAX 6

struct key_kind { /* properties that no group names, by the patterns that they match */
    struct key_kind *next;
    const struct demand *demands;
    expr_t name; /* without quotes */
    expr_t matched[KEY_PATTERNS_MAX];
    unsigned n;
};

const struct demand *key_demands(struct schema *c, const struct shape *s, const char *name, uint32_t len);
const struct demand *row_demands(struct schema *c, const struct shape *s, uint32_t index);
/* The kinds that may have a value. @taken: the names that the groups name; @names: those that properties may have. */
struct key_kind *key_kinds(struct schema *c, const struct shape *s, expr_t taken, expr_t names);
bool witness_names(struct schema *c, const struct witness *t, const char *name, uint32_t len);

static inline const struct demand *demand_add(struct schema *c, const struct demand *next, const struct tree *schema,
                                              bool negated)
{
    struct demand *d = schema_alloc(c, sizeof(*d));
    if (d) *d = (struct demand){next, schema, negated};
    return d;
}
