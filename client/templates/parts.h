/* SPDX-License-Identifier: MIT */
#pragma once
/* The parts of a template's text. */
#include <stdbool.h>
#include <stddef.h>

enum template_kind {
    TEMPLATE_TEXT,
    TEMPLATE_INPUT, /* {input} */
    TEMPLATE_WORD,  /* {1}; the name is the digits */
    TEMPLATE_NAMED, /* {name} */
};

struct template_part {
    enum template_kind kind;
    const char *text; /* the text, or the name; in the template */
    size_t len;
};

/* Read the part at the beginning of @text, which is not empty. Returns the bytes that it takes, at least 1. */
size_t template_part(const char *text, struct template_part *p);

/* Whether @name[@len] can be the name of a variable: letters, digits, _ and -, the first one a letter or _, and not
 * "input". */
bool template_is_name(const char *name, size_t len);

/* Whether @text has {input}. */
bool template_takes_input(const char *text);
