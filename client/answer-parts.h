/* SPDX-License-Identifier: MIT */
#pragma once
#include "client/tool-calls.h"
#include "libcommon/buf.h"
#include "libcommon/proto.h"

/* What arrived of an answer. */
struct answer_parts {
    struct buf text, thinking;
    struct tool_calls calls;   /* the last one may be incomplete, unless the reason is PROTO_STOP_TOOL_CALLS */
    enum proto_reason reason;  /* of an answer that has ended */
    struct proto_text session; /* where it is stored, if it is */
};

void answer_parts_fini(struct answer_parts *p);
