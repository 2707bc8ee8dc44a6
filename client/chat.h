/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A conversation on a terminal, or line by line through a pipe. Without a session it is kept here, and every turn sends
 * all of it: the daemon finds what it has read already. With one it is the daemon's, and a turn sends the new words.
 */
#include "client/options.h"
#include "libcommon/buf.h"

struct chat_turn {
    char *asked, *said; /* owned; said is what came, were it cut short */
};

struct chat {
    struct options *o;       /* its model, system and session change on the way */
    struct chat_turn *turns; /* since it began, or the session was changed */
    size_t n_turns;
    bool quit;
};

/* Forget all turns but the first @keep. */
void chat_forget(struct chat *c, size_t keep);

/* Whether @line is a command: "/" and a word of letters. */
bool chat_is_command(const char *line);

/* Do it. 0, or an exit status, after what is wrong has been said. */
int chat_command(struct chat *c, const char *line);
