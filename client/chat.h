/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A conversation on a terminal, or line by line through a pipe. Without a session the client keeps the turns and sends
 * all of them with each request; the daemon finds the old ones in its cache. With a session the daemon keeps the turns
 * and the client sends only new text.
 */
#include "client/input.h"
#include "client/tool-loop.h"

/* The user's message, the calls of tools and their results, and the answer, which may be incomplete. */
struct chat_turn {
    struct proto_message *messages; /* [n], owned */
    size_t n;
    char uuid[40];   /* of its last request, for the log */
    size_t typed_at; /* offset of the typed line in the first message, behind the attached texts */
};

/* A file of the next message. */
struct chat_file {
    char *path;                 /* owned */
    enum proto_media_kind kind; /* 0: its text */
    size_t bytes;
};

struct chat {
    struct options *o;       /* commands change its model, system and session */
    struct chat_turn *turns; /* since the chat began or the session changed */
    size_t n_turns;
    struct tool_loop loop;   /* its tools */
    struct input next;       /* the files of the next message: texts, images, sounds */
    struct chat_file *files; /* [n_files], owned: what @next has */
    size_t n_files;
    bool quit;
};

/* Remove all turns but the first @keep. */
void chat_forget(struct chat *c, size_t keep);

/* Whether @line is a command: "/" and a word of letters. */
bool chat_is_command(const char *line);

/* Run the command. 0, or an exit status; errors are printed. */
int chat_command(struct chat *c, const char *line);
