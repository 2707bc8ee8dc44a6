/* SPDX-License-Identifier: MIT */
#pragma once
/* The beginning of requests, and their end when they are cancelled or late. */
#include <stdint.h>

struct core;
struct request;

/* From the main thread with the mailbox's lock held, before the engine's thread has seen @r: have a job prepare it
 * while a step computes, if its type allows that. */
void request_start_early(struct request *r);
/* Begin new requests, a few of each user in a turn. The model is loaded, or could not be. */
void requests_start_new(struct core *core);

/* End requests that were cancelled, that lost a part of their answer, or that are too late. */
void requests_sweep(struct core *core, uint64_t now);
uint64_t requests_next_deadline(const struct core *core); /* us; UINT64_MAX: none */
