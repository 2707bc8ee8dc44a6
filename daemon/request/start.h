/* SPDX-License-Identifier: MIT */
#pragma once
/* The beginning of requests, and their end when they are cancelled or late. */
#include <stdint.h>

struct core;

/* Begin new requests, a few of each user in a turn. The model is loaded, or could not be. */
void requests_start_new(struct core *core);

/* End requests that were cancelled, that lost a part of their answer, or that are too late. */
void requests_sweep(struct core *core, uint64_t now);
uint64_t requests_next_deadline(const struct core *core); /* us; UINT64_MAX: none */
