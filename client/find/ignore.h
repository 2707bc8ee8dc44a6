/* SPDX-License-Identifier: MIT */
#pragma once
/* The rules of .gitignore files (gitignore(5)): the last rule that matches decides, those of a lower folder come later.
 */
#include <stdbool.h>
#include <stddef.h>

struct ignore_rule;

/* The rules of one folder; those of the folders above it follow by @above. */
struct ignore {
    const struct ignore *above; /* NULL: none */
    size_t base;                /* bytes of the folder's path in the tree, its last slash included */
    struct ignore_rule *rules;  /* [n], owned */
    size_t n;
};

/* Add the rules of the text of a .gitignore file. 0 or -ENOMEM. */
int ignore_add(struct ignore *g, const char *text, size_t len);
void ignore_fini(struct ignore *g);

/* Whether @path (in the tree, without a leading slash) is ignored. @dir: it is a folder. */
bool ignore_match(const struct ignore *g, const char *path, bool dir);

/* Whether the pattern matches all of @path: * and ? match no slash, a part ** any number of folders. Takes time of at
 * most the product of both lengths for each part. */
bool ignore_glob(const char *pattern, const char *path);
