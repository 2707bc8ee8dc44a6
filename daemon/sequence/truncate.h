/* SPDX-License-Identifier: MIT */
#pragma once
/* Take back tokens of a sequence. Engine thread only. */
#include "daemon/cache/cache.h"

struct seq;

/*
 * Only the KV of the first @n of seq_items() counts as computed from now on; nothing changes if no more is. The tokens
 * themselves stay. @s keeps as many blocks as it has, for the positions that it may need: those from @n on are its own,
 * so that it may write them, and what others or the prefix index have of the old ones stays as it is. @s is running.
 *
 * 0. -EOPNOTSUPP with an error message: the context has rotated, so that blocks before @n may have been given back;
 * nothing has changed. -ENOBUFS with an error message: there are not enough free blocks; @s has lost some of its blocks
 * and is to be preempted (its KV ends with a whole block, at or before @n).
 */
int seq_truncate_kv(struct kv_cache *c, struct seq *s, uint32_t n);

/*
 * Take back tokens of the answer: only the first @n of prompt.tokens stay, n_prompt <= @n. The tokens and their text,
 * the output, the sampling, the context's view and the KV are then as if no more had been sampled; nothing changes if
 * there are no more. The last token that stays is computed again, for its logits. The tokens of the answer must have
 * been picked by, or accepted into, s->sampling.
 *
 * Events cannot be taken back. The caller holds back those of seq_push for each token that it may take back, and those
 * of seq_cut, and shows them when it keeps the token; likewise whatever it counts by tokens. After this call seq_push
 * gives the events that follow those of the tokens that stay. The first token of one of several answers must stay,
 * because an answer without any is the one that the others are made from.
 *
 * @s runs, or waits and has no KV. 0. -ENOMEM, nothing has changed; -EOPNOTSUPP with an error message, as
 * seq_truncate_kv: nothing has changed; without KV, after a preemption, it can be done. -ENOBUFS with an error message,
 * as seq_truncate_kv: the tokens are taken back, and @s is to be preempted.
 */
int seq_truncate(struct kv_cache *c, struct seq *s, uint32_t n);
