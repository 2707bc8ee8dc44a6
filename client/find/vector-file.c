/* SPDX-License-Identifier: MIT */
#include "client/find/vector-file.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <xxhash.h>

#define MAGIC "hobvec1\n"

struct header {
    char magic[8];
    uint32_t dim, zero;
    uint64_t generation;
    uint64_t check; /* XXH3-64 of the bytes before */
    uint8_t rest[32];
};

_Static_assert(sizeof(struct header) == 64 && offsetof(struct header, check) == 24, "the header is a file format");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file is little-endian");

#define BLOCK_HEAD (VECTOR_BLOCK * (sizeof(float) + sizeof(uint32_t)))

size_t vector_stride(uint32_t dim)
{
    return ((size_t)dim + 31) / 32 * 32;
}

size_t vector_block_bytes(uint32_t dim)
{
    return BLOCK_HEAD + VECTOR_BLOCK * vector_stride(dim);
}

static int failed(int error, const char *what)
{
    return error_say(-error, "cannot %s the vectors of the index: %s", what, strerror(error));
}

static int write_all(int fd, const void *data, size_t n, uint64_t at)
{
    for (const char *p = data; n > 0;) {
        ssize_t done = pwrite(fd, p, n, (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return failed(done < 0 ? errno : EIO, "write");
        p += done;
        n -= (size_t)done;
        at += (size_t)done;
    }
    return 0;
}

int vector_file_make(struct vector_file *f, int dir, const char *name, uint32_t dim, uint64_t generation)
{
    struct header h = {.magic = MAGIC, .dim = dim, .generation = generation};
    h.check = XXH3_64bits(&h, offsetof(struct header, check));
    *f = (struct vector_file){.fd = -1, .dim = dim, .generation = generation};
    unlinkat(dir, name, 0);
    f->fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return f->fd < 0 ? failed(errno, "make") : write_all(f->fd, &h, sizeof(h), 0);
}

int vector_file_open(struct vector_file *f, int dir, const char *name, uint32_t dim, uint64_t generation, bool write)
{
    struct header h = {0};
    *f = (struct vector_file){.fd = -1, .dim = dim, .generation = generation};
    f->fd = openat(dir, name, (write ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_CLOEXEC);
    if (f->fd < 0) return failed(errno, "open");
    ssize_t n = pread(f->fd, &h, sizeof(h), 0);
    if (n < 0) return failed(errno, "read");
    if (n != sizeof(h) || memcmp(h.magic, MAGIC, sizeof(h.magic)) != 0 ||
        h.check != XXH3_64bits(&h, offsetof(struct header, check)))
        return error_say(-EBADMSG, "the header of %s is not valid", name);
    if (h.dim != dim || h.generation != generation)
        return error_say(-EBADMSG, "%s has %u dims instead of %u, or is of another generation", name, h.dim, dim);
    return 0;
}

void vector_file_close(struct vector_file *f)
{
    if (f->map) munmap((void *)f->map, f->map_len);
    closep(&f->fd);
    *f = (struct vector_file)VECTOR_FILE_INIT;
}

int vector_file_map(struct vector_file *f, uint64_t rows)
{
    struct stat st;
    uint64_t blocks = rows / VECTOR_BLOCK + (rows % VECTOR_BLOCK != 0), bytes;
    if (fstat(f->fd, &st) < 0) return failed(errno, "read");
    if (__builtin_mul_overflow(blocks, vector_block_bytes(f->dim), &bytes) || bytes > SIZE_MAX / 2 ||
        bytes + sizeof(struct header) > (uint64_t)st.st_size)
        return error_say(-EBADMSG, "the file of its vectors is too short");
    f->map_len = (size_t)bytes + sizeof(struct header);
    void *map = mmap(NULL, f->map_len, PROT_READ, MAP_SHARED, f->fd, 0);
    if (map == MAP_FAILED) return failed(errno, "map");
    f->map = map;
    return 0;
}

static uint32_t row_check(const int8_t *codes, size_t stride, float scale)
{
    uint32_t bits;
    memcpy(&bits, &scale, sizeof(bits));
    return (uint32_t)XXH3_64bits_withSeed(codes, stride, bits);
}

int vector_file_write(struct vector_file *f, uint64_t first, const int8_t *codes, const float *scales, size_t n)
{
    const size_t stride = vector_stride(f->dim), block = vector_block_bytes(f->dim);
    while (n > 0) {
        uint32_t check[VECTOR_BLOCK];
        uint64_t at = sizeof(struct header) + first / VECTOR_BLOCK * block, slot = first % VECTOR_BLOCK;
        size_t now = VECTOR_BLOCK - (size_t)slot;
        if (now > n) now = n;
        for (size_t i = 0; i < now; i++) check[i] = row_check(codes + i * stride, stride, scales[i]);
        int r = write_all(f->fd, scales, now * sizeof(*scales), at + slot * sizeof(*scales));
        if (r == 0) r = write_all(f->fd, check, now * sizeof(*check), at + (VECTOR_BLOCK + slot) * sizeof(*check));
        if (r == 0) r = write_all(f->fd, codes, now * stride, at + BLOCK_HEAD + slot * stride);
        /* A mapping of whole blocks must not reach behind the end of the file. */
        if (r == 0 && now == n && slot + now < VECTOR_BLOCK) r = write_all(f->fd, "", 1, at + block - 1);
        if (r < 0) return r;
        first += now;
        codes += now * stride;
        scales += now;
        n -= now;
    }
    return 0;
}

int vector_file_sync(struct vector_file *f)
{
    return fdatasync(f->fd) < 0 ? failed(errno, "write") : 0;
}

static const uint8_t *block_at(const struct vector_file *f, uint64_t b)
{
    return f->map + sizeof(struct header) + b * vector_block_bytes(f->dim);
}

const float *vector_scales(const struct vector_file *f, uint64_t b)
{
    return (const float *)block_at(f, b);
}

const int8_t *vector_codes(const struct vector_file *f, uint64_t b)
{
    return (const int8_t *)block_at(f, b) + BLOCK_HEAD;
}

bool vector_row_is_whole(const struct vector_file *f, uint64_t row)
{
    const uint64_t b = row / VECTOR_BLOCK, slot = row % VECTOR_BLOCK;
    const size_t stride = vector_stride(f->dim);
    const uint32_t *check = (const uint32_t *)(vector_scales(f, b) + VECTOR_BLOCK);
    return check[slot] == row_check(vector_codes(f, b) + slot * stride, stride, vector_scales(f, b)[slot]);
}

bool vector_quantize(int8_t *codes, float *scale, const float *x, uint32_t dim)
{
    float most = 0;
    for (uint32_t i = 0; i < dim; i++) {
        if (!isfinite(x[i])) return false;
        if (fabsf(x[i]) > most) most = fabsf(x[i]);
    }
    *scale = most / 127;
    memset(codes, 0, vector_stride(dim));
    for (uint32_t i = 0; i<dim && * scale> 0; i++) {
        float v = rintf(x[i] / *scale);
        codes[i] = (int8_t)(v > 127 ? 127 : v < -127 ? -127 : v);
    }
    return true;
}
