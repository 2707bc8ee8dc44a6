/* SPDX-License-Identifier: MIT */
/* Files of KV blocks, of embeddings and the secret, changed by the input: a scan, and reads, take what is valid, and
 * what is read is what was written. Byte 0: 1 to make the checksums right again, 2 for embeddings, 4 for a block with
 * runs, 8 for the secret. */
#include "daemon/cache/disk/disk-file.h"
#include "daemon/cache/disk/disk.h"
#include "daemon/cache/disk/namespace.h"
#include "daemon/cache/media/media-disk.h"
#include "daemon/cache/media/media-file.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "tests/fuzz/fuzz-edit.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

const char *const fuzz_seeds[] = {NULL};

enum { PAYLOAD = 96, EMBEDDINGS = 3, DIM = 4 };

static char dir[64];

static void make_info(struct prefix_info *info, struct item_run *run, bool runs)
{
    *info = (struct prefix_info){.id = {0x1122334455667788, 42}, .n = KV_BLOCK, .uid = 1000};
    for (unsigned i = 0; i < KV_BLOCK; i++) info->tokens[i] = runs && i >= 4 && i < 9 ? ITEM_EMBD : (int32_t)i * 7;
    memset(&info->namespace, 5, sizeof(info->namespace));
    if (!runs) return;
    *run = (struct item_run){.at = 4, .n = 5, .kind = 1};
    info->runs = run;
    info->n_runs = 1;
}

static struct disk *open_disk(void)
{
    const struct disk_config c = {.dir = dir, .identity = {9}, .payload = PAYLOAD, .bytes_max = 1 << 20};
    struct disk *d;
    if (disk_open(&d, &c) != 0) fuzz_fail("the folder", error_text(-EINVAL));
    return d;
}

static void read_file(struct buf *out, const char *path)
{
    char bytes[8192];
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));
    if (n < 0) fuzz_fail(path, strerror(errno));
    FUZZ_CHECK(buf_append(out, bytes, (size_t)n) == 0);
}

static void sum_to(uint8_t *out, const void *p, size_t n)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(p, n));
    memcpy(out, c.digest, 16);
}

static void resum_block(struct buf *b)
{
    struct disk_header h;
    struct buf head = BUF_INIT;
    if (b->len < sizeof(h)) return;
    memcpy(&h, b->data, sizeof(h));
    size_t runs = h.n_runs <= KV_BLOCK ? h.n_runs * sizeof(struct item_run) : 0, at = sizeof(h) + runs;
    if (at > b->len) return;
    sum_to(h.payload_sum, b->data + at, b->len - at);
    FUZZ_CHECK(buf_append(&head, &h, sizeof(h) - 16) == 0 && buf_append(&head, b->data + sizeof(h), runs) == 0);
    sum_to(h.sum, head.data, head.len);
    buf_fini(&head);
    memcpy(b->data, &h, sizeof(h));
}

static bool found(void *ctx, struct prefix_info *info)
{
    FUZZ_CHECK(info->n >= 1 && info->n <= KV_BLOCK && info->n_runs <= KV_BLOCK);
    ++*(unsigned *)ctx;
    return true;
}

static void try_block(unsigned how, struct fuzz_input *in)
{
    static struct buf made[2];
    struct prefix_info info;
    struct item_run run = {0};
    uint8_t payload[PAYLOAD], back[PAYLOAD];
    char path[256];
    struct buf b = BUF_INIT;
    bool runs = how & 4;
    unsigned n = 0;
    make_info(&info, &run, runs);
    for (unsigned i = 0; i < PAYLOAD; i++) payload[i] = (uint8_t)(i * 3);
    snprintf(path, sizeof(path), "%s/%s", dir, disk_block_name(info.id).s);
    if (!made[runs].len) {
        struct disk *d = open_disk();
        if (disk_write(d, &info, payload) < 0) fuzz_fail("disk_write", error_text(-EINVAL));
        read_file(&made[runs], path);
        disk_close(d);
    }
    FUZZ_CHECK(buf_append(&b, made[runs].data, made[runs].len) == 0);
    fuzz_edit(&b, in);
    if (how & 1) resum_block(&b);
    fuzz_write(path, b.data, b.len);
    struct disk *d = open_disk();
    FUZZ_CHECK(disk_scan(d, found, &n, NULL) == 0 && n <= 1);
    int r = disk_read(d, &info, back);
    if (r < 0) FUZZ_CHECK((r == -ENOENT || r == -EBADMSG) && strlen(error_text(r)) > 4);
    if (r == 0 && !(how & 1)) FUZZ_CHECK(memcmp(payload, back, PAYLOAD) == 0);
    disk_room(d, true);
    disk_remove(d, info.id);
    disk_close(d);
    buf_fini(&b);
}

static void resum_embeddings(struct buf *b)
{
    struct media_file_header h;
    if (b->len < sizeof(h)) return;
    memcpy(&h, b->data, sizeof(h));
    sum_to(h.values_sum, b->data + sizeof(h), b->len - sizeof(h));
    sum_to(h.sum, &h, sizeof(h) - 16);
    memcpy(b->data, &h, sizeof(h));
}

static void try_embeddings(unsigned how, struct fuzz_input *in)
{
    static struct buf made;
    const struct media_disk_config c = {.dir = dir, .bytes_max = 1 << 20};
    const struct media_key key = {{1}, {2}};
    struct media_disk *d;
    struct embeddings *e = NULL;
    char path[256];
    uint64_t name[2];
    struct buf b = BUF_INIT;
    media_name(&key, name);
    snprintf(path, sizeof(path), "%s/%s", dir, media_file_name(name).s);
    if (!made.len) {
        FUZZ_CHECK(media_disk_open(&d, &c) == 0 && embeddings_new(&e, EMBEDDINGS, DIM) == 0);
        for (unsigned i = 0; i < EMBEDDINGS * DIM; i++) e->values[i] = (float)i;
        FUZZ_CHECK(media_disk_write(d, &key, 1000, e) == 0);
        read_file(&made, path);
        e = embeddings_unref(e);
        media_disk_close(d);
    }
    FUZZ_CHECK(buf_append(&b, made.data, made.len) == 0);
    fuzz_edit(&b, in);
    if (how & 1) resum_embeddings(&b);
    fuzz_write(path, b.data, b.len);
    buf_fini(&b);
    FUZZ_CHECK(media_disk_open(&d, &c) == 0);
    if (media_disk_has(d, &key)) {
        int r = media_disk_read(d, &key, &e);
        if (r < 0) FUZZ_CHECK((r == -ENOENT || r == -EBADMSG) && strlen(error_text(r)) > 4);
        if (r == 0) embeddings_unref(e);
    }
    media_disk_close(d);
    unlink(path);
}

static void try_secret(struct fuzz_input *in)
{
    struct namespace_secret s = {0};
    struct prefix_namespace a, b;
    char path[256];
    size_t n = 64;
    unsigned mode = fuzz_byte(in);
    const char *bytes = fuzz_bytes(in, &n);
    snprintf(path, sizeof(path), "%s/secret", dir);
    fuzz_write(path, bytes ? bytes : "", n);
    if (mode & 1) chmod(path, mode & 2 ? 0644 : 0400);
    if (mode & 4) unlink(path);
    int r = namespace_secret_load(&s, dir);
    FUZZ_CHECK(r == 0 || (r == -EBADMSG && strlen(error_text(r)) > 4));
    if (r == 0) {
        const uint8_t identity[16] = {1};
        const struct namespace_owner owner = {.uid = 7, .salt = "x", .salt_len = mode % 2};
        const struct namespace_owner public = {.public = true};
        namespace_make(&a, &s, identity, &owner, 0);
        namespace_make(&b, &s, identity, &public, 0);
        FUZZ_CHECK(memcmp(&a, &b, sizeof(a)) != 0);
    }
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    fuzz_quiet();
    if (!dir[0]) fuzz_folder(dir);
    unsigned how = fuzz_byte(&in);
    if (how & 8)
        try_secret(&in);
    else if (how & 2)
        try_embeddings(how, &in);
    else
        try_block(how, &in);
    return 0;
}
