/* SPDX-License-Identifier: MIT */
#pragma once
/* The administrator's prefixes: system prompts whose KV all users may find. */

struct core;

/* Queue a prefill of each *.txt in config.prefixes_dir, at the lowest priority. */
void public_prefixes_warm(struct core *core);
