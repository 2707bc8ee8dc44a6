/* SPDX-License-Identifier: MIT */
#include "tests/cache/disk/fixture.h"
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

int place_setup(void **state)
{
    const char *tmp = getenv("TMPDIR");
    struct place *p = malloc(sizeof(*p));
    if (!p) return -1;
    snprintf(p->dir, sizeof(p->dir), "%s/hob-disk-XXXXXX", tmp && strlen(tmp) < 100 ? tmp : "/tmp");
    *state = p;
    return mkdtemp(p->dir) ? 0 : -1;
}

static int gone(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    return remove(path);
}

int place_teardown(void **state)
{
    struct place *p = *state;
    int r = nftw(p->dir, gone, 16, FTW_DEPTH | FTW_PHYS);
    free(p);
    return r;
}

const char *place_path(const struct place *p, const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *s = paths[next++ % 4];
    snprintf(s, sizeof(paths[0]), "%s/%s", p->dir, name);
    return s;
}

const char *block_path(const struct place *p, const struct prefix_info *info)
{
    char name[64];
    snprintf(name, sizeof(name), "%016" PRIx64 "%016" PRIx64 ".kv", info->id.high, info->id.low);
    return place_path(p, name);
}

size_t place_count(const struct place *p, const char *suffix)
{
    size_t n = 0, len = strlen(suffix);
    DIR *dir = opendir(p->dir);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));) {
        size_t have = strlen(e->d_name);
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        n += have >= len && strcmp(e->d_name + have - len, suffix) == 0;
    }
    closedir(dir);
    return n;
}

uint64_t fixture_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = (*seed ^ *seed >> 32) * 0x9e3779b97f4a7c15u;
    return x ^ x >> 29;
}

struct prefix_info fixture_info(uint64_t i)
{
    uint64_t seed = i + 1;
    struct prefix_info x = {.block = KV_NO_BLOCK, .on_disk = true, .uid = (uid_t)fixture_random(&seed)};
    x.id = (struct prefix_id){fixture_random(&seed), i + 1};
    x.parent = (struct prefix_id){fixture_random(&seed), fixture_random(&seed)};
    for (int k = 0; k < 16; k++) x.namespace.bytes[k] = (uint8_t)fixture_random(&seed);
    x.n = i % 3 ? KV_BLOCK : 1 + (uint32_t)(fixture_random(&seed) % KV_BLOCK);
    for (uint32_t k = 0; k < x.n; k++) x.tokens[k] = (int32_t)fixture_random(&seed);
    return x;
}

void fixture_payload(uint8_t *out, size_t n, uint64_t i)
{
    uint64_t seed = ~i;
    for (size_t k = 0; k < n; k++) out[k] = (uint8_t)fixture_random(&seed);
}

void fixture_same(const struct prefix_info *a, const struct prefix_info *b)
{
    assert_true(a->id.high == b->id.high && a->id.low == b->id.low);
    assert_true(a->parent.high == b->parent.high && a->parent.low == b->parent.low);
    assert_memory_equal(a->namespace.bytes, b->namespace.bytes, 16);
    assert_int_equal(a->uid, b->uid);
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->tokens, b->tokens, sizeof(a->tokens));
    assert_int_equal(a->block, b->block);
    assert_true(a->on_disk == b->on_disk);
}

struct disk_config fixture_config(const struct place *p)
{
    return (struct disk_config){
        .dir = p->dir, .identity = "hob test disk 1", .payload = FIXTURE_PAYLOAD, .bytes_max = UINT64_MAX};
}

struct disk *fixture_open(const struct disk_config *c)
{
    struct disk *d = NULL;
    assert_int_equal(disk_open(&d, c), 0);
    assert_non_null(d);
    return d;
}

int fixture_write(struct disk *d, uint64_t i)
{
    uint8_t payload[FIXTURE_PAYLOAD];
    struct prefix_info info = fixture_info(i);
    fixture_payload(payload, sizeof(payload), i);
    return disk_write(d, &info, payload);
}

int fixture_read(struct disk *d, uint64_t i)
{
    uint8_t want[FIXTURE_PAYLOAD], have[FIXTURE_PAYLOAD] = {0};
    struct prefix_info info = fixture_info(i);
    int r = disk_read(d, &info, have);
    fixture_payload(want, sizeof(want), i);
    if (!r) assert_memory_equal(have, want, sizeof(want));
    return r;
}

struct disk_stats fixture_stats(const struct disk *d)
{
    struct disk_stats s;
    disk_stats_get(d, &s);
    return s;
}

static bool keep(void *ctx, struct prefix_info *info)
{
    struct fixture_found *f = ctx;
    assert_true(f->n < sizeof(f->infos) / sizeof(*f->infos));
    f->infos[f->n++] = *info;
    return true;
}

const struct fixture_found *fixture_scan(struct disk *d)
{
    static struct fixture_found found;
    atomic_bool stop = false;
    found.n = 0;
    assert_int_equal(disk_scan(d, keep, &found, &stop), 0);
    return &found;
}

void fixture_bytes(const struct place *p, uint8_t out[FIXTURE_FILE], uint64_t i)
{
    struct prefix_info info = fixture_info(i);
    struct disk_config c = fixture_config(p);
    struct disk *d = fixture_open(&c);
    assert_int_equal(fixture_write(d, i), 0);
    int fd = open(block_path(p, &info), O_RDONLY);
    assert_int_equal(read(fd, out, FIXTURE_FILE), FIXTURE_FILE);
    close(fd);
    disk_remove(d, info.id);
    disk_close(d);
}

void fixture_put(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
}

void fixture_resum(uint8_t header[FIXTURE_HEADER])
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(header, FIXTURE_HEADER - 16));
    memcpy(header + FIXTURE_HEADER - 16, c.digest, 16);
}
