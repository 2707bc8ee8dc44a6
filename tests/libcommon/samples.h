/* SPDX-License-Identifier: MIT */
#pragma once
/* One message of every type with every key set, for the tests that send them round and that damage them. */
#include "libcommon/proto.h"

enum { SAMPLE_REQUESTS = 18, SAMPLE_EVENTS = 18 };

/* The @i-th; the caller calls _fini. */
void sample_request(unsigned i, struct proto_request *r);
void sample_event(unsigned i, struct proto_event *e);
