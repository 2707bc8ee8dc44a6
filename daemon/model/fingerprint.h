/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The fingerprint of a model: the XXH3-128 of all bytes of its file, or of all its parts one behind the other. It is
 * computed once and recorded in the directory of the packed weights. The record is valid while dev, inode, size, mtime
 * and ctime of the file are the same. A record is the file DEV-INODE.id: a header (struct record in fingerprint.c) and
 * the paths of the model's files, so that records of removed models can be found.
 */
#include "daemon/model/gguf.h"
#include <stdatomic.h>

struct fingerprint {
    uint8_t bytes[16]; /* XXH128's canonical (big-endian) form */
};

#define FINGERPRINT_HEX 33 /* with the terminator */
#define FINGERPRINT_EXT ".id"

void fingerprint_hex(char out[FINGERPRINT_HEX], const struct fingerprint *f);

/* Read the record of @g's file in @dir: 0; 1: there is no valid one; -errno: it cannot be read; sets the error message.
 * Does not read the model's file. */
int fingerprint_recall(struct fingerprint *out, const struct gguf *g, const char *dir);

/* Hash the file, all of it. Returns 0; -ECANCELED if *stop became true; -ESTALE if the file has changed since it was
 * opened; -errno. Errors set the error message. */
int fingerprint_make(struct fingerprint *out, const struct gguf *g, const atomic_bool *stop);

/* Name the file as it is: a hash of what a record is valid for, of all parts. It needs no reading, but a copy of the
 * file has another name. */
void fingerprint_of_identity(uint8_t out[16], const struct gguf *g);

/* Write the record. 0, or -errno and the error message. */
int fingerprint_remember(const struct fingerprint *f, const struct gguf *g, const char *dir);

/* Check that the model of the record DIR/NAME exists and is unchanged: 0 and its fingerprint; 1 if the record is void.
 */
int fingerprint_living(struct fingerprint *out, const char *dir, const char *name);
