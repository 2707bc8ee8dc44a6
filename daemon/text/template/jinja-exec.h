/* SPDX-License-Identifier: MIT */
#pragma once
/* What statements ask of loops (jinja-loop.c). */
#include "daemon/text/template/jinja-eval.h"

/* Run the loop @n (a JJ_N_FOR) over @of; @depth: how many of the same loop are around it (recursive). */
int jj_loop_run(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value of, unsigned depth,
                struct jj_sb *out);
