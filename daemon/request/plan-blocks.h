/* SPDX-License-Identifier: MIT */
#pragma once
/* The blocks of KV and the recurrent states in the plan's view. The scheduler counts blocks of one KV group only; this
 * chooses it. */
#include <stdint.h>

struct core;
struct seq;

/* Blocks of @group that @s holds, or would hold if it ran: of the states one. */
uint32_t plan_blocks(const struct core *core, const struct seq *s, uint32_t group);

/* Blocks of @group that sequences can have; of a group with a window those that no sequence holds, as if none were
 * shared. */
uint32_t plan_free_blocks(const struct core *core, uint32_t group);

/* The plan's held has what @s holds now of each group with a window. */
void plan_count_held(struct core *core, struct seq *s);

/* Count what stale entries hold, and let the plan's group be the one with the smallest share of its blocks left. If
 * this is another one than before, all entries become stale. */
void plan_choose_group(struct core *core);
