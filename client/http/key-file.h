/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The keys of clients. Each line of the file is "NAME = HASH [WORD]...": HASH is the SHA-256 of the key in hexadecimal
 * digits. A word is the most urgent priority of the key's requests ("interactive" or "batch"; default: any), a limit
 * (key-limits.h), or "metrics". A key is a random number of 256 bits, so that a fast hash suffices.
 */
#include "client/http/key-limits.h"
#include "libcommon/proto.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_UID "uid." /* begins the names of users who have a uid and no key */

enum { KEY_HASH = 32, KEY_NAME_MAX = PROTO_USER_MAX };

struct key {
    unsigned holds;              /* by the list and by requests */
    char name[KEY_NAME_MAX + 1]; /* letters, digits, '-', '_' and '.'; not KEY_UID and more */
    uint8_t hash[KEY_HASH];
    enum proto_priority priority; /* UNSET: any */
    struct key_limits limits;
    bool metrics; /* it may read the metrics, which are of all keys */
    struct key_use use;
};

struct keys {
    struct key **list; /* [n], owned */
    size_t n;
};

/* Read the file at @path into *k, which is new. 0; -EPERM: the file is readable by all users or writable by others than
 * its owner; -EINVAL: a malformed line, or no key; else -errno; sets the error message. Call keys_fini in any case. */
int keys_read(struct keys *k, const char *path);
void keys_fini(struct keys *k);

/* Read the file again. A key with a known name keeps its use, and requests of a key that was removed keep that key. On
 * failure, as of keys_read, *k is unchanged. */
int keys_reload(struct keys *k, const char *path);

/* The key with the text @text, or NULL. The time does not depend on the text's first wrong byte. */
struct key *keys_find(const struct keys *k, const char *text);

/* Keep @key, which may be NULL, until key_drop. Returns it. */
struct key *key_hold(struct key *key);
void key_drop(struct key *key); /* NULL does nothing */

/* Make a key, append its line to the file at @path (created with mode 0600), and copy the key to @text. 0; -EEXIST: a
 * key has this name; -EINVAL: invalid name; else -errno; sets the error message. */
enum { KEY_TEXT = 72 };
int keys_add(const char *path, const char *name, char text[static KEY_TEXT]);
