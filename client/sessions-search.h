/* SPDX-License-Identifier: MIT */
#pragma once
/* hob sessions search: the user's sessions that have all words. */
#include "client/connection.h"
#include "client/options.h"

/*
 * Search the sessions in @list, the daemon's answer to session.list, over @c, for the words of @o, and print a line for
 * each that has all of them, the last used first. The sessions are read from the least recently used on, so that their
 * order of use stays. Returns the exit status: EXIT_FAILED if there is none; errors are printed.
 */
int sessions_search(const struct options *o, struct connection *c, const char *list, size_t len);
