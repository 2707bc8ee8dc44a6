/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * GGUF v2 and v3 files (format: ggml's docs/gguf.md), mapped read-only. Every count, length, offset and size is
 * checked against the file before it is used. All pointers from these functions are inside the mapping; they are valid
 * until gguf_close. The first part of a split model (libcommon/model-parts.h) is opened with the others: its directory
 * has the tensors of all.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* Of metadata values. */
enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPES
};

struct gguf_str {
    const char *data; /* in the mapping, not terminated */
    size_t len;
};

struct gguf_kv {
    struct gguf_str key;
    enum gguf_type type, elem; /* elem: of an array */
    uint64_t n;                /* elements of an array, else 1 */
    const void *value;         /* first byte of the value (of an array: of its first element) */
};

struct gguf_tensor {
    struct gguf_str name;
    uint32_t n_dims;
    uint64_t dims[4]; /* innermost first; unused ones are 1 */
    uint32_t type;    /* ggml's number */
    uint64_t size;    /* bytes; 0 when the type is unknown here */
    const void *data; /* NULL when the type is unknown here */
};

/* Copy @s for a message or for status: printable ASCII, cut to @cap > 0 bytes with the terminator. */
void gguf_text(char *out, size_t cap, struct gguf_str s);

struct gguf;

/* On 0 *out is owned by the caller. On error returns -errno; the error message has the file, the offset and the cause.
 * A file whose other parts cannot be read is open, with its own keys and tensors: see gguf_complete. */
int gguf_open(struct gguf **out, const char *path);
struct gguf *gguf_close(struct gguf *g); /* NULL ok, returns NULL */

/* 0: all parts of the model are here. Else -errno and the error message: why they are not. */
int gguf_complete(const struct gguf *g);
/* Part @i of the model; 0 is @g itself. NULL: there are not so many. */
const struct gguf *gguf_part(const struct gguf *g, uint32_t i);
uint32_t gguf_n_parts(const struct gguf *g); /* as the first part says, whether they are here or not */

const char *gguf_path(const struct gguf *g);
uint64_t gguf_file_size(const struct gguf *g);      /* of all parts */
const struct stat *gguf_stat(const struct gguf *g); /* of the mapped file (the first part), when it was opened */
uint32_t gguf_version(const struct gguf *g);
size_t gguf_n_kv(const struct gguf *g);
const struct gguf_kv *gguf_kv_at(const struct gguf *g, size_t i);
size_t gguf_n_tensors(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i);

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key);
const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name);

/* Typed reads. Return 0 and set *out; 1 if the file does not have the key (*out is unchanged); -EINVAL and the error
 * message if the key has another type. Integers of any width and sign are converted if the value fits. */
int gguf_get_u32(const struct gguf *g, const char *key, uint32_t *out);
int gguf_get_i64(const struct gguf *g, const char *key, int64_t *out);
int gguf_get_f32(const struct gguf *g, const char *key, float *out);
int gguf_get_bool(const struct gguf *g, const char *key, bool *out);
int gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *out);

/* Arrays. gguf_next_str iterates over an array of strings: start with *it = NULL, which makes the first call set *index
 * to 0; each call needs the *index of the one before. Returns false past the end, and if @kv is not an array of
 * strings. */
bool gguf_next_str(const struct gguf_kv *kv, const void **it, struct gguf_str *out, uint64_t *index);
float gguf_array_f32(const struct gguf_kv *kv, uint64_t i);   /* elem GGUF_F32 */
int32_t gguf_array_i32(const struct gguf_kv *kv, uint64_t i); /* elem GGUF_I32 or GGUF_U32 */

/* "Q4_0" for ggml's type number, or NULL; *block and *bytes: values and bytes of a block. */
const char *gguf_tensor_type_name(uint32_t type, uint32_t *block, uint32_t *bytes);
