/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The values of Jinja expressions: Python's values as templates see them. Values are small and passed by copy. They
 * point into the arenas of the render (constants: of the template). jj_ is the prefix of the interpreter.
 *
 * A function that returns a pointer returns NULL on failure; j->err is then the negative error, and the error message
 * is set. A function that returns int returns 0 or that error.
 */
#include "daemon/text/template/jinja-arena.h"
#include "daemon/text/template/limits.h"
#include "daemon/text/text.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct jj;
struct jj_node;
struct jj_sb;
struct jj_scope;
struct jj_loop;
struct jj_builtin;

/* Text with its provenance. Valid UTF-8. A span boundary is never inside a character. */
struct jj_str {
    const char *p;
    size_t len, chars; /* bytes, code points */
    /* NULL: .markup is the provenance of the whole text. Else the ends of the spans count from @base bytes before p,
     * and may be beyond len, because strings with the same beginning share spans. */
    const struct text_span *spans;
    size_t n_spans, base;
    bool markup;
    bool safe; /* Markup: not escaped again */
};

enum jj_type {
    JJ_ABSENT, /* an argument that was not given; never a value in a template */
    JJ_UNDEFINED,
    JJ_NONE,
    JJ_BOOL,
    JJ_INT,
    JJ_FLOAT,
    JJ_STR,
    JJ_SEQ,
    JJ_DICT,
    JJ_NAMESPACE,
    JJ_FUNC,
    JJ_LOOP,
    JJ_CYCLER,
    JJ_JOINER,
};

struct jj_value {
    enum jj_type type : 8;
    bool data; /* numbers, booleans: user data, not the template's (strings have spans) */
    union {
        bool b;
        int64_t i;
        double f;
        const struct jj_str *s;
        struct jj_seq *q;
        struct jj_dict *d; /* of dicts and namespaces */
        const struct jj_undef *u;
        const struct jj_func *fn;
        struct jj_loop *loop;
        struct jj_cycler *cycler;
        struct jj_joiner *joiner;
    };
};

enum jj_seq_kind {
    JJ_LIST,
    JJ_TUPLE,
    JJ_GROUP, /* a tuple of groupby: (grouper, list) */
    JJ_RANGE,
    JJ_KEYS, /* views of a dict */
    JJ_VALUES,
    JJ_ITEMS,
    JJ_GENERATOR, /* can be iterated once, from pos */
};

struct jj_seq {
    enum jj_seq_kind kind;
    struct jj_value *v; /* [n] */
    size_t n, cap, pos;
    int64_t start, stop, step; /* of a range */
};

struct jj_entry {
    struct jj_value k, v;
    uint64_t hash;
};

struct jj_dict {
    struct jj_entry *e; /* [n], in order of insertion */
    size_t n, cap;
    uint32_t *index; /* [n_index] 1 + entry, 0: free; NULL while small */
    size_t n_index;
};

/* The reason that a value is undefined. The error message is made only when it is needed. */
struct jj_undef {
    const char *hint;          /* the whole error message, or NULL */
    const char *owner;         /* type of the object that lacks it, or NULL for a variable */
    const struct jj_str *name; /* variable or attribute, or NULL: element @index */
    int64_t index;
};

struct jj_func {
    const struct jj_builtin *builtin; /* else a macro */
    struct jj_value self;             /* of a method */
    const struct jj_node *macro;
    struct jj_scope *scope; /* where the macro was defined */
};

struct jj_cycler {
    struct jj_seq *items;
    size_t pos;
};

struct jj_joiner {
    struct jj_value sep;
    bool used;
};

/* Functions of the interpreter that attributes, filters, tests and repr() call, although they are in files above. */
struct jj_upper {
    const struct jj_builtin *(*find_filter)(const struct jj_str *name);
    const struct jj_builtin *(*find_test)(const struct jj_str *name);
    const struct jj_builtin *(*find_method)(struct jj_value of, const struct jj_str *name);
    int (*loop_attr)(struct jj *j, struct jj_value loop, const struct jj_str *name, struct jj_value *out);
    int (*loop_repr)(struct jj_sb *sb, struct jj_loop *loop);
};

/* One render. */
struct jj {
    const struct jj_upper *upper;
    struct jj_budget budget;
    struct jj_arena mem, text, span; /* values, bytes of strings, their spans */
    struct template_limits limits;
    uint64_t steps, made; /* used so far: nodes, bytes of strings */
    uint32_t calls, nest;
    uint64_t closures; /* macros and callers made so far; their scopes must not be reused */
    unsigned line;
    time_t now;
    bool autoescape;
    int err;
    struct jj_dict *vars;
};

/* Errors. Each returns -EINVAL ("template line N: …") or -E2BIG. */
int jj_error(struct jj *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int jj_too_much(struct jj *j, const char *unit, uint64_t limit);
/* The error of an arena. */
int jj_oom(struct jj *j, int r);
/* Charges @n steps of work. */
int jj_charge(struct jj *j, uint64_t n);
/* Charges for touching @n bytes. */
int jj_charge_bytes(struct jj *j, uint64_t n);
/* Charges for comparing @name with @n names. A few dozen names are free. */
int jj_charge_names(struct jj *j, uint64_t n, const struct jj_str *name);
/* Enters one more level of evaluation. On 0 the caller calls jj_leave. */
int jj_enter(struct jj *j);
static inline void jj_leave(struct jj *j)
{
    j->nest--;
}

void *jj_alloc(struct jj *j, size_t n);                /* zeroed */
void *jj_alloc_n(struct jj *j, size_t n, size_t size); /* zeroed, overflow checked */

/* Making values. */
static inline struct jj_value jj_none(void)
{
    return (struct jj_value){.type = JJ_NONE};
}
static inline struct jj_value jj_bool(bool b)
{
    return (struct jj_value){.type = JJ_BOOL, .b = b};
}
static inline struct jj_value jj_int(int64_t i)
{
    return (struct jj_value){.type = JJ_INT, .i = i};
}
static inline struct jj_value jj_float(double f)
{
    return (struct jj_value){.type = JJ_FLOAT, .f = f};
}
static inline struct jj_value jj_string(const struct jj_str *s)
{
    return (struct jj_value){.type = JJ_STR, .s = s};
}
static inline struct jj_value jj_sequence(struct jj_seq *q)
{
    return (struct jj_value){.type = JJ_SEQ, .q = q};
}
static inline struct jj_value jj_mapping(struct jj_dict *d)
{
    return (struct jj_value){.type = JJ_DICT, .d = d};
}
/* @hint: a static error message. */
int jj_undefined(struct jj *j, const char *hint, struct jj_value *out);
int jj_undefined_name(struct jj *j, const struct jj_str *name, struct jj_value *out);
int jj_undefined_attr(struct jj *j, struct jj_value of, struct jj_value name, struct jj_value *out);
/* The error of using the undefined value @v. */
int jj_fail_undefined(struct jj *j, struct jj_value v);
/* The same if @v is undefined, else 0. */
int jj_check_defined(struct jj *j, struct jj_value v);

/* Sequences. */
struct jj_seq *jj_seq_new(struct jj *j, enum jj_seq_kind kind, size_t cap);
int jj_seq_push(struct jj *j, struct jj_seq *q, struct jj_value v);
/* A tuple of two. */
int jj_pair(struct jj *j, struct jj_value a, struct jj_value b, struct jj_value *out);

/* Dictionaries. A key that is not hashable is an error. */
struct jj_dict *jj_dict_new(struct jj *j);
int jj_dict_set(struct jj *j, struct jj_dict *d, struct jj_value k, struct jj_value v);
/* 1: found; 0: not found. */
int jj_dict_get(struct jj *j, const struct jj_dict *d, struct jj_value k, struct jj_value *out);
int jj_dict_get_str(struct jj *j, const struct jj_dict *d, const struct jj_str *k, struct jj_value *out);
/* Removes an entry. 1: *out is its value; 0: not found. */
int jj_dict_del(struct jj *j, struct jj_dict *d, struct jj_value k, struct jj_value *out);
struct jj_seq *jj_dict_view(struct jj *j, const struct jj_dict *d, enum jj_seq_kind kind);
/* 1: @v can be a key; 0: it cannot; -E2BIG. Charges for the parts of @v that a hash reads. */
int jj_hashable(struct jj *j, struct jj_value v);

/* The results of Python's operations. */
const char *jj_type_name(struct jj_value v);
bool jj_truth(struct jj_value v);
static inline bool jj_is_number(struct jj_value v)
{
    return v.type == JJ_INT || v.type == JJ_FLOAT || v.type == JJ_BOOL;
}
static inline bool jj_is_integral(struct jj_value v)
{
    return v.type == JJ_INT || v.type == JJ_BOOL;
}
static inline bool jj_is_list(struct jj_value v)
{
    return v.type == JJ_SEQ && v.q->kind == JJ_LIST;
}
static inline bool jj_is_tuple(struct jj_value v)
{
    return v.type == JJ_SEQ && (v.q->kind == JJ_TUPLE || v.q->kind == JJ_GROUP);
}
static inline int64_t jj_integral(struct jj_value v)
{
    return v.type == JJ_BOOL ? v.b : v.i;
}
/* True if the integer part of @f fits into 64 bits (false for NaN). */
static inline bool jj_float_fits(double f)
{
    return f >= -0x1p63 && f < 0x1p63;
}
static inline double jj_real(struct jj_value v)
{
    return v.type == JJ_FLOAT ? v.f : (double)jj_integral(v);
}
int jj_equal(struct jj *j, struct jj_value a, struct jj_value b, bool *out);
/* *out: -1, 0, 1, or 2 when unordered (NaN). @op is for the error: "<". */
int jj_compare(struct jj *j, const char *op, struct jj_value a, struct jj_value b, int *out);
/* @x in @of. */
int jj_contains(struct jj *j, struct jj_value of, struct jj_value x, bool *out);
/* The items of an iterable value. A generator is used up. The result may be the sequence itself. */
struct jj_seq *jj_iterate(struct jj *j, struct jj_value v);
/* len(). */
int jj_length(struct jj *j, struct jj_value v, int64_t *out);

/* JSON -> value, with the provenance of user data unless @markup. Strings point into @json. */
int jj_from_json(struct jj *j, const json_t *json, bool markup, struct jj_value *out);
