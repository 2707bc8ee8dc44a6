/* SPDX-License-Identifier: MIT */
#pragma once
/* From source to tokens to the tree. Everything is in the arena of the template and never changes afterwards. */
#include "daemon/text/template/jinja-value.h"

enum jj_token_type {
    JJ_T_EOF,
    JJ_T_DATA,
    JJ_T_VAR_BEGIN,
    JJ_T_VAR_END,
    JJ_T_BLOCK_BEGIN,
    JJ_T_BLOCK_END,
    JJ_T_NAME,
    JJ_T_STRING,
    JJ_T_INT,
    JJ_T_FLOAT,
    JJ_T_OP,
};

enum jj_op {
    JJ_OP_NONE,
    JJ_OP_ADD,
    JJ_OP_SUB,
    JJ_OP_MUL,
    JJ_OP_DIV,
    JJ_OP_FLOORDIV,
    JJ_OP_MOD,
    JJ_OP_POW,
    JJ_OP_TILDE,
    JJ_OP_EQ,
    JJ_OP_NE,
    JJ_OP_LT,
    JJ_OP_LE,
    JJ_OP_GT,
    JJ_OP_GE,
    JJ_OP_ASSIGN,
    JJ_OP_DOT,
    JJ_OP_COLON,
    JJ_OP_COMMA,
    JJ_OP_PIPE,
    JJ_OP_SEMICOLON,
    JJ_OP_LPAREN,
    JJ_OP_RPAREN,
    JJ_OP_LBRACKET,
    JJ_OP_RBRACKET,
    JJ_OP_LBRACE,
    JJ_OP_RBRACE,
    JJ_OP_IN, /* only in comparisons */
    JJ_OP_NOTIN,
};

struct jj_token {
    enum jj_token_type type;
    enum jj_op op;
    unsigned line;
    const char *p; /* of data and names as in the source, of strings without escapes */
    size_t len;
    int64_t i;
    double f;
};

struct jj_tokens {
    struct jj_token *v; /* [n], the last is JJ_T_EOF; malloc'ed */
    size_t n, cap;
};

/* Splits the template into tokens. Newlines become \n. The caller frees out->v. -EINVAL: sets the error message, with
 * line and cause. */
int jj_lex(struct jj_arena *a, const char *src, size_t len, struct jj_tokens *out);
/* "+" and so on, for error messages. */
const char *jj_op_text(enum jj_op op);

enum jj_kind {
    /* expressions */
    JJ_N_CONST,   /* value */
    JJ_N_NAME,    /* name */
    JJ_N_TUPLE,   /* list: items */
    JJ_N_LIST,    /* list */
    JJ_N_DICT,    /* list: keys a with values b */
    JJ_N_UNARY,   /* op a */
    JJ_N_BINARY,  /* a op b */
    JJ_N_CONCAT,  /* list, ~ between */
    JJ_N_AND,     /* a, b */
    JJ_N_OR,      /* a, b */
    JJ_N_NOT,     /* a */
    JJ_N_COMPARE, /* a, list of operands: op a */
    JJ_N_COND,    /* a if b else c (or NULL) */
    JJ_N_ATTR,    /* a . value (a name, or a number) */
    JJ_N_ITEM,    /* a [ b ] */
    JJ_N_SLICE,   /* a : b : c, each or NULL */
    JJ_N_CALL,    /* a ( list: arguments ) */
    JJ_N_FILTER,  /* a (NULL: of a block) | name ( list ) */
    JJ_N_TEST,    /* a is name ( list ) */
    /* parts of expressions */
    JJ_N_PAIR,
    JJ_N_OPERAND,
    JJ_N_ARG,      /* a */
    JJ_N_KWARG,    /* name = a */
    JJ_N_STAR,     /* * a */
    JJ_N_STARSTAR, /* ** a */
    JJ_N_NSREF,    /* name . value, to be assigned */
    JJ_N_PARAM,    /* name, default a or NULL */
    /* statements */
    JJ_N_DATA,         /* value */
    JJ_N_OUTPUT,       /* a */
    JJ_N_IF,           /* list: branches a (NULL: else) with body b */
    JJ_N_FOR,          /* a target, b iterable, c condition or NULL, list: body, d: else; flag: recursive */
    JJ_N_SET,          /* a target, b value */
    JJ_N_SET_BLOCK,    /* a target, b filters or NULL, list: body */
    JJ_N_MACRO,        /* name, d: parameters, list: body, uses */
    JJ_N_CALL_BLOCK,   /* a call, b: the caller, a macro without name */
    JJ_N_FILTER_BLOCK, /* b filters, list: body */
    JJ_N_WITH,         /* d: targets a with values b, list: body */
    JJ_N_SCOPE,        /* list: body (generation) */
    JJ_N_BLOCK,        /* list: body; flag: scoped, it sees the names around it, not only the template's */
    JJ_N_SELF,         /* list: all blocks, as macros, for the variable "self" */
    JJ_N_AUTOESCAPE,   /* a, list: body */
    JJ_N_BREAK,
    JJ_N_CONTINUE,
    JJ_N_KINDS,
};

/* The special variables that a macro's body uses without declaring them. */
#define JJ_USES_CALLER  1
#define JJ_USES_VARARGS 2
#define JJ_USES_KWARGS  4

struct jj_node {
    uint8_t kind, op; /* enum jj_kind, enum jj_op */
    uint8_t uses;
    bool flag;
    uint16_t depth; /* height of the tree below this node */
    unsigned line;
    uint32_t n; /* length of list (of d, in macros) */
    struct jj_node *next;
    struct jj_node *a, *b, *c, *d, *list;
    const struct jj_str *name;
    const struct jj_builtin
        *fn; /* of filters and tests; NULL: the name does not exist, an error when it is evaluated */
    struct jj_value value;
};

/* Parses a template into a list of statements. -EINVAL: sets the error message, with line and cause; -ENOMEM. */
int jj_parse(struct jj_arena *a, const char *src, size_t len, struct jj_node **out);
