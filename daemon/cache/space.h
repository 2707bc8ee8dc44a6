/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Namespaces of the prefix cache. A space is a keyed digest of the owner (a uid, or the public one for what the
 * administrator installs), the request's salt, and everything the bits of a block depend on besides its tokens: model,
 * KV layout and type, RoPE and context policy, adapter, arithmetic version. The key is a secret of the state directory,
 * so that nobody can make a file or a prompt that falls into another's space.
 */
#include "daemon/cache/prefix.h"

#define SPACE_SECRET_BYTES 32

struct space_secret {
    uint8_t bytes[SPACE_SECRET_BYTES];
};

/* Read DIR/secret (0600, ours, 32 bytes), or make it: random, written under a temporary name, fsynced, linked without
 * replacing another's. @dir NULL: a random one for this process. 0 or -errno with a sentence; -EBADMSG for a file of
 * the wrong size or mode. */
int space_secret_load(struct space_secret *out, const char *dir);

struct space_owner {
    bool public; /* of the administrator; else */
    uid_t uid;
    const char *salt; /* [salt_len] or NULL */
    size_t salt_len;
};

/* @identity: of model, KV and arithmetic (16 bytes, as in struct disk_config). @policy: 0, or a digest of the context
 * policy and its numbers. Every field is length-prefixed in the digest (XXH3-128 with a secret derived from @secret).
 */
void space_make(struct prefix_space *out, const struct space_secret *secret, const uint8_t identity[16],
                const struct space_owner *owner, uint64_t policy);
