/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Several answers to one prompt, which come mixed: as text they are shown one after another, under a heading each, the
 * first that is not complete as it is made; as lines of JSON they come as they are. With one answer this is answer.h.
 */
#include "client/answer.h"

struct choice {
    struct buf text; /* that waits to be shown; with JSON: all of it so far */
    bool ended;
    struct proto_event end; /* that waits to be told */
};

struct choices {
    struct answer *answer;
    uint32_t n, at;       /* at: which is shown */
    struct choice *parts; /* [n]; NULL: there is one answer */
    bool headed;          /* the heading of @at stands */
    int status;           /* of the first that failed */
};

/* 0 or -ENOMEM with a sentence. @a outlives it. */
int choices_init(struct choices *s, struct answer *a);
void choices_fini(struct choices *s);

/* As answer_event; takes what @e holds, if that has to wait. */
int choices_event(struct choices *s, struct proto_event *e);
