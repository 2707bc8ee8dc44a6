/* SPDX-License-Identifier: MIT */
#pragma once
/* Tables of schemas with texts that they accept and reject. In a table ' stands for ". */
#include "daemon/text/schema/schema.h"

struct schema_case {
    const char *schema;
    const char *accepts[16], *rejects[16]; /* texts, up to the first NULL */
};

/* Fails the test at the first text that the grammar of its schema takes or does not take against the table. */
void schema_check(const struct schema_case *cases, size_t n, const struct schema_options *o);

/* The schema is refused with @err and a message that contains @why. */
void schema_check_refused(const char *schema, int err, const char *why);

#define CHECK(cases) schema_check(cases, sizeof(cases) / sizeof(cases[0]), &(struct schema_options){0})
#define CHECK_WITH(cases, ...)                                                                                         \
    schema_check(cases, sizeof(cases) / sizeof(cases[0]), &(struct schema_options){__VA_ARGS__})
