/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Which model a file is: the XXH3-128 of all its bytes. It is made once; a record in the directory of the packed
 * weights trusts it again while dev, inode, size, mtime and ctime are the same. The record is DEV-INODE.id:
 * a header (struct record in fingerprint.c) and the file's path, by which records of models that are gone are found.
 */
#include "daemon/model/gguf.h"
#include <stdatomic.h>

struct fingerprint {
    uint8_t bytes[16]; /* XXH128's canonical (big-endian) form */
};

#define FINGERPRINT_HEX 33 /* with the terminator */
#define FINGERPRINT_EXT ".id"

void fingerprint_hex(char out[FINGERPRINT_HEX], const struct fingerprint *f);

/* What a record in @dir says of @g's file: 0, or 1 when there is none that holds. Reads no more than the record. */
int fingerprint_recall(struct fingerprint *out, const struct gguf *g, const char *dir);

/* Hash the file. 0; -ECANCELED when *stop became true; -ESTALE when the file is no longer the one that was opened;
 * -errno; with a sentence. Reads all of it. */
int fingerprint_make(struct fingerprint *out, const struct gguf *g, const atomic_bool *stop);

/* Write the record. 0, or -errno with a sentence. */
int fingerprint_remember(const struct fingerprint *f, const struct gguf *g, const char *dir);

/* Is the model of the record DIR/NAME still there? 0 and its fingerprint, or 1: the record is good for nothing. */
int fingerprint_living(struct fingerprint *out, const char *dir, const char *name);
