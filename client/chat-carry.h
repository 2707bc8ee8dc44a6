/* SPDX-License-Identifier: MIT */
#pragma once
/* A session belongs to a model. When the chat changes its model, it takes the conversation of its session along. */
#include "client/chat.h"

/* Make the turns of the chat's session turns of the chat, and leave the session, which stays as it is. Without a
 * session, or if it has no turn yet, nothing changes. 0, or an exit status; errors are printed. */
int chat_carry(struct chat *c);
