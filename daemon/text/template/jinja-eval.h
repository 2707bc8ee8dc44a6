/* SPDX-License-Identifier: MIT */
#pragma once
/* The evaluation of the tree, and the calls of functions in C from it. */
#include "daemon/text/template/jinja-ast.h"
#include "daemon/text/template/jinja-str.h"

struct jj_var {
    const struct jj_str *name;
    struct jj_value v;
    struct jj_var *next;
};

/* The names of a scope. Loops, macros and blocks each have a scope, which ends with them. */
struct jj_scope {
    struct jj_scope *parent;
    struct jj_var *vars;
    struct jj_var *spare; /* free variables, for reuse */
};

int jj_scope_set(struct jj *j, struct jj_scope *s, const struct jj_str *name, struct jj_value v);
/* Assigns to a name, a tuple of targets, or namespace.attribute. */
int jj_assign(struct jj *j, struct jj_scope *s, const struct jj_node *target, struct jj_value v);

int jj_eval(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value *out);

/* Results of a statement besides 0 and errors. */
#define JJ_BREAK    1
#define JJ_CONTINUE 2
int jj_exec(struct jj *j, struct jj_scope *s, const struct jj_node *statements, struct jj_sb *out);
/* Runs the statements in a new scope and collects their output in a string. */
int jj_capture(struct jj *j, struct jj_scope *parent, const struct jj_node *statements, struct jj_value *out);

/* Arguments of a call, as written. */
struct jj_kwarg {
    const struct jj_str *name;
    struct jj_value v;
};

struct jj_args {
    const struct jj_value *pos;
    size_t n_pos;
    const struct jj_kwarg *kw;
    size_t n_kw;
};

#define JJ_PARAMS 7

/* Arguments of a builtin. */
struct jj_call {
    struct jj_value self;         /* of filters, tests, methods */
    struct jj_value a[JJ_PARAMS]; /* in the order of .params; JJ_ABSENT: not given */
    const struct jj_args *args;   /* as written */
    const char *name;
};

typedef int (*jj_fn)(struct jj *j, const struct jj_call *c, struct jj_value *out);

struct jj_builtin {
    const char *name;
    jj_fn fn;
    const char *params; /* names, separated by blanks; NULL: any arguments, which the function reads from .args */
    unsigned required;  /* how many of them are mandatory */
};

/* NULL: no such name. */
const struct jj_builtin *jj_find_filter(const struct jj_str *name);
const struct jj_builtin *jj_find_test(const struct jj_str *name);
const struct jj_builtin *jj_find_global(const struct jj_str *name);
const struct jj_builtin *jj_find_method(struct jj_value of, const struct jj_str *name);
const struct jj_builtin *jj_find_in(const struct jj_builtin *table, size_t n, const struct jj_str *name);
#define JJ_FIND(table, name) jj_find_in((table), sizeof(table) / sizeof((table)[0]), (name))

int jj_call_builtin(struct jj *j, const struct jj_builtin *b, struct jj_value self, const struct jj_args *args,
                    struct jj_value *out);
int jj_call_value(struct jj *j, struct jj_value callee, const struct jj_args *args, struct jj_value *out);
/* Evaluates the arguments of a call, filter or test. */
int jj_eval_args(struct jj *j, struct jj_scope *s, const struct jj_node *call, struct jj_args *out);

/* obj.name and obj[key], as Jinja looks them up. The result is undefined if nothing is found. */
int jj_get_attr(struct jj *j, struct jj_value obj, struct jj_value name, struct jj_value *out);
int jj_get_item(struct jj *j, struct jj_value obj, struct jj_value key, struct jj_value *out);
/* obj[start:stop:step]; an omitted part is JJ_NONE. */
int jj_get_slice(struct jj *j, struct jj_value obj, const struct jj_value part[3], struct jj_value *out);
/* The attribute "a.b.0" of an item, for filters. JJ_NONE or JJ_ABSENT: the item itself. @fallback replaces every step
 * that finds nothing (JJ_NONE or JJ_ABSENT: no fallback). */
int jj_get_path(struct jj *j, struct jj_value item, struct jj_value path, struct jj_value fallback,
                struct jj_value *out);

int jj_binary(struct jj *j, enum jj_op op, struct jj_value a, struct jj_value b, struct jj_value *out);
int jj_unary(struct jj *j, enum jj_op op, struct jj_value a, struct jj_value *out);
/* "template" % arguments (a tuple, a dict or one value), and str.format. */
int jj_percent(struct jj *j, const struct jj_str *fmt, struct jj_value args, struct jj_value *out);
int jj_str_format(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_filter_tojson(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_strftime(struct jj *j, const struct jj_str *fmt, struct jj_value *out);
/* int(str, base) and float(str). 1: the text is not a number; 2: the integer does not fit into 64 bits. */
int jj_parse_int(const struct jj_str *s, int base, int64_t *out);
int jj_parse_float(const struct jj_str *s, double *out);
/* A sorted copy. The key of each item is its attribute @path. Strings are compared without case unless @case_sensitive.
 * JJ_NONE: the item itself is the key. JJ_ABSENT: a list with the item is the key, as the filter has it. */
int jj_sorted(struct jj *j, struct jj_value of, struct jj_value path, bool reverse, bool case_sensitive,
              struct jj_seq **out);
/* A copy of a string with its case changed. */
enum jj_case_op { JJ_TO_UPPER, JJ_TO_LOWER, JJ_TO_CAPITALIZED, JJ_TO_TITLE, JJ_TO_FILTER_TITLE, JJ_SWAP_CASE };
const struct jj_str *jj_change_case(struct jj *j, const struct jj_str *s, enum jj_case_op op);
/* str.strip: @chars NULL: white space; @sides: 1 left, 2 right. */
const struct jj_str *jj_strip(struct jj *j, const struct jj_str *s, const struct jj_str *chars, int sides);
/* str.splitlines() */
struct jj_seq *jj_split_lines(struct jj *j, const struct jj_str *s, bool keep);
const struct jj_str *jj_replace(struct jj *j, const struct jj_str *s, const struct jj_str *from,
                                const struct jj_str *to, int64_t count);

/* Arguments of builtins. An absent argument leaves *out unchanged. */
static inline bool jj_given(struct jj_value v)
{
    return v.type != JJ_ABSENT;
}
int jj_arg_int(struct jj *j, struct jj_value v, int64_t *out);
void jj_arg_bool(struct jj_value v, bool *out);
int jj_arg_str(struct jj *j, const struct jj_call *c, struct jj_value v, const struct jj_str **out);

/* Loops. */
int jj_loop_attr(struct jj *j, struct jj_value loop, const struct jj_str *name, struct jj_value *out);
int jj_loop_repr(struct jj_sb *sb, struct jj_loop *loop);
int jj_loop_call(struct jj *j, struct jj_loop *loop, const struct jj_args *args, struct jj_value *out);
