/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Infill: the tokens of a request for the text between a prefix and a suffix, and the stop string that the suffix
 * makes. The order of the tokens is the model's (tokenizer_fim). The prefix is encoded as the beginning of a text, the
 * suffix as the continuation of one, as Code Llama's authors do.
 */
#include "daemon/request/loaded-model.h"
#include "daemon/sequence/prompt.h"

/*
 * Fill @p (zero before) from the prefix and suffix of @g; neither is parsed for special tokens. The answer gets
 * fim_tokens() of the context, at most a quarter. When the texts are longer than the rest, the prefix is cut at its
 * beginning and the suffix at its end: the suffix gets a quarter of the room, or the part that the prefix leaves. The
 * cut in the prefix moves by an eighth of the room at a time, to the next line if that is near, so that a text that
 * grows still begins with cached tokens. 0; -EOPNOTSUPP: the model has no such tokens; -EILSEQ; -EINVAL: both texts are
 * empty; -E2BIG: the context is too short; -ENOMEM. All but -ENOMEM set the error message; on error @p is zero.
 */
int fim_prepare(struct prompt *p, const struct loaded *m, const struct proto_generate *g);

/* The greatest number of tokens of the answer. */
int64_t fim_tokens(const struct proto_generate *g);

/*
 * Add the beginning of the suffix of @g to its stop strings: as many whole lines as hold FIM_STOP_LEAST characters that
 * are not blank (all lines, when they hold fewer), at most FIM_STOP_MOST bytes, without white space at the end. 0 or
 * -ENOMEM; -EINVAL without room for another stop string: sets the error message.
 */
int fim_add_stop(struct proto_generate *g);
enum { FIM_STOP_LEAST = 8, FIM_STOP_MOST = 256 };
