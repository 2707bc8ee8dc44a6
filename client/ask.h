/* SPDX-License-Identifier: MIT */
#pragma once
/* One question to a daemon that runs, one answer: what the commands do. None is started. */
#include "client/link.h"
#include "client/options.h"

/* When the daemon goes away, or is on its way out, before it has answered: is the next one asked? */
enum ask_again {
    ASK_ONCE,    /* no */
    ASK_UNHEARD, /* if it is certain that nothing was done: it says that it is stopping, or did not even greet */
    ASK_ANYWAY,  /* yes: the question changes nothing */
};

struct ask {
    enum proto_event_type want; /* the event that is the answer */
    enum ask_again again;
    int64_t wait_ms; /* for it; -1: for ever */
};

/*
 * Send @request over @c, which is connected first if it is not; it stays so for the next one. 0: the caller owns *e and
 * calls proto_event_fini. Else the exit status; what is wrong has been said. link_close in any case.
 */
int ask(const struct options *o, struct link *c, const struct proto_request *request, const struct ask *how,
        struct proto_event *e);
