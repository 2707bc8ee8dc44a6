/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A streaming reader of one literal: JSON, or a relative of JSON that models write: Python's words and strings, bare
 * keys, strings in marks of their own, and the arguments of a Python call. Writes it as compact JSON. Texts are UTF-8,
 * whose characters may be split between calls.
 */
#include "libcommon/buf.h"
#include <stdbool.h>
#include <stdint.h>

enum { LITERAL_DEPTH = 128, LITERAL_WORD = 64 };

/* What a character is to the literal. */
enum literal_result {
    LITERAL_MORE,   /* a part of it */
    LITERAL_DONE,   /* its end */
    LITERAL_BEHIND, /* the first character behind it */
    LITERAL_BAD,    /* not allowed; the literal has no more */
};

/* Has no pointers but to constants: may be copied. */
struct literal {
    const char *quote; /* the caller's: before and after a string; "" or "\"": strings are those of JSON and Python */
    enum {
        LITERAL_START,
        LITERAL_VALUE,
        LITERAL_VALUE_OR_END,
        LITERAL_KEY_OR_END,
        LITERAL_COLON,
        LITERAL_AFTER,
        LITERAL_STRING,
        LITERAL_ESCAPE,
        LITERAL_HEX,
        LITERAL_WORDS,
        LITERAL_OPENING, /* a part of the first quote */
    } at;
    bool call;      /* begins behind the "(" of a call, ends with ")" */
    bool key;       /* the string or the word is a key */
    bool comma;     /* a comma is due before the next element */
    char delimiter; /* of the string; '\0': quote */
    uint8_t n_word, n_hex, n_quote;
    uint16_t hex, high; /* high: a first surrogate, which waits for the second */
    uint16_t depth;
    char word[LITERAL_WORD];
    char open[LITERAL_DEPTH];
};

void literal_start(struct literal *l, const char *quote, bool call);

/* Takes one character, appends JSON to @out: an enum literal_result, or -ENOMEM. */
int literal_feed(struct literal *l, char c, struct buf *out);

/* The text ends: LITERAL_DONE, LITERAL_BAD or -ENOMEM. */
int literal_end(struct literal *l, struct buf *out);

/* Appends @text as the inside of a JSON string. 0 or -ENOMEM. */
int literal_escape(struct buf *out, const char *text, size_t len);
