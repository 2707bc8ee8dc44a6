/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A JSON text as a tree that keeps what a schema compiler needs and a general JSON library drops: the order of members,
 * numbers as they are written, and the place of each value. Everything lies in an arena.
 */
#include "daemon/text/template/jinja-arena.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TREE_BYTES_MAX (8u << 20) /* of a text */
#define TREE_DEPTH_MAX 256        /* of nested arrays and objects */

enum tree_kind { TREE_NULL, TREE_FALSE, TREE_TRUE, TREE_NUMBER, TREE_STRING, TREE_ARRAY, TREE_OBJECT };

struct tree {
    enum tree_kind kind;
    uint32_t id;      /* unique in its text, counted from 0 in document order */
    uint32_t count;   /* children; or the bytes of @text */
    uint32_t key_len; /* bytes of @key */
    const char *text; /* a string's value in UTF-8 (it may contain NUL), or a number as it is written */
    const char *key;  /* the name of a member of an object */
    const struct tree *parent;
    struct tree **child;  /* [count], in the order of the text */
    struct tree **sorted; /* [count] members by name, of objects only */
    const char *source;   /* where the value begins in the text that was parsed */
    size_t source_len;
    void *words; /* free for the user of the tree; NULL at first */
    bool marked; /* the same; false at first */
};

/* Parses s[0..n). The tree lies in @a and points into @s only by source. Returns 0; -EBADMSG: not JSON, with duplicate
 * names, or with an escaped half of a surrogate pair; -E2BIG: beyond the limits above or the arena's budget; -ENOMEM.
 */
int tree_parse(struct jj_arena *a, const char *s, size_t n, struct tree **out);

/* The member @name of @t, or NULL (also if @t is not an object). */
const struct tree *tree_member(const struct tree *t, const char *name, size_t len);
const struct tree *tree_get(const struct tree *t, const char *name);

bool tree_is(const struct tree *t, const char *text); /* the string @text */

/* Writes the JSON pointer of @t, as a fragment ("#/properties/a"), into @out[n], cut to fit; returns @out. */
char *tree_pointer(const struct tree *t, char *out, size_t n);
