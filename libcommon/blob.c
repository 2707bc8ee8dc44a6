/* SPDX-License-Identifier: MIT */
#include "libcommon/blob.h"
#include "libcommon/error.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { MAPPED_MIN = 64 << 10 /* bytes of a file that is mapped, not copied */ };

struct blob {
    atomic_uint refs;
    bool mapped;
    size_t n;
    void *data; /* owned */
};

static int make(struct blob **out, void *data, size_t n, bool mapped)
{
    struct blob *b = malloc(sizeof(*b));
    if (!b) return -ENOMEM;
    *b = (struct blob){.refs = 1, .mapped = mapped, .n = n, .data = data};
    *out = b;
    return 0;
}

int blob_take(struct blob **out, void *data, size_t n)
{
    return make(out, data, n, false);
}

int blob_new(struct blob **out, const void *data, size_t n)
{
    void *copy = malloc(n ? n : 1);
    if (!copy) return -ENOMEM;
    if (n) memcpy(copy, data, n);
    int r = make(out, copy, n, false);
    if (r < 0) free(copy);
    return r;
}

int blob_map(struct blob **out, int fd, size_t most)
{
    const int wanted = F_SEAL_WRITE | F_SEAL_SHRINK, seals = fcntl(fd, F_GET_SEALS);
    struct stat st;
    if (seals < 0 || (seals & wanted) != wanted)
        return error_say(-EINVAL, "the file descriptor is not a memfd that is sealed against writing and shrinking");
    if (fstat(fd, &st) < 0) return error_say(-errno, "fstat: %s", strerror(errno));
    if (st.st_size <= 0) return error_say(-EINVAL, "the file is empty");
    if ((uint64_t)st.st_size > most)
        return error_say(-EFBIG, "the file has %lld bytes; the limit is %zu", (long long)st.st_size, most);
    const size_t n = (size_t)st.st_size;
    void *data = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return error_say(-errno, "cannot map the file: %s", strerror(errno));
    /* The kernel limits the number of mappings, and a small one wastes the rest of its page. */
    int r = n < MAPPED_MIN ? blob_new(out, data, n) : make(out, data, n, true);
    if (r < 0 || n < MAPPED_MIN) munmap(data, n);
    return r;
}

struct blob *blob_ref(struct blob *b)
{
    if (b) atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

struct blob *blob_unref(struct blob *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1) return NULL;
    if (b->mapped)
        munmap(b->data, b->n);
    else
        free(b->data);
    free(b);
    return NULL;
}

const uint8_t *blob_data(const struct blob *b)
{
    return b->data;
}

size_t blob_size(const struct blob *b)
{
    return b ? b->n : 0;
}
