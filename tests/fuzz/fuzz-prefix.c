/* SPDX-License-Identifier: MIT */
/* A script of calls of the prefix index, of block tables and of the cache of vectors. prefix_check compares all links
 * and counts; a vector that is found is the one that was added. Byte 0: 1 a group with a window, 2 recurrent states. */
#include "daemon/cache/kv/kv-table.h"
#include "daemon/cache/prefix/prefix-state.h"
#include "daemon/cache/vectors/vector-cache.h"
#include "tests/cache/prefix/fixture.h"
#include "tests/fuzz/fuzz.h"
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = {
    "hex:000001000002000003010004020500060107000801090b0a0c0d0e0f1011",
    "hex:0000010000020003000102000003010001040205000600070108000901020b030c040d050e",
    "hex:000c010203040c0506070810090a0b0c0d1112",
    "hex:01100011001200130014001000110012001300140010001100120015001600170018",
    "hex:02100011001900190110001900191019201930080008010900194019501960",
    "hex:0310001000190015001000190110001500160017001900180419301940",
    NULL,
};

enum { BLOCKS = 24, OTHERS = 12, STATES = 5, WINDOW = 40, STEPS_MAX = 200, HELD_MAX = 8, DIM = 3 };

static struct script {
    struct fixture f;
    struct prefix_node *held[HELD_MAX]; /* with a reference */
    struct prefix_info writing[HELD_MAX];
    unsigned n_writing;
    struct kv_pool *window, *states; /* NULL: none */
    struct prefix_id state_writing[HELD_MAX];
    unsigned n_state_writing;
    struct kv_table table;
    struct vector_cache vectors;
} s;

static bool on_evict(void *ctx, const struct prefix_info *info)
{
    if (*(unsigned *)ctx % 2 == 0 || s.n_writing == HELD_MAX) return false;
    s.writing[s.n_writing++] = *info;
    return true;
}

static bool on_state_evict(void *ctx, const struct prefix_info *info)
{
    FUZZ_CHECK(info->state != KV_NO_BLOCK);
    if (info->uid % 2 || s.n_state_writing == HELD_MAX) return false;
    s.state_writing[s.n_state_writing++] = info->id;
    return true;
}

/* Tokens of one value, or of two. */
static uint32_t tokens_of(struct fuzz_input *in, int32_t tokens[KV_BLOCK])
{
    unsigned how = fuzz_byte(in);
    for (unsigned i = 0; i < KV_BLOCK; i++) tokens[i] = (int32_t)(how % 4 + (i >= how / 16 ? 1 : 0));
    return how & 8 ? KV_BLOCK : 1 + how % KV_BLOCK;
}

static void add(struct fuzz_input *in)
{
    int32_t tokens[KV_BLOCK];
    uint32_t block;
    struct prefix_node *node, *parent = s.held[fuzz_byte(in) % HELD_MAX];
    uint32_t n = tokens_of(in, tokens);
    struct prefix_info info = {.n = KV_BLOCK};
    if (parent) prefix_info(parent, &info);
    if (info.n < KV_BLOCK) return; /* nothing follows a part of a block */
    if (kv_pool_take(s.f.pool, &block) < 0) return;
    int r = prefix_add(s.f.p, &s.f.namespace, parent, items_tokens(tokens, n), block, 1000 + n % 3, &node);
    kv_pool_unref(s.f.pool, block);
    if (r == 0) prefix_touch(s.f.p, node);
}

static void hold(struct fuzz_input *in)
{
    int32_t tokens[2 * KV_BLOCK];
    unsigned slot = fuzz_byte(in) % HELD_MAX;
    tokens_of(in, tokens);
    tokens_of(in, tokens + KV_BLOCK);
    if (s.held[slot]) {
        prefix_unref(s.f.p, s.held[slot]);
        s.held[slot] = NULL;
        return;
    }
    struct prefix_match m = fixture_find(&s.f, tokens, 2 * KV_BLOCK);
    if (!m.node || prefix_block(m.node) == KV_NO_BLOCK) return;
    prefix_ref(s.f.p, m.node);
    prefix_use(s.f.p, m.node);
    s.held[slot] = m.node;
}

static void attach_window(struct prefix_node *n, uint32_t tokens)
{
    uint32_t block;
    if (!s.window || prefix_block(n) == KV_NO_BLOCK || prefix_window_block(n, 1) != KV_NO_BLOCK) return;
    if (kv_pool_take(s.window, &block) < 0) return;
    prefix_window_attach(s.f.p, n, 1, block, tokens);
    kv_pool_unref(s.window, block);
}

/* Holds a new full child of what a slot holds, or a child of the root, in its place. */
static void grow(unsigned slot, struct fuzz_input *in)
{
    int32_t tokens[KV_BLOCK];
    uint32_t block;
    struct prefix_node *node, *parent = s.held[slot];
    unsigned how = fuzz_byte(in);
    fixture_fill(tokens, KV_BLOCK, (int32_t)(how % 4));
    if (kv_pool_take(s.f.pool, &block) < 0) return;
    int r = prefix_add(s.f.p, &s.f.namespace, parent, items_tokens(tokens, KV_BLOCK), block, 1000 + how / 4 % 3, &node);
    kv_pool_unref(s.f.pool, block);
    if (r < 0) return;
    prefix_ref(s.f.p, node);
    if (parent) prefix_unref(s.f.p, parent);
    s.held[slot] = node;
    attach_window(node, how & 16 ? KV_BLOCK - 1 : KV_BLOCK);
    if (how & 32) prefix_window_trim(s.f.p, node);
}

static void windows(struct prefix_node *n, struct fuzz_input *in)
{
    unsigned how = fuzz_byte(in);
    if (how % 8 == 0 && s.window) prefix_window_evict(s.f.p, 1, how / 8, how & 128 ? on_evict : NULL, &how);
    if (!n) return;
    if (how % 8 == 1) attach_window(n, KV_BLOCK);
    if (how % 8 == 2) prefix_window_keep(s.f.p, n, (enum prefix_keep)(how / 8 % 3));
    if (how % 8 == 3) prefix_window_trim(s.f.p, n);
    if (how % 8 == 4) prefix_window_thin(s.f.p, n);
}

static void state_file(unsigned how)
{
    struct prefix_info info;
    bool orphan;
    if (how & 1) {
        if (s.n_state_writing == HELD_MAX || !prefix_state_begin_write(s.f.p, how & 2, &info)) return;
        s.state_writing[s.n_state_writing++] = info.id;
    } else if (how & 2 && s.n_state_writing) {
        const struct prefix_id id = s.state_writing[--s.n_state_writing];
        if (how & 4)
            prefix_state_written(s.f.p, id);
        else
            prefix_state_write_failed(s.f.p, id);
    } else if (prefix_state_victim(s.f.p, &info, &orphan)) {
        prefix_state_removed(s.f.p, info.id);
        if (how & 4) prefix_state_disk_add(s.f.p, &info);
    }
}

static void states(struct prefix_node *n, struct fuzz_input *in)
{
    unsigned how = fuzz_byte(in);
    uint32_t block;
    if (!s.states) return;
    if (how % 8 == 7) state_file(how / 8);
    if (how % 8 == 6) prefix_state_evict(s.f.p, how / 8 % 4);
    if (!n || how % 8 > 5 || prefix_block(n) == KV_NO_BLOCK) return;
    if (how % 8 < 2) {
        if (kv_pool_take(s.states, &block) < 0 && (!prefix_state_evict(s.f.p, 1) || kv_pool_take(s.states, &block) < 0))
            return;
        prefix_state_attach(s.f.p, n, block, how % 8 ? PREFIX_STATE_TURN : PREFIX_STATE_NEAR);
        kv_pool_unref(s.states, block);
    }
    if (how % 8 == 2) prefix_state_drop(s.f.p, n);
    if (how % 8 == 3) prefix_state_replace(s.f.p, n);
    if (how % 8 == 4) prefix_state_use(s.f.p, n);
    if (how % 8 == 5) prefix_state_thin(s.f.p, n, how / 8);
}

static void disk(struct fuzz_input *in)
{
    struct prefix_info info;
    unsigned how = fuzz_byte(in);
    if (how % 4 == 0 && s.n_writing < HELD_MAX) {
        if (prefix_disk_begin_write(s.f.p, how & 4, how >> 4, &info)) s.writing[s.n_writing++] = info;
    } else if (how % 4 == 1 && s.n_writing) {
        const struct prefix_id id = s.writing[--s.n_writing].id;
        if (how & 4)
            prefix_disk_written(s.f.p, id);
        else
            prefix_disk_write_failed(s.f.p, id);
    } else if (how % 4 == 2) {
        if (prefix_disk_victim(s.f.p, &info)) prefix_disk_removed(s.f.p, info.id);
    } else {
        info = (struct prefix_info){.id = {how, fuzz_byte(in)}, .namespace = s.f.namespace, .uid = 1000 + how % 3};
        if (how & 16) info.parent = (struct prefix_id){fuzz_byte(in), fuzz_byte(in)};
        info.n = tokens_of(in, info.tokens);
        prefix_disk_add(s.f.p, &info);
    }
}

static void vectors(struct fuzz_input *in)
{
    char text[16];
    float v[DIM], out[DIM];
    uint32_t tokens;
    struct vector_stats stats;
    unsigned how = fuzz_byte(in), number = fuzz_byte(in);
    memset(text, (int)(number % 32), sizeof(text));
    const struct vector_key key = {.namespace = {(uint8_t)(how % 2)}, .text = text, .len = number % 16};
    for (unsigned i = 0; i < DIM; i++) v[i] = (float)(number % 32 + how % 2 * 100 + key.len * 1000);
    s.vectors.bytes_max = 2048;
    s.vectors.dim = DIM;
    if (how & 4) vector_cache_add(&s.vectors, &key, 1000 + how / 8 % 3, v, number);
    if (vector_cache_find(&s.vectors, &key, 1000, out, &tokens) && key.len) FUZZ_CHECK(memcmp(v, out, sizeof(v)) == 0);
    if (how == 255) vector_cache_shed(&s.vectors);
    vector_cache_stats(&s.vectors, (uid_t)-1, &stats);
    FUZZ_CHECK(stats.bytes <= 2048 && stats.bytes == s.vectors.bytes);
}

static void table(struct fuzz_input *in)
{
    unsigned how = fuzz_byte(in);
    if (how & 1)
        kv_table_reserve(&s.table, s.f.pool, how);
    else
        kv_table_fini(&s.table, s.f.pool);
}

static void step(struct fuzz_input *in)
{
    unsigned what = fuzz_byte(in), how;
    struct prefix_stats stats;
    unsigned slot = what / 32;
    struct prefix_node *node = s.held[slot];
    struct prefix_info info;
    switch (what % 32) {
    case 0:
    case 1:
    case 2:
        add(in);
        break;
    case 3:
    case 4:
    case 5:
        hold(in);
        break;
    case 6:
    case 7:
        how = fuzz_byte(in);
        prefix_evict(s.f.p, how % 5, on_evict, &how);
        break;
    case 8:
    case 9:
        disk(in);
        break;
    case 10:
        if (node) prefix_info(node, &info), prefix_mark_tail(s.f.p, info.id, fuzz_byte(in) & 1);
        break;
    case 11:
        prefix_stats_get(s.f.p, what & 64 ? 1000 : (uid_t)-1, &stats);
        FUZZ_CHECK(stats.blocks_memory <= BLOCKS);
        break;
    case 12:
        table(in);
        break;
    case 16:
    case 17:
    case 18:
    case 19:
    case 20:
        grow(slot, in);
        break;
    case 21:
    case 22:
        windows(node, in);
        break;
    case 23:
    case 24:
        states(node, in);
        break;
    default:
        vectors(in);
    }
}

static void end(void)
{
    while (s.n_state_writing) prefix_state_write_failed(s.f.p, s.state_writing[--s.n_state_writing]);
    while (s.n_writing) prefix_disk_write_failed(s.f.p, s.writing[--s.n_writing].id);
    for (unsigned i = 0; i < HELD_MAX; i++)
        if (s.held[i]) prefix_unref(s.f.p, s.held[i]);
    kv_table_fini(&s.table, s.f.pool);
    vector_cache_fini(&s.vectors);
    fixture_fini(&s.f);
    kv_pool_free(s.window); /* asserts that all blocks are free */
    kv_pool_free(s.states);
}

static void begin(unsigned how)
{
    s = (struct script){0};
    fixture_init(&s.f, BLOCKS);
    if (how & 1) FUZZ_CHECK(kv_pool_new(&s.window, OTHERS) == 0 && prefix_add_window(s.f.p, s.window, WINDOW) == 0);
    if (!(how & 2)) return;
    FUZZ_CHECK(kv_pool_new(&s.states, STATES) == 0);
    prefix_add_states(s.f.p, s.states, on_state_evict, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    begin(fuzz_byte(&in));
    for (int i = 0; i < STEPS_MAX && in.n; i++) {
        step(&in);
        if (i % 16 == 0) prefix_check(s.f.p);
    }
    prefix_check(s.f.p);
    end();
    return 0;
}
