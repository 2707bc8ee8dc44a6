/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Namespaces of the prefix cache. A namespace is a keyed digest of the owner (a uid, or the public owner for prefixes
 * that the administrator installs), the request's salt, and all that determines the bits of a block besides its tokens:
 * model, KV layout and type, RoPE and context policy, adapter, version of the arithmetic. The key is a secret in the
 * state directory, so that nobody can construct a file or a prompt that belongs to another user's namespace.
 *
 * The secret's file DIR/secret has 32 random bytes and mode 0600. It belongs to the daemon's user.
 */
#include "daemon/cache/prefix/prefix.h"

#define NAMESPACE_SECRET_BYTES 32

struct namespace_secret {
    uint8_t bytes[NAMESPACE_SECRET_BYTES];
};

/*
 * Reads DIR/secret into *out. If the file does not exist, makes DIR and the file: random bytes, written to secret.part,
 * fsynced, and renamed; only one process does that at a time. Removes a secret.part that a killed process has left.
 * @dir NULL: makes a random secret for this process only. 0; -EBADMSG when the file has the wrong size, mode, owner or
 * type; -errno. An error has a text and leaves *out untouched when @dir is not NULL.
 */
int namespace_secret_load(struct namespace_secret *out, const char *dir);

struct namespace_owner {
    bool public;      /* the public owner; @uid is ignored */
    uid_t uid;        /* else this user */
    const char *salt; /* [salt_len] bytes, or NULL: none */
    size_t salt_len;
};

/*
 * Computes the namespace into *out. @identity: of model, KV layout and arithmetic, as in struct disk_config. @policy:
 * 0, or a digest of the context policy and its numbers. Cannot fail.
 *
 * The digest is XXH3-128 (canonical) with a key of 192 bytes: the XXH3-128 of the secret followed by one byte i, for
 * i = 0 … 11. Its message is a list of fields, each with its length as 8 bytes before it; all numbers are
 * little-endian:
 *
 *   "hob space 1" (11 bytes); identity (16); 1 for the public owner, else 0 (1); uid, 0 for the public owner (4);
 *   length of the salt (8) and XXH3-128 of the salt with the same key (16) as one field; policy (8)
 */
void namespace_make(struct prefix_namespace *out, const struct namespace_secret *secret, const uint8_t identity[16],
                    const struct namespace_owner *owner, uint64_t policy);
