/* SPDX-License-Identifier: MIT */
#include "daemon/cache/disk/disk-file.h"
#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#define BLOCK_SUFFIX ".kv"
#define PART_PREFIX  "new-"
#define PART_SUFFIX  ".part"

#define LACKS_SHIFT 8 /* of header.n */

/* XXH3-128 in canonical (big-endian) form. */
static void sum(uint8_t out[16], const void *p, size_t n)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(p, n));
    memcpy(out, c.digest, 16);
}

/* The checksum of the header's other bytes and of the runs behind it. */
static void sum_head(uint8_t out[16], const struct disk_head *h, uint32_t n_runs)
{
    enum { SUMMED = offsetof(struct disk_header, sum) };
    uint8_t bytes[SUMMED + sizeof(h->runs)];
    memcpy(bytes, &h->header, SUMMED);
    memcpy(bytes + SUMMED, h->runs, n_runs * sizeof(*h->runs));
    sum(out, bytes, SUMMED + n_runs * sizeof(*h->runs));
}

/* Between the order of bytes in memory and in the file; either way. */
static void swap_runs(struct item_run *runs, uint32_t n)
{
    for (struct item_run *r = runs; r < runs + n; r++) {
        r->at = htole32(r->at);
        r->n = htole32(r->n);
        r->kind = htole16(r->kind);
        r->columns = htole16(r->columns);
        r->offset = htole32(r->offset);
    }
}

void disk_head_make(struct disk_head *out, const uint8_t identity[16], const struct prefix_info *info,
                    const void *payload, uint64_t payload_bytes)
{
    struct disk_header *h = &out->header;
    assert(info->n >= 1 && info->n <= KV_BLOCK && info->n_runs <= KV_BLOCK && (info->id.high || info->id.low));
    *h = (struct disk_header){
        .magic = DISK_MAGIC,
        .format = htole32(info->n_runs ? DISK_FORMAT_RUNS : DISK_FORMAT),
        .n = htole32(info->n | (uint32_t)info->lacks << LACKS_SHIFT),
        .id = {htole64(info->id.high), htole64(info->id.low)},
        .parent = {htole64(info->parent.high), htole64(info->parent.low)},
        .uid = htole32(info->uid),
        .n_runs = htole32(info->n_runs),
        .payload = htole64(payload_bytes),
    };
    memcpy(h->identity, identity, 16);
    memcpy(h->namespace, info->namespace.bytes, 16);
    for (uint32_t i = 0; i < info->n; i++) h->tokens[i] = htole32((uint32_t)info->tokens[i]);
    if (info->n_runs) memcpy(out->runs, info->runs, info->n_runs * sizeof(*out->runs));
    swap_runs(out->runs, info->n_runs);
    sum(h->payload_sum, payload, payload_bytes);
    sum_head(h->sum, out, info->n_runs);
}

/* The checksums match, so that only a bug of the writer, or one who makes files up, can cause the errors here. Readers
 * rely on the checks. */
static bool makes_sense(const struct prefix_info *x, const struct disk_header *h)
{
    const struct items items = prefix_info_items(x);
    const bool with_runs = le32toh(h->format) == DISK_FORMAT_RUNS;
    if (x->n < 1 || x->n > KV_BLOCK || with_runs != (x->n_runs > 0) || !items_check(&items)) return false;
    if (le32toh(h->n) != (x->n | (uint32_t)x->lacks << LACKS_SHIFT)) return false;
    if (x->id.high == x->parent.high && x->id.low == x->parent.low) return false;
    for (uint32_t i = x->n; i < KV_BLOCK; i++)
        if (h->tokens[i]) return false;
    return x->id.high || x->id.low;
}

uint32_t disk_head_lacks(const struct disk_header *h)
{
    uint32_t lacks = le32toh(h->n) >> LACKS_SHIFT;
    return lacks < 1u << KV_GROUPS_MAX && !(lacks & 1) ? lacks : 0;
}

const char *disk_head_check(struct prefix_info *out, struct disk_head *head, uint32_t n_runs,
                            const uint8_t identity[16], uint64_t payload_bytes)
{
    const struct disk_header *h = &head->header;
    uint8_t want[16];
    if (memcmp(h->magic, DISK_MAGIC, sizeof(h->magic)) != 0) return "is not a KV block";
    if (le32toh(h->format) != DISK_FORMAT && le32toh(h->format) != DISK_FORMAT_RUNS) return "has another version";
    if (le32toh(h->n_runs) != n_runs) return "is truncated or has another size";
    sum_head(want, head, n_runs);
    if (memcmp(h->sum, want, 16) != 0) return "has a damaged header";
    if (memcmp(h->identity, identity, 16) != 0) return "belongs to another model or KV layout";
    if (le64toh(h->payload) != payload_bytes) return "has another size";
    swap_runs(head->runs, n_runs);
    *out = (struct prefix_info){
        .id = {le64toh(h->id[0]), le64toh(h->id[1])},
        .parent = {le64toh(h->parent[0]), le64toh(h->parent[1])},
        .uid = le32toh(h->uid),
        .n = le32toh(h->n) & ((1u << LACKS_SHIFT) - 1),
        .lacks = (uint8_t)disk_head_lacks(h),
        .runs = n_runs ? head->runs : NULL,
        .n_runs = n_runs,
        .block = KV_NO_BLOCK,
        .slot = KV_NO_BLOCK,
        .on_disk = true,
    };
    memcpy(out->namespace.bytes, h->namespace, 16);
    for (uint32_t i = 0; i < KV_BLOCK; i++) out->tokens[i] = (int32_t)le32toh(h->tokens[i]);
    return makes_sense(out, h) ? NULL : "has an invalid header";
}

struct disk_name disk_block_name(struct prefix_id id)
{
    struct disk_name n;
    snprintf(n.s, sizeof(n.s), "%016" PRIx64 "%016" PRIx64 BLOCK_SUFFIX, id.high, id.low);
    return n;
}

struct disk_name disk_part_name(uint64_t run, uint64_t count)
{
    struct disk_name n;
    snprintf(n.s, sizeof(n.s), PART_PREFIX "%016" PRIx64 "%016" PRIx64 PART_SUFFIX, run, count);
    return n;
}

/* Parses 16 lower-case hexadecimal digits. Returns the text after them; NULL: @s is NULL or has other characters. */
static const char *read_hex(const char *s, uint64_t *out)
{
    *out = 0;
    if (!s) return NULL;
    for (int i = 0; i < 16; i++, s++) {
        if (*s >= '0' && *s <= '9')
            *out = *out << 4 | (uint64_t)(*s - '0');
        else if (*s >= 'a' && *s <= 'f')
            *out = *out << 4 | (uint64_t)(*s - 'a' + 10);
        else
            return NULL;
    }
    return s;
}

bool disk_block_name_read(const char *name, struct prefix_id *id)
{
    const char *rest = read_hex(read_hex(name, &id->high), &id->low);
    return rest && strcmp(rest, BLOCK_SUFFIX) == 0;
}

bool disk_part_name_read(const char *name, uint64_t *run, uint64_t *count)
{
    if (strncmp(name, PART_PREFIX, strlen(PART_PREFIX)) != 0) return false;
    const char *rest = read_hex(read_hex(name + strlen(PART_PREFIX), run), count);
    return rest && strcmp(rest, PART_SUFFIX) == 0;
}
