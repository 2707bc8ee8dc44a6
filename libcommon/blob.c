/* SPDX-License-Identifier: MIT */
#include "libcommon/blob.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

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

static void unmap(void *data, size_t n)
{
    if (munmap(data, n) < 0) log_error("munmap: %s; %zu bytes stay mapped", strerror(errno), n);
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

/* A copy of the first @n bytes of @fd. */
static int copy_file(struct blob **out, int fd, size_t n)
{
    char *data = malloc(n);
    if (!data) return -ENOMEM;
    ssize_t got = pread(fd, data, n, 0);
    int r = got < 0 ? error_say(-errno, "cannot read the file: %s", strerror(errno)) : 0;
    if (r == 0 && (size_t)got < n) r = error_say(-EINVAL, "the file ended after %zd of %zu bytes", got, n);
    if (r == 0) r = make(out, data, n, false);
    if (r < 0) free(data);
    return r;
}

/* Is @fd a file that no other process can change, and whose pages all exist? A page that does not would be allocated
 * when it is read, for this process. */
static int check_file(int fd, size_t most, size_t *n)
{
    const int wanted = F_SEAL_WRITE | F_SEAL_SHRINK, seals = fcntl(fd, F_GET_SEALS);
    struct stat st;
    struct statfs fs;
    if (seals < 0 || (seals & wanted) != wanted)
        return error_say(-EINVAL, "the file descriptor is not a memfd that is sealed against writing and shrinking");
    if (fstat(fd, &st) < 0) return error_say(-errno, "fstat: %s", strerror(errno));
    if (fstatfs(fd, &fs) < 0) return error_say(-errno, "fstatfs: %s", strerror(errno));
    if (fs.f_type != TMPFS_MAGIC) return error_say(-EINVAL, "the memfd has huge pages (MFD_HUGETLB)");
    if (st.st_size <= 0) return error_say(-EINVAL, "the file is empty");
    if ((uint64_t)st.st_size > most)
        return error_say(-EFBIG, "the file has %lld bytes; the limit is %zu", (long long)st.st_size, most);
    if ((uint64_t)st.st_blocks * 512 < (uint64_t)st.st_size)
        return error_say(-EINVAL, "the file is sparse: of its %lld bytes, %lld are allocated", (long long)st.st_size,
                         (long long)st.st_blocks * 512);
    *n = (size_t)st.st_size;
    return 0;
}

int blob_map(struct blob **out, int fd, size_t most)
{
    size_t n = 0;
    int r = check_file(fd, most, &n);
    if (r < 0) return r;
    /* The kernel limits the number of mappings, and a small one wastes the rest of its page. */
    if (n < MAPPED_MIN) return copy_file(out, fd, n);
    void *data = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return error_say(-errno, "cannot map the file: %s", strerror(errno));
    r = make(out, data, n, true);
    if (r < 0) unmap(data, n);
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
        unmap(b->data, b->n);
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
