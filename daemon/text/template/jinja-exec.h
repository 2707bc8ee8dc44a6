/* SPDX-License-Identifier: MIT */
#pragma once
/* The functions of loops (jinja-loop.c) that statements call. */
#include "daemon/text/template/jinja-eval.h"

/* Runs the loop @n (a JJ_N_FOR) over @of. @depth: how many runs of the same loop enclose it (recursive). */
int jj_loop_run(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value of, unsigned depth,
                struct jj_sb *out);
