/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The keys of clients. Each line of the file is "NAME = HASH [PRIORITY]": HASH is the SHA-256 of the key in hexadecimal
 * digits, PRIORITY the most urgent priority of the key's requests ("interactive" or "batch"; default: any). A key is a
 * random number of 256 bits, so that a fast hash suffices.
 */
#include "libcommon/proto.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KEY_HASH = 32, KEY_NAME_MAX = 64 };

struct key {
    char name[KEY_NAME_MAX + 1]; /* letters, digits, '-', '_' and '.' */
    uint8_t hash[KEY_HASH];
    enum proto_priority priority; /* UNSET: any */
};

struct keys {
    struct key *list; /* [n], owned */
    size_t n;
};

/* Read the file at @path into *k, which is new. 0; -EPERM: the file is readable by all users or writable by others than
 * its owner; -EINVAL: a malformed line; else -errno; sets the error message. Call keys_fini in any case. */
int keys_read(struct keys *k, const char *path);
void keys_fini(struct keys *k);

/* The key with the text @text, or NULL. The time does not depend on the text's first wrong byte. */
const struct key *keys_find(const struct keys *k, const char *text);

/* Make a key, append its line to the file at @path (created with mode 0600), and copy the key to @text. 0; -EEXIST: a
 * key has this name; -EINVAL: invalid name; else -errno; sets the error message. */
enum { KEY_TEXT = 72 };
int keys_add(const char *path, const char *name, char text[static KEY_TEXT]);
