/* SPDX-License-Identifier: MIT */
#pragma once
/* A folder of a test's own. */
#include <stddef.h>

enum { FOLDER_PATH = 64 };

/* Make one whose name says @what. 0 or -1. */
int folder_make(char path[FOLDER_PATH], const char *what);
/* Take it away with all that is in it. 0 or -1. */
int folder_remove(const char *path);

/* The path of @name in it; one of the last eight. */
const char *folder_at(const char *path, const char *name);
/* Write @text to the file @name in it, and make the directories on the way. 0 or -1. */
int folder_put(const char *path, const char *name, const char *text);
