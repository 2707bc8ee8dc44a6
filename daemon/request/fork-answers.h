/* SPDX-License-Identifier: MIT */
#pragma once
/* Several answers to one prompt (n > 1): the prompt is computed once, and each answer continues with its KV. */
struct core;
struct seq;

/* The prompt of @s, the first answer, is computed: make the others of its group, which wait as preempted sequences do.
 * 0; -ENOMEM, and none is made. */
int fork_answers(struct core *core, struct seq *s);
