/* SPDX-License-Identifier: MIT */
#pragma once
/* Care of the session store: it is opened, limited, and kept small in memory; old sessions expire. */
#include "daemon/request/core.h"
#include "daemon/session/list.h"
#include "daemon/session/session.h"

int sessions_open(struct core *core); /* 0, or -errno and an error message */
/* The limits of sessions in the configuration have changed. */
void sessions_limit(struct core *core);

/* The KV of session @x ends at the node with this id (zero: it has none), which the index keeps longer than others. */
void sessions_set_tail(struct core *core, struct session *x, struct prefix_id id);

/* In each turn of the engine: unload idle sessions when they take much memory, and remove expired ones. */
void sessions_turn(struct core *core, uint64_t now);
uint64_t sessions_next(const struct core *core); /* us when sessions_turn has work; UINT64_MAX: never */

/* The last attempt to save sessions that could not be saved. */
void sessions_save_rest(struct core *core);
