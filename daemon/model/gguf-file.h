/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to gguf*.c: the state of an open file, and the steps of reading its directory. */
#include "daemon/model/gguf.h"

struct gguf {
    char *path;
    struct stat stat;
    const uint8_t *map; /* [size] */
    size_t size;
    uint32_t version;
    size_t alignment, data; /* data: offset of the tensor data section */
    struct gguf_kv *kvs;
    struct gguf_tensor *tensors;
    uint64_t *offsets; /* [n_tensors] into the data section */
    size_t n_kv, n_tensors;
    uint32_t *kv_order, *tensor_order; /* indices, sorted by name */
    struct gguf **others; /* [n_others] the other parts of a split model; their tensors are in the directory above */
    uint32_t n_others;
    uint32_t n_parts; /* as the first part says; 1: the model is one file */
    char *incomplete; /* the reason why the model's parts are not joined; NULL: they are */
    int incomplete_errno;
};

#define GGUF_ENTRIES_MAX (1u << 20) /* of keys and of tensors */

/* A position in the file. Each gguf_read_… function reads at it and moves it behind what was read. */
struct gguf_reader {
    struct gguf *g;
    size_t at; /* byte offset, <= g->size */
};

/* A name as text for a message (gguf_text). */
struct gguf_shown {
    char s[72];
};

struct gguf_shown gguf_show(struct gguf_str name);

/* Set the error message, with the file and the byte offset @at before the formatted text. Returns -EINVAL. */
int gguf_bad(const struct gguf *g, size_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* gguf.c: open one file, not the other parts of its model; errors as gguf_open. */
int gguf_open_file(struct gguf **out, const char *path);
/* Sort the index of the tensors anew. As gguf_names_sort. */
int gguf_tensors_sort(struct gguf *g);

/* gguf-parts.c: open the other parts of @g's model and put their tensors into @g's directory. 0, also if there are
 * none; -EOPNOTSUPP: @g is not the first part; -EINVAL, -ENOENT, -ENOMEM or another -errno; sets the error message. */
int gguf_parts_join(struct gguf *g);
void gguf_parts_close(struct gguf *g);

/* --- gguf-read.c. Return 0; -EINVAL and the error message if the file ends first or the value is invalid. @what names
 * the value in the message. --- */

int gguf_read_bytes(struct gguf_reader *r, uint64_t n, const void **p, const char *what);
int gguf_read_u32(struct gguf_reader *r, uint32_t *v, const char *what);
int gguf_read_u64(struct gguf_reader *r, uint64_t *v, const char *what);

/* A key and its value. */
int gguf_read_kv(struct gguf_reader *r, struct gguf_kv *kv);

/* A tensor's name, dimensions, type and size, and its *offset in the data section. The caller sets t->data. */
int gguf_read_tensor(struct gguf_reader *r, struct gguf_tensor *t, uint64_t *offset);

/* --- gguf-names.c: an index of entries sorted by name. An entry is a struct that begins with its name (struct
 * gguf_str). --- */

struct gguf_names {
    const void *base; /* [n] entries of @stride bytes */
    size_t stride, n;
};

/* Create the sorted index of the entries: order[n]. Returns 0; -EINVAL and the error message if two
 * entries have the same name (@what: "key" or "tensor"). The caller frees *order in both cases. -ENOMEM leaves *order
 * unset. */
int gguf_names_sort(const struct gguf *g, uint32_t **order, struct gguf_names names, const char *what);

/* The entry with this name, or NULL. */
const void *gguf_names_find(struct gguf_names names, const uint32_t *order, const char *name);
