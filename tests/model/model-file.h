/* SPDX-License-Identifier: MIT */
#pragma once
/* GGUF files for tests: byte by byte, or of tiny models (tests/support/tiny.h). */
#include "daemon/model/gguf.h"
#include "libcommon/buf.h"
#include "tests/support/tiny.h"

/* Write @n bytes to a new file in TMPDIR. Returns its path; the caller unlinks the file and frees the path. */
char *model_file_write(const void *bytes, size_t n);

/* Open these bytes as a GGUF file, which is unlinked then. Returns as gguf_open; the caller closes *out. */
int model_file_open(struct gguf **out, const void *bytes, size_t n);

/* Append the file that tiny_write makes of @t (NULL: tiny_init's) to @out. */
void model_file_tiny_bytes(struct buf *out, const struct tiny *t);
/* The same, opened; the caller closes it. */
struct gguf *model_file_tiny(const struct tiny *t);

/* Offset of the first @what in @b. Fails the test if there is none. */
size_t model_file_find(const struct buf *b, const char *what);

/* Append a part of a GGUF file to @b. */
void put_u32(struct buf *b, uint32_t v);
void put_u64(struct buf *b, uint64_t v);
void put_str(struct buf *b, const char *s);
void put_header(struct buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv);
void put_key_u32(struct buf *b, const char *key, uint32_t v);
void put_key_f32(struct buf *b, const char *key, float v);
void put_key_str(struct buf *b, const char *key, const char *v);
void put_tensor(struct buf *b, const char *name, uint32_t type, uint64_t offset, uint32_t n_dims, const uint64_t *dims);
void put_zeros(struct buf *b, size_t n);
void put_padding(struct buf *b, size_t align);
