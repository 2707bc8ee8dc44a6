/* SPDX-License-Identifier: MIT */
#pragma once
/* Answers given to the parser of a markup, and the parts that come out. */
#include "daemon/output/markup-format.h"

/* A template with its markup. */
struct family {
    struct template *template;
    struct markup *markup;
};

void family_init(struct family *f, const char *source, size_t len);
void family_fini(struct family *f);

/* How an answer is given: in pieces of 1 to @most random bytes (0: at once), by a parser that is now and then replaced
 * by its clone. */
struct pieces {
    size_t most;
    uint32_t seed;
    bool clones;
};

/* {"content", "thinking", "tool_calls": [{"name", "arguments"[, "id"]}], "partial": null or {"name", "arguments":
 * text}, "withdrawn", "warnings"}, which the caller owns. Asserts that steps of calls are in order. */
json_t *parsed(const struct markup_format *f, const char *answer, size_t len, struct pieces pieces);

/* The format of answers to requests with @tools, which begin as @start. */
struct markup_format format_of(const struct family *f, const json_t *tools, enum markup_start start);

/* Member @key of @parsed is the JSON text @want. */
void expect_member(const json_t *parsed, const char *key, const char *want);
