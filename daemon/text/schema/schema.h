/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * JSON Schema as a grammar: 2020-12, and the spellings of earlier drafts (definitions, dependencies, items as an array,
 * additionalItems, id and the boolean exclusiveMinimum of draft 4).
 *
 * The grammar holds only JSON texts that are valid against the schema, and all of them that have the written form:
 * - one value; between its parts nothing, or (not with @compact) one space after ',' and ':', or a line break and up to
 *   SCHEMA_INDENT_MAX spaces around brackets and after ',';
 * - strings as in spelling.h; where the schema asks for an integer, digits without point and exponent; a number that
 * has a limit other than 0 without exponent;
 * - the properties that the schema names come in its order, all others after them, or (@any_order) in any order. No
 *   property that the schema names comes twice; but in any order, in an object with more than 6 of them, those that are
 *   not required may, and more than 8 required ones come in the order of the schema or of "required".
 *
 * A keyword that this form cannot enforce is refused with its name and JSON pointer, or ignored with @lenient. Formats
 * are enforced; a format that no specification defines is an annotation, as are unknown keywords.
 *
 * Limits, each refused when it is reached: tree_parse's; SCHEMA_BYTES_MAX of memory; SCHEMA_STEPS_MAX keywords looked
 * at, each as often as it is combined with others; SCHEMA_SHAPES_MAX alternatives of one value; SCHEMA_DEPTH_MAX levels
 * of nested values; SCHEMA_REFS_MAX references from one to the next; the builder's own.
 */
#include "daemon/text/grammar/grammar-build.h"
#include "libcommon/buf.h"

#define SCHEMA_BYTES_MAX  ((size_t)32 << 20)
#define SCHEMA_STEPS_MAX  2000000
#define SCHEMA_SHAPES_MAX 512
#define SCHEMA_DEPTH_MAX  200
#define SCHEMA_REFS_MAX   200
#define SCHEMA_INDENT_MAX 40

struct schema_options {
    bool any_order, compact, lenient;
};

/* Makes the expression of the schema s[0..n) in @b. @ignored (may be NULL) gets a line "#/pointer: reason" for each
 * keyword that @lenient ignores. Returns 0; -EBADMSG: not JSON, or not a schema; -ENOTSUP: a keyword cannot be
 * enforced; -EINVAL: nothing is valid; -E2BIG: a limit; -ENOMEM. */
int schema_expr(struct grammar_builder *b, const char *s, size_t n, const struct schema_options *o, struct buf *ignored,
                expr_t *out);

/* The same for the strings that are valid, each written as it is, without quotes and escapes. */
int schema_string_expr(struct grammar_builder *b, const char *s, size_t n, expr_t *out);
