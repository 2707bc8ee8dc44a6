/* SPDX-License-Identifier: MIT */
#pragma once
/* Take back tokens of a sequence. Engine thread only. */
#include "daemon/cache/cache.h"

struct seq;

/*
 * Only the KV of the first @n of seq_ids() counts as computed from now on; nothing changes if no more is. The tokens
 * themselves stay. @s keeps as many blocks as it has, for the positions that it may need: those from @n on are its own,
 * so that it may write them, and what others or the prefix index have of the old ones stays as it is. @s is running.
 *
 * 0. -EOPNOTSUPP with an error message: the context has rotated, so that positions before @n may be gone; nothing has
 * changed. -ENOBUFS with an error message: there are not enough free blocks; @s has lost some of its blocks and is to
 * be preempted (its KV ends with a whole block, at or before @n).
 */
int seq_truncate_kv(struct kv_cache *c, struct seq *s, uint32_t n);
