/* SPDX-License-Identifier: MIT */
#pragma once
/* The words of a JSON text, for json-tree.c. */
#include "daemon/text/template/jinja-arena.h"
#include "libcommon/buf.h"
#include <stdbool.h>
#include <stdint.h>

struct json_reader {
    struct jj_arena *arena;
    const char *start, *at, *end;
    uint32_t values;  /* read so far */
    struct buf stack; /* the children of the open containers */
};

void reader_skip(struct json_reader *r); /* white space */
bool reader_take(struct json_reader *r, char c);
bool reader_word(struct json_reader *r, const char *word);

/* Each returns 0; -EBADMSG, -ENOMEM, -E2BIG with the message set. The text lies in the arena. */
int reader_string(struct json_reader *r, const char **text, uint32_t *len);
int reader_number(struct json_reader *r, const char **text, uint32_t *len);

int reader_bad(const struct json_reader *r, const char *why); /* -EBADMSG with the place */
