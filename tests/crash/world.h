/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What a user was told of sessions. The script of a log notes each request before it sends it, "BEGIN WHAT NAME TO
 * TEXT", and, when the daemon has said that it is done, "DONE ANSWER", each with the tag of a user in front and a byte
 * 31 between the words. A user sends one request at a time and has names of its own.
 */
#include "tests/crash/history.h"

enum { WORLD_TURNS = 12, WORLD_SESSIONS = 256, WORLD_ANYTIME = 16 };

struct world_session {
    const char *name;
    const char *texts[WORLD_TURNS], *answers[WORLD_TURNS]; /* [n]; an answer is NULL if nobody knows it */
    uint32_t n;
};

struct world {
    struct world_session list[WORLD_SESSIONS]; /* [n] */
    uint32_t n;
};

struct request {
    const char *tag, *what, *name, *to, *text, *answer;
    uint32_t begun, done; /* changes; done UINT32_MAX: never */
};

struct script {
    struct request *list; /* [n] */
    uint32_t n;
    char **texts; /* [n_texts], of the notes */
    uint32_t n_texts;
};

void script_read(struct script *s, const struct history *h);
void script_free(struct script *s);

/* The sessions when the changes before @at were begun: with all acknowledged requests, and in @after also with the
 * interrupted ones, of which open[] has *n_open. Returns the number of acknowledged requests. */
uint32_t world_at(const struct script *s, uint32_t at, struct world *before, struct world *after,
                  const struct request *open[WORLD_ANYTIME], uint32_t *n_open);

const struct world_session *world_find(const struct world *w, const char *name);
/* NULL is no session. */
bool world_same(const struct world_session *told, const struct world_session *found);

/* Is @found what the daemon may have after a crash? Returns NULL, or a text for the user, valid until the next call. */
const char *world_check(const struct script *s, uint32_t at, const struct world *found);
