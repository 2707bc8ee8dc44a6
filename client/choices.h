/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Several answers to one prompt (--n above 1), whose events arrive mixed. As text they are printed one after another,
 * each under a heading; the first unfinished one streams. As JSON lines they are printed in order of arrival. With one
 * answer this module only forwards to answer.h.
 */
#include "client/answer.h"

struct choice {
    struct answer_parts parts; /* not printed yet; with JSON: all so far */
    bool ended;
    struct proto_event end; /* not handled yet */
};

struct choices {
    struct answer *answer;
    uint32_t n, at;       /* at: index of the printed answer */
    struct choice *parts; /* [n]; NULL: there is one answer */
    bool headed;          /* the heading of @at is printed */
    int status;           /* of the first failed answer */
};

/* 0 or -ENOMEM; sets the error message. @a outlives it. */
int choices_init(struct choices *s, struct answer *a);
void choices_fini(struct choices *s);

/* As answer_event. Takes the contents of @e if they must wait. */
int choices_event(struct choices *s, struct proto_event *e);
