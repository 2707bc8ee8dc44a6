/* SPDX-License-Identifier: MIT */
/* The shares of the KV memory that the groups of layers get. */
#include "daemon/backend/cpu/cpu.h"
#include "libcommon/error.h"

#define BLOCKS_MOST (1 << 20) /* of a group without layers, whose blocks take no memory */

/* The number of blocks of group @g for @blocks of group 0: as many as running sequences need when group 0 is full of
 * chains of CPU_CHAIN_TOKENS, and enough for at least one sequence. */
static uint64_t group_blocks(const struct backend *b, uint32_t g, uint64_t blocks)
{
    uint64_t all = (b->config.ctx + KV_BLOCK - 1) / KV_BLOCK;
    uint64_t seen = g ? kv_group_blocks(&b->hparams.groups[g], b->config.batch_tokens) : all;
    if (all > CPU_CHAIN_TOKENS / KV_BLOCK) all = CPU_CHAIN_TOKENS / KV_BLOCK;
    if (seen >= all) return blocks;
    uint64_t even = blocks / all * seen + blocks % all * seen / all, least = blocks < seen ? blocks : seen;
    return even > least ? even : least;
}

static uint64_t block_bytes(const struct backend *b, uint32_t g)
{
    const struct hparams *s = &b->hparams;
    return backend_kv_bytes(s, b->config.kv_type, g) * s->groups[g].n_layers;
}

/* The bytes that group @g takes then; UINT64_MAX: more than there can be. */
static uint64_t group_bytes(const struct backend *b, uint32_t g, uint64_t blocks)
{
    uint64_t bytes;
    return __builtin_mul_overflow(group_blocks(b, g, blocks), block_bytes(b, g), &bytes) ? UINT64_MAX : bytes;
}

/* The blocks of @groups groups fit into @bytes. */
static bool fits(const struct backend *b, uint32_t groups, uint64_t blocks, uint64_t bytes)
{
    uint64_t sum = 0;
    for (uint32_t g = 0; g < groups; g++)
        if (__builtin_add_overflow(sum, group_bytes(b, g, blocks), &sum)) return false;
    return sum <= bytes;
}

/* How many states to make of @bytes: at most half of the bytes, unless no layer has attention. At least one. */
static uint64_t states(const struct backend *b, uint64_t bytes)
{
    const uint64_t state = hparams_state(&b->hparams)->state_bytes, block = block_bytes(b, 0);
    uint64_t n = b->config.states ? b->config.states : (block ? bytes / 2 : bytes) / state;
    if (!b->config.states && block && n > bytes / block / CPU_STATE_BLOCKS) n = bytes / block / CPU_STATE_BLOCKS;
    return n > UINT32_MAX ? UINT32_MAX : n ? n : 1;
}

/* Map the states, and take them from *bytes. */
static int allocate_states(struct cpu *c, uint64_t *bytes)
{
    struct backend *b = &c->base;
    const uint32_t g = b->hparams.n_groups - 1;
    const uint64_t n = states(b, *bytes), state = b->hparams.groups[g].state_bytes;
    if (n > *bytes / state)
        return error_say(-EINVAL, "%llu bytes of KV hold no %llu states of the recurrent layers; one takes %llu bytes",
                         (unsigned long long)*bytes, (unsigned long long)n, (unsigned long long)state);
    b->kv_blocks[g] = (uint32_t)n;
    *bytes -= n * state;
    return kv_memory_states(&c->kv[g], state, (uint32_t)n);
}

/* Blocks that only count positions: enough for each state to be that of a longest sequence. */
static int allocate_empty(struct cpu *c)
{
    const struct backend *b = &c->base;
    uint64_t n = (uint64_t)b->kv_blocks[b->hparams.n_groups - 1] * ((b->config.ctx + KV_BLOCK - 1) / KV_BLOCK);
    return kv_memory_states(&c->kv[0], 0, n < BLOCKS_MOST ? (uint32_t)n : BLOCKS_MOST);
}

/* Texts that are computed whole: K and V of a batch in one layer, in f32. Each text has blocks of its own, as many as
 * the batch has tokens at most; those that are not written take no memory. */
static int allocate_texts(struct cpu *c)
{
    struct backend *b = &c->base;
    const uint64_t block = backend_kv_bytes(&b->hparams, KERN_KV_F32, 0);
    b->config.kv_type = KERN_KV_F32;
    b->config.kv_bytes = 0;
    return (c->kv_apart ? kv_memory_plan : kv_memory_init)(&c->kv[0], &b->hparams, 0, 1, KERN_KV_F32,
                                                           b->config.batch_tokens * block);
}

int cpu_allocate_kv(struct cpu *c)
{
    struct backend *b = &c->base;
    const struct hparams *s = &b->hparams;
    if (s->embedding.whole) return allocate_texts(c);
    const uint32_t groups = hparams_kv_groups(s);
    uint64_t few = 1, many = UINT32_MAX, bytes = b->config.kv_bytes; /* blocks of group 0 */
    int r = hparams_state(s) ? allocate_states(c, &bytes) : 0;
    if (r) return r;
    while (groups > 1 && few < many) {
        uint64_t half = few + (many - few + 1) / 2;
        if (fits(b, groups, half, bytes))
            few = half;
        else
            many = half - 1;
    }
    if (groups > 1 && !fits(b, groups, few, bytes))
        return error_say(-EINVAL, "%llu bytes of KV hold no block of each group", (unsigned long long)bytes);
    for (uint32_t g = 0; !r && g < groups; g++) {
        const uint32_t layers = s->groups[g].n_layers;
        if (groups > 1) bytes = group_bytes(b, g, few);
        const __auto_type make = c->kv_apart ? kv_memory_plan : kv_memory_init;
        r = layers ? make(&c->kv[g], s, g, layers, b->config.kv_type, bytes) : allocate_empty(c);
        b->hparams.groups[g].bytes_per_token = kv_memory_block_bytes(&c->kv[g]) / KV_BLOCK;
        b->kv_blocks[g] = c->kv[g].blocks;
    }
    b->config.kv_bytes = 0;
    for (uint32_t g = 0; g < s->n_groups; g++) b->config.kv_bytes += c->kv[g].size;
    return r;
}
