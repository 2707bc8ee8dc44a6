/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What belongs between two texts: the tokens of such a request, and where its answer ends besides. The way of the
 * tokens is the model's (tokenizer_fim). The prefix is encoded as the beginning of a text, the suffix as what goes on
 * from something, as Code Llama's authors do.
 */
#include "daemon/request/prepare.h"

/*
 * Fill @p (zero before) from @g's prefix and suffix, neither of which is parsed for special tokens. The answer has
 * fim_tokens of the context, at most a quarter. When the texts are longer than the rest, the prefix is cut at its
 * beginning and the suffix at its end: the suffix has a quarter of the room, or what the prefix leaves. The cut in the
 * prefix moves by an eighth of the room at a time, on to the next line if that is near, so that typing goes on behind
 * tokens that are in the cache. 0; -EOPNOTSUPP: the model cannot; -EILSEQ, -EINVAL (both are empty), -E2BIG (the
 * context is no longer than a few tokens), -ENOMEM. All with a sentence.
 */
int fim_prepare(struct prompt *p, const struct loaded *m, const struct proto_generate *g);

/* Most tokens of the answer. */
int64_t fim_tokens(const struct proto_generate *g);

/* Lines of an answer: those before the first one that is not blank do not count. */
struct fim_lines {
    uint32_t left; /* 0: no limit */
    bool begun;
};

/*
 * Set @l to what @g asks, and add the beginning of its suffix to its stop strings: as many whole lines as hold
 * FIM_STOP_LEAST characters that are not blank (all there are, when those are fewer), at most FIM_STOP_MOST
 * bytes, without white space at the end. 0 or -ENOMEM; -EINVAL without room for one more.
 */
int fim_configure(struct fim_lines *l, struct proto_generate *g);
enum { FIM_STOP_LEAST = 8, FIM_STOP_MOST = 256 };

/* What is behind @from in @shown is new. True: the last line ends there; its newline and the rest are taken off. */
bool fim_end(struct fim_lines *l, struct buf *shown, size_t from);
