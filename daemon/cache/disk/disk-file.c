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

/* XXH3-128 in canonical (big-endian) form. */
static void sum(uint8_t out[16], const void *p, size_t n)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(p, n));
    memcpy(out, c.digest, 16);
}

void disk_header_make(struct disk_header *out, const uint8_t identity[16], const struct prefix_info *info,
                      const void *payload, uint64_t payload_bytes)
{
    assert(info->n >= 1 && info->n <= KV_BLOCK && (info->id.high || info->id.low));
    *out = (struct disk_header){
        .magic = DISK_MAGIC,
        .format = htole32(DISK_FORMAT),
        .n = htole32(info->n),
        .id = {htole64(info->id.high), htole64(info->id.low)},
        .parent = {htole64(info->parent.high), htole64(info->parent.low)},
        .uid = htole32(info->uid),
        .payload = htole64(payload_bytes),
    };
    memcpy(out->identity, identity, 16);
    memcpy(out->namespace, info->namespace.bytes, 16);
    for (uint32_t i = 0; i < info->n; i++) out->tokens[i] = htole32((uint32_t)info->tokens[i]);
    sum(out->payload_sum, payload, payload_bytes);
    sum(out->sum, out, offsetof(struct disk_header, sum));
}

const char *disk_header_check(struct prefix_info *out, const struct disk_header *h, const uint8_t identity[16],
                              uint64_t payload_bytes)
{
    uint8_t want[16];
    if (memcmp(h->magic, DISK_MAGIC, sizeof(h->magic)) != 0) return "is not a KV block";
    if (le32toh(h->format) != DISK_FORMAT) return "has another version";
    sum(want, h, offsetof(struct disk_header, sum));
    if (memcmp(h->sum, want, 16) != 0) return "has a damaged header";
    if (memcmp(h->identity, identity, 16) != 0) return "belongs to another model or KV layout";
    if (le64toh(h->payload) != payload_bytes) return "has another size";
    *out = (struct prefix_info){
        .id = {le64toh(h->id[0]), le64toh(h->id[1])},
        .parent = {le64toh(h->parent[0]), le64toh(h->parent[1])},
        .uid = le32toh(h->uid),
        .n = le32toh(h->n),
        .block = KV_NO_BLOCK,
        .on_disk = true,
    };
    memcpy(out->namespace.bytes, h->namespace, 16);
    for (uint32_t i = 0; i < KV_BLOCK; i++) out->tokens[i] = (int32_t)le32toh(h->tokens[i]);
    /* The checksums match, so that only a bug of the writer can cause the errors below. Readers rely on the checks. */
    bool sane = out->n >= 1 && out->n <= KV_BLOCK && (out->id.high || out->id.low) && !h->zero &&
                (out->id.high != out->parent.high || out->id.low != out->parent.low);
    for (uint32_t i = out->n; sane && i < KV_BLOCK; i++) sane = !h->tokens[i];
    return sane ? NULL : "has an invalid header";
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
