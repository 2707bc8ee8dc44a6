/* SPDX-License-Identifier: MIT */
#include "daemon/cache/media/media-file.h"
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define MAGIC  "hobembed"
#define SUFFIX ".embd"
#define PART   ".part"

_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "values are written as they are in memory");

static struct media_file_name name_of(const uint64_t name[2], const char *suffix)
{
    struct media_file_name n;
    snprintf(n.s, sizeof(n.s), "%016" PRIx64 "%016" PRIx64 "%s", name[0], name[1], suffix);
    return n;
}

struct media_file_name media_file_name(const uint64_t name[2])
{
    return name_of(name, SUFFIX);
}

struct media_file_name media_part_name(const uint64_t name[2])
{
    return name_of(name, PART);
}

bool media_file_name_read(const char *s, uint64_t name[2], bool *part)
{
    if (strlen(s) != 32 + strlen(SUFFIX) || strspn(s, "0123456789abcdef") != 32) return false;
    if (sscanf(s, "%16" SCNx64 "%16" SCNx64, &name[0], &name[1]) != 2) return false;
    *part = strcmp(s + 32, PART) == 0;
    return *part || strcmp(s + 32, SUFFIX) == 0;
}

uint64_t media_file_bytes(uint32_t n, uint32_t dim)
{
    return sizeof(struct media_file_header) + (uint64_t)n * dim * sizeof(float);
}

static void sum(uint8_t out[16], const void *data, size_t n)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(data, n));
    memcpy(out, c.digest, 16);
}

static int write_all(int fd, const void *data, size_t n)
{
    for (const char *at = data; n;) {
        ssize_t r = write(fd, at, n);
        if (r < 0 && errno == EINTR) continue;
        if (r <= 0) return r ? -errno : -EIO;
        at += r;
        n -= (size_t)r;
    }
    return 0;
}

static int defect(const char **wrong, const char *text)
{
    *wrong = text;
    return -EBADMSG;
}

static int read_all(int fd, void *data, size_t n, off_t from, const char **wrong)
{
    for (char *at = data; n;) {
        ssize_t r = pread(fd, at, n, from);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return -errno;
        if (r == 0) return defect(wrong, "is truncated");
        at += r;
        from += r;
        n -= (size_t)r;
    }
    return 0;
}

int media_file_write(int fd, const struct media_key *key, uid_t uid, const struct embeddings *e)
{
    const size_t bytes = (size_t)e->n * e->dim * sizeof(*e->values);
    struct media_file_header h = {.format = MEDIA_FILE_FORMAT, .uid = uid, .key = *key, .n = e->n, .dim = e->dim};
    memcpy(h.magic, MAGIC, sizeof(h.magic));
    sum(h.values_sum, e->values, bytes);
    sum(h.sum, &h, offsetof(struct media_file_header, sum));
    int r = write_all(fd, &h, sizeof(h));
    return r ? r : write_all(fd, e->values, bytes);
}

int media_file_header_read(int fd, uint64_t size, struct media_file_header *h, const char **wrong)
{
    uint8_t want[16];
    int r = read_all(fd, h, sizeof(*h), 0, wrong);
    if (r < 0) return r;
    if (memcmp(h->magic, MAGIC, sizeof(h->magic)) != 0) return defect(wrong, "has no embeddings");
    sum(want, h, offsetof(struct media_file_header, sum));
    if (memcmp(want, h->sum, 16) != 0) return defect(wrong, "has a damaged header");
    if (h->format != MEDIA_FILE_FORMAT) return defect(wrong, "has another version");
    if (!h->n || !h->dim || (uint64_t)h->n * h->dim > MEDIA_VALUES_MAX) return defect(wrong, "has an invalid header");
    return size == media_file_bytes(h->n, h->dim) ? 0 : defect(wrong, "is truncated or has another size");
}

int media_file_values_read(int fd, const struct media_file_header *h, struct embeddings **out, const char **wrong)
{
    uint8_t want[16];
    const size_t bytes = (size_t)h->n * h->dim * sizeof(float);
    struct embeddings *e;
    int r = embeddings_new(&e, h->n, h->dim);
    if (r < 0) return r;
    r = read_all(fd, e->values, bytes, sizeof(*h), wrong);
    if (r == 0) sum(want, e->values, bytes);
    if (r == 0 && memcmp(want, h->values_sum, 16) != 0) r = defect(wrong, "is damaged");
    if (r < 0)
        embeddings_unref(e);
    else
        *out = e;
    return r;
}
