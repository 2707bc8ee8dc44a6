/* SPDX-License-Identifier: MIT */
/* A file of packed weights whose head the input changes: it is mapped only if it has the wanted layout, and then its
 * image is the one that was written, or the checksums tell. Byte 0: 1 to make the checksum of the head right again. */
#include "daemon/backend/cpu/packed.h"
#include "libcommon/error.h"
#include "tests/fuzz/fuzz-edit.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

const char *const fuzz_seeds[] = {NULL};

enum { ITEMS = 2, IMAGE = 4096, HEAD = sizeof(struct packed_header) + ITEMS * sizeof(struct packed_item) + 16 + 16 };

static char dir[64], path[400];
static uint8_t head[HEAD], image[IMAGE];
static struct packed_item items[ITEMS] = {{0, 2048, 16, 32, 1}, {2048, 64, 16, 1, PACKED_VECTOR}};
static const struct packed_table table = {items, ITEMS, IMAGE};
static const atomic_bool never = false;
static const struct fingerprint model = {{1, 2, 3}};

static void write_at(const void *bytes, size_t n)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && pwrite(fd, bytes, n, 0) == (ssize_t)n);
    close(fd);
}

static void make_file(void)
{
    fuzz_quiet();
    fuzz_folder(dir);
    for (unsigned i = 0; i < IMAGE; i++) image[i] = (uint8_t)(i * 7);
    if (packed_write(&table, &model, dir, image, &never) != 0) fuzz_fail("packed_write", error_text(-EINVAL));
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, PACKED_EXT)) snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
    closedir(d);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && read(fd, head, HEAD) == HEAD);
    close(fd);
}

static void resum(struct buf *b)
{
    XXH128_canonical_t c;
    if (b->len < HEAD) return;
    XXH128_canonicalFromHash(&c, XXH3_128bits(b->data, HEAD - 16));
    memcpy(b->data + HEAD - 16, c.digest, 16);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct packed *p = NULL;
    struct buf b = BUF_INIT;
    if (!dir[0]) make_file();
    unsigned how = fuzz_byte(&in);
    FUZZ_CHECK(buf_append(&b, head, HEAD) == 0);
    fuzz_edit(&b, &in);
    b.len = b.len > HEAD ? HEAD : b.len;
    if (how & 1) resum(&b);
    if (b.len) write_at(b.data, b.len);
    bool same = b.len == 0 || memcmp(b.data, head, b.len) == 0;
    buf_fini(&b);
    int r = packed_map(&p, &table, &model, dir);
    FUZZ_CHECK(r == 0 || r == 1);
    FUZZ_CHECK(r == 0 || !same);
    if (r == 0) {
        FUZZ_CHECK(memcmp(packed_image(p), image, IMAGE) == 0);
        r = packed_verify(p, &never);
        FUZZ_CHECK(r == 0 || (r == -EBADMSG && strlen(error_text(r)) > 4));
        packed_unmap(p);
    }
    packed_sweep(dir);
    if (access(path, F_OK) < 0) { /* it was removed as damaged */
        FUZZ_CHECK(packed_write(&table, &model, dir, image, &never) == 0);
    }
    write_at(head, HEAD);
    return 0;
}
