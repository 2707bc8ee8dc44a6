/* SPDX-License-Identifier: MIT */
#pragma once
/* The parts of hobd constrain: a constraint, and a text that is fed to it token by token. */
#include "daemon/text/grammar/grammar.h"
#include "daemon/text/grammar/token-trie.h"
#include <jansson.h>

struct constrain_options {
    const char *model, *grammar, *regex, *schema, *cases;
    bool json, any_order, compact, lenient;
};

struct constrain {
    const struct tokenizer *tokenizer;
    const struct token_trie *trie;
    uint64_t *mask; /* scratch, [token_trie_words(trie)] */
};

/* The times of masks, in microseconds, in the order in which they were made. */
struct constrain_times {
    double *us; /* [n] */
    size_t n, cap;
};

struct constrain_result {
    bool accepted;
    size_t at, tokens; /* bytes that may stand so; tokens of the text */
    struct constrain_times times;
};

/* Makes the grammar that the options ask for, and its time in *us. 0, and the caller holds *out; or -errno: sets the
 * error message. */
int constrain_compile(const struct constrain *c, const struct constrain_options *o, struct grammar **out, double *us);

/* The same for the JSON Schema s[0..n). What --schema-lenient ignores is printed to standard error. */
int constrain_compile_schema(const struct constrain_options *o, const char *s, size_t n, struct grammar **out,
                             double *us);

/* Feeds @text [@n]: before each token, and at the end, a mask is made, which must have the token exactly if the grammar
 * accepts it (else -EPROTO). 0 for accepted and refused texts; or -errno: sets the error message. Free
 * out->times.us. */
int constrain_feed(struct constrain *c, struct grammar *g, const char *text, size_t n, struct constrain_result *out);

/* Judges each line of o->cases and prints its results. 0 or -errno: sets the error message. */
int constrain_cases(struct constrain *c, const struct constrain_options *o);

int constrain_time(struct constrain_times *t, double us); /* appends a time: 0 or -ENOMEM, sets the error message */

/* p50, p99 and max of the times, which get sorted; 0 without any. */
void constrain_percentiles(struct constrain_times *t, double out[3]);
