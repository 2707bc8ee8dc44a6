/* SPDX-License-Identifier: MIT */
#pragma once
/* The files of a chat's next message: texts, images and sounds. */
#include "client/chat.h"

/* The command /file (@kind 0), /image or /audio: attach the file @arg ("~/" is the home directory); "": list them;
 * "none": remove all. 0, or an exit status; errors are printed. */
int chat_attach(struct chat *c, enum proto_media_kind kind, const char *arg);

/* Attach the files of the command line. As chat_attach. */
int chat_attach_given(struct chat *c);

/* If standard input is a pipe or a file, and the user sits at a terminal (/dev/tty, standard output and standard
 * error), attach its text, and make the terminal the standard input. As chat_attach. */
int chat_attach_pipe(struct chat *c);

/* The message @m, which began with @text bytes of attached texts, got no answer: attach what it had to the next message
 * again. */
void chat_attach_again(struct chat *c, struct proto_message *m, size_t text);
/* The next message has none. */
void chat_attach_none(struct chat *c);
