/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The texts of tool calls as a grammar: the marks of the model's markup, the names of the tools, and arguments that are
 * valid against their schemas. A schema that cannot be enforced in this form is refused.
 */
#include "daemon/text/grammar/grammar-build.h"
#include "daemon/text/markup/markup.h"
#include "daemon/text/tokenizer/tokenizer.h"
#include <jansson.h>

enum tool_calls_part {
    TOOL_CALLS_ANSWER, /* a whole answer: one call, or, without @only, one or more */
    TOOL_CALLS_REST,   /* the rest of a section, or of a call, behind its mark */
};

struct tool_grammar {
    const struct markup *markup;
    const struct tokenizer *tokenizer; /* marks that are control tokens are these tokens */
    const json_t *tools;               /* as tools_parse() checked it */
    const char *only;                  /* the only tool that may be called; NULL: all */
    enum markup_start start;           /* TOOL_CALLS_ANSWER: where the answer begins */
    enum tool_calls_part part;
};

/* Makes the expression in @b. 0; -EDOM: a schema is invalid, cannot be enforced or exceeds a limit: sets the error
 * message, with the tool's name and the place; -ENOMEM. */
int tool_grammar_expr(struct grammar_builder *b, const struct tool_grammar *t, expr_t *out);

/* --- tool-arguments.c: the arguments of the tool @f, a function of the list --- */

/* A JSON object. 0, or schema_expr()'s error. */
int tool_arguments_json(struct grammar_builder *b, const json_t *f, expr_t *out);

/* How arguments are written one by one. */
struct tool_argument_form {
    expr_t open, mid, close; /* OPEN KEY MID VALUE CLOSE */
    expr_t separator;        /* between two arguments */
    const char *end;         /* NULL: strings are JSON; otherwise they are raw text, which @end ends */
};

/* Those of the schema's properties in its order. 0; -ENOTSUP: a keyword cannot be enforced in this form, or
 * schema_expr()'s error: sets the error message. */
int tool_arguments_each(struct grammar_builder *b, const json_t *f, const struct tool_argument_form *form, expr_t *out);
