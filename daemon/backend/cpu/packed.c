/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/packed-file.h"
#include "daemon/model/partfile.h"
#include "kernels/kernels.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <xxhash.h>

static const struct packed_header *header(const uint8_t *head)
{
    return (const struct packed_header *)head;
}

/* Offsets of the checksums, and of the checksum of everything before it. */
static uint64_t sums_at(const struct packed_header *h)
{
    return sizeof(*h) + h->items * sizeof(struct packed_item);
}

static uint64_t head_sum_at(const struct packed_header *h)
{
    return sums_at(h) + h->pieces * 16;
}

static void sum(uint8_t out[16], const void *p, size_t n)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(p, n));
    memcpy(out, c.digest, 16);
}

static void file_name(char out[64], const struct fingerprint *model)
{
    char hex[FINGERPRINT_HEX];
    fingerprint_hex(hex, model);
    snprintf(out, 64, "%s-%d" PACKED_EXT, hex, KERN_LAYOUT);
}

int packed_exists(const struct fingerprint *model, const char *dir)
{
    char name[64];
    struct stat st;
    file_name(name, model);
    _cleanup_(closep) int fd = partfile_open(dir, name, &st);
    if (fd >= 0) return 1;
    return partfile_is_none(fd) ? 0 : error_origin(fd);
}

/* Everything before the image, checksums zero; *bytes long. NULL: no memory. */
static uint8_t *make_head(const struct packed_table *t, const struct fingerprint *model, size_t *bytes)
{
    struct packed_header h = {
        .magic = "hobw",
        .format = PACKED_FORMAT,
        .layout = KERN_LAYOUT,
        .model = *model,
        .items = t->n,
        .pieces = (t->size + PACKED_PIECE - 1) / PACKED_PIECE,
        .size = t->size,
    };
    *bytes = head_sum_at(&h) + 16;
    h.image = (*bytes + PACKED_ALIGN - 1) / PACKED_ALIGN * PACKED_ALIGN;
    uint8_t *head = calloc(1, *bytes);
    if (!head) return NULL;
    memcpy(head, &h, sizeof(h));
    memcpy(head + sizeof(h), t->items, t->n * sizeof(*t->items));
    return head;
}

/* --- mapping --- */

static bool read_all(int fd, void *to, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t r = pread(fd, (char *)to + done, n - done, (off_t)done);
        if (r < 0 && errno == EINTR) continue;
        if (r <= 0) return false;
        done += (size_t)r;
    }
    return true;
}

/* The head that was read is the expected one. @want: from make_head. */
static bool right_head(const uint8_t *head, const uint8_t *want, size_t bytes)
{
    uint8_t check[16];
    sum(check, head, bytes - 16);
    return memcmp(head, want, sums_at(header(want))) == 0 && memcmp(head + bytes - 16, check, 16) == 0;
}

/* Open the file and check its head. A descriptor, or -errno. *head is the caller's. */
static int open_checked(struct stat *st, uint8_t **head, const struct packed_table *t, const struct fingerprint *model,
                        const char *dir, const char *name)
{
    size_t bytes;
    _cleanup_(freep) uint8_t *want = make_head(t, model, &bytes), *have = malloc(bytes);
    if (!want || !have) return -ENOMEM;
    _cleanup_(closep) int fd = partfile_open(dir, name, st);
    if (fd < 0) return fd;
    if ((uint64_t)st->st_size != header(want)->image + t->size) return -EBADMSG;
    if (!read_all(fd, have, bytes) || !right_head(have, want, bytes)) return -EBADMSG;
    *head = steal(have);
    int r = fd;
    fd = -1;
    return r;
}

/* Map @bytes at an address that is a multiple of a huge page. */
static void *map_aligned(int fd, size_t bytes)
{
    size_t room;
    if (__builtin_add_overflow(bytes, PACKED_ALIGN, &room)) return MAP_FAILED;
    uint8_t *raw = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) return MAP_FAILED;
    size_t before = -(uintptr_t)raw % PACKED_ALIGN, page = (size_t)sysconf(_SC_PAGESIZE);
    size_t used = (bytes + page - 1) & ~(page - 1);
    void *p = mmap(raw + before, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
    if (p == MAP_FAILED) {
        munmap(raw, room);
        return p;
    }
    if (before) munmap(raw, before);
    if (before + used < room) munmap(raw + before + used, room - before - used);
    return p;
}

int packed_map(struct packed **out, const struct packed_table *t, const struct fingerprint *model, const char *dir)
{
    struct packed *p = calloc(1, sizeof(*p));
    if (!p) return 1;
    file_name(p->name, model);
    p->dir = strdup(dir);
    _cleanup_(closep) int fd = p->dir ? open_checked(&p->st, &p->head, t, model, dir, p->name) : -ENOMEM;
    void *map = fd < 0 ? MAP_FAILED : map_aligned(fd, (size_t)p->st.st_size);
    if (map == MAP_FAILED) {
        packed_unmap(p);
        return 1;
    }
    p->map = map;
    p->bytes = (size_t)p->st.st_size;
    madvise(map, p->bytes, MADV_HUGEPAGE); /* file systems with large folios then read in huge pages */
    *out = p;
    return 0;
}

struct packed *packed_unmap(struct packed *p)
{
    if (!p) return NULL;
    if (p->map) munmap(p->map, p->bytes);
    free(p->head);
    free(p->dir);
    free(p);
    return NULL;
}

const uint8_t *packed_image(const struct packed *p)
{
    return p->map + header(p->head)->image;
}

/* Remove the file, unless another process has replaced it since it was mapped. */
static void remove_ours(const struct packed *p)
{
    struct stat st;
    _cleanup_(closep) int d = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d < 0 || fstatat(d, p->name, &st, AT_SYMLINK_NOFOLLOW) < 0) return;
    if (st.st_dev == p->st.st_dev && st.st_ino == p->st.st_ino) unlinkat(d, p->name, 0);
}

int packed_verify(const struct packed *p, const atomic_bool *stop)
{
    const struct packed_header *h = header(p->head);
    for (uint64_t i = 0; i < h->pieces; i++) {
        uint64_t at = i * PACKED_PIECE, left = h->size - at;
        uint8_t have[16];
        if (atomic_load(stop)) return error_say(-ECANCELED, "%s: verifying was stopped", p->name);
        sum(have, packed_image(p) + at, left < PACKED_PIECE ? left : PACKED_PIECE);
        if (memcmp(have, p->head + sums_at(h) + i * 16, 16) == 0) continue;
        remove_ours(p);
        return error_say(-EBADMSG, "%s/%s: the checksum of bytes %" PRIu64 " … is wrong; the file was removed", p->dir,
                         p->name, h->image + at);
    }
    return 0;
}

/* --- writing --- */

static int write_all(int fd, const void *from, uint64_t n, uint64_t at)
{
    for (uint64_t done = 0; done < n;) {
        ssize_t r = pwrite(fd, (const char *)from + done, n - done, (off_t)(at + done));
        if (r < 0 && errno == EINTR) continue;
        if (r <= 0) return r ? -errno : -EIO;
        done += (uint64_t)r;
    }
    return 0;
}

/* Write piece by piece, and wait for the write-out of the piece eight before: many dirty pages would delay other
 * programs' fsync, and the reaction to *stop. */
static int write_image(int fd, uint8_t *head, const uint8_t *image, const atomic_bool *stop)
{
    const struct packed_header *h = header(head);
    for (uint64_t i = 0; i < h->pieces; i++) {
        uint64_t at = i * PACKED_PIECE, left = h->size - at, n = left < PACKED_PIECE ? left : PACKED_PIECE;
        if (atomic_load(stop)) return -ECANCELED;
        sum(head + sums_at(h) + i * 16, image + at, n);
        int r = write_all(fd, image + at, n, h->image + at);
        if (r) return r;
        sync_file_range(fd, (off_t)(h->image + at), (off_t)n, SYNC_FILE_RANGE_WRITE);
        if (i >= 8)
            sync_file_range(fd, (off_t)(h->image + at - 8 * PACKED_PIECE), PACKED_PIECE,
                            SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    }
    return 0;
}

static int enough_room(int fd, uint64_t bytes)
{
    struct statvfs v;
    char need[16], have[16];
    if (fstatvfs(fd, &v) < 0) return 0; /* the writes report a full disk */
    uint64_t left = (uint64_t)v.f_bavail * v.f_frsize;
    if (bytes <= left / 2) return 0;
    return error_say(-ENOSPC, "they take %s, and the disk has only %s left", format_size(need, bytes),
                     format_size(have, left));
}

static int write_file(struct partfile *f, uint8_t *head, size_t head_bytes, const void *image, const atomic_bool *stop)
{
    const struct packed_header *h = header(head);
    int r = enough_room(f->dir, h->image + h->size);
    if (r) return r;
    /* Allocate the whole file first: it is contiguous on the disk, and a full disk is found at once. */
    if (fallocate(f->fd, 0, 0, (off_t)(h->image + h->size)) < 0 && errno != EOPNOTSUPP) r = -errno;
    if (!r) r = write_image(f->fd, head, image, stop);
    if (!r) {
        sum(head + head_bytes - 16, head, head_bytes - 16);
        r = write_all(f->fd, head, head_bytes, 0);
    }
    return r ? error_say(r, "%s", strerror(-r)) : partfile_commit(f);
}

int packed_write(const struct packed_table *t, const struct fingerprint *model, const char *dir, const void *image,
                 const atomic_bool *stop)
{
    char name[64];
    size_t bytes;
    struct stat st;
    _cleanup_(freep) uint8_t *head = NULL;
    file_name(name, model);
    int fd = open_checked(&st, &head, t, model, dir, name);
    if (fd >= 0) {
        close(fd);
        return 0;
    }
    head = make_head(t, model, &bytes);
    if (!head) return error_origin(-ENOMEM);
    struct partfile f;
    int r = partfile_begin(&f, dir, name);
    if (r) return r < 0 ? r : 0;
    r = write_file(&f, head, bytes, image, stop);
    partfile_end(&f);
    return r ? error_in(r, "%s/%s", dir, name) : 0;
}
