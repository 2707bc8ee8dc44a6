/* SPDX-License-Identifier: MIT */
#pragma once
/* Bytes that do not change and that several owners share, such as the file of an image. */
#include <stddef.h>
#include <stdint.h>

struct blob;

/* On 0 the caller owns one reference of *out. The functions of references may be called from any thread. */

/* A copy of @data [@n]. 0 or -ENOMEM. */
int blob_new(struct blob **out, const void *data, size_t n);
/* The memory @data [@n], allocated by malloc, which the blob owns from then on. 0 or -ENOMEM (nothing taken). */
int blob_take(struct blob **out, void *data, size_t n);
/* The content of @fd, a memfd with the seals F_SEAL_WRITE and F_SEAL_SHRINK, so that no other process can change it or
 * cut it off; a large one is mapped, not copied, and the caller still owns @fd. 0; with an error message: -EINVAL: not
 * such a memfd, empty, sparse, or of huge pages; -EFBIG: more than @most bytes; -ENOMEM and others: it cannot be
 * mapped. */
int blob_map(struct blob **out, int fd, size_t most);

struct blob *blob_ref(struct blob *b);   /* NULL ok; returns @b */
struct blob *blob_unref(struct blob *b); /* NULL ok, returns NULL */

const uint8_t *blob_data(const struct blob *b);
size_t blob_size(const struct blob *b); /* NULL: 0 */
