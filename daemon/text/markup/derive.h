/* SPDX-License-Identifier: MIT */
#pragma once
/* The steps of markup_new(). Each fills in a part of @m, whose texts are "" before. 0 or -ENOMEM. */
#include "daemon/text/markup/probe.h"

/* Does the template write Harmony's marks? */
bool is_harmony(const struct markup_source *s);

/* m->thinking. */
int derive_thinking(struct markup *m, const struct markup_source *s);

/* m->calls, by rendering calls. Without success the form stays MARKUP_NO_CALLS. */
int derive_calls(struct markup *m, const struct markup_source *s);

/* m->calls from marks that the template, or the vocabulary, has. */
int known_calls(struct markup *m, const struct markup_source *s);

/* m->junk. After the other steps. */
int derive_junk(struct markup *m, const struct markup_source *s);

/* --- of derive_calls() --- */

/* A rendered call: the text behind the question, and where the parts of the call are. */
struct call_text {
    struct piece reply;
    size_t begin, end; /* from the object, or the name, to the end of the arguments */
    size_t name_end;
};

/* The arguments of the call whose name is at @name: of the first call (@first) or the second. Finds begin and end.
 * MARKUP_NO_CALLS: not found. */
enum markup_form locate_call(struct piece reply, size_t name, bool first, struct call_text *out);

/* c->quote, the key texts, and what is between the name and the end of the arguments. @one: the first call; @rest: the
 * text from its end to the next call or to the end of the turn; @last: the same behind the last call. Moves the marks
 * of arguments from the beginning of @rest and @last into c. */
int describe_envelope(struct markup_calls *c, const struct call_text *one);
int describe_literal(struct markup_calls *c, const struct call_text *one, const struct call_text *two);
int describe_tags(struct markup_calls *c, const struct call_text *one, struct piece *rest, struct piece *last);
