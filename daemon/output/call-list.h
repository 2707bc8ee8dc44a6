/* SPDX-License-Identifier: MIT */
#pragma once
/* The tool calls of one answer, as its steps tell them. */
#include "daemon/output/channel.h"
#include "libcommon/buf.h"

struct listed_call {
    uint32_t index; /* struct channel_call's */
    struct buf id, name;
    struct buf arguments; /* JSON text, a part of it while the call is not whole */
    bool whole;
};

/* {0} is empty. It owns its calls. */
struct call_list {
    struct listed_call *calls; /* [n] without withdrawn ones; only the last one may not be whole */
    size_t n;
};

void call_list_fini(struct call_list *l);
int call_list_clone(struct call_list *to, const struct call_list *from); /* 0; -ENOMEM, and @to is {0} */

/* The next step. A call that begins has @id. 0 or -ENOMEM. */
int call_list_add(struct call_list *l, const struct channel_call *step, const char *id);

size_t call_list_whole(const struct call_list *l); /* the number of whole calls */

enum { CALL_ID_BYTES = 9 };

/* An id for the call @index of an answer, letters and digits: a function of @seed and @index. */
void call_id_make(char out[CALL_ID_BYTES + 1], uint64_t seed, uint32_t index);
