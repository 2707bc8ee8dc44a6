/* SPDX-License-Identifier: MIT */
#pragma once
/* A device fails while it computes: what it computed is computed again without it, with the same bits, and no request
 * ends. */

struct core;

/* The backend's forward has returned -EIO, whose message is set: sequences with blocks give them back, and wait. */
void recover_begin(struct core *core);

/* Once in each turn: when no job uses the blocks any more, the backend continues without the device, and the sequences
 * are admitted again. Nothing is admitted before. */
void recover_turn(struct core *core);
