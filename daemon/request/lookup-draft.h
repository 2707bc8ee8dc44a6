/* SPDX-License-Identifier: MIT */
#pragma once
/* The drafter of the daemon: it finds what is repeated (speculate/guesser.h). */

#include <stdbool.h>

struct core;
struct seq;

/* Make it the drafter of @core. */
void lookup_draft_use(struct core *core);

/* @s gives back its slot, or ends. @ended: its answer is kept for drafts of later ones. */
void lookup_draft_leave(struct core *core, struct seq *s, bool ended);
