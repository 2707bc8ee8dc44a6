/* SPDX-License-Identifier: MIT */
/* The identity of KV blocks: a hash of everything that their bits depend on, apart from the tokens and other inputs
 * that backend_kv_identity names. */
#include "daemon/backend/cpu/cpu.h"
#include <math.h>
#include <string.h>
#include <xxhash.h>

/* Version of the computation of forward.c and attention.c and of the layout of kv-memory.h, apart from KERN_ARITHMETIC.
 */
#define CPU_VERSION 1

#define PROBES 64 /* positions that sines are taken at */

struct identity {
    char backend[8];
    struct fingerprint model; /* weights, and RoPE factors among them */
    uint32_t version, arithmetic;
    uint32_t kv_type, block, segment;
    uint32_t layers, kv_heads, head_dim;
    uint32_t rope_dim, window;
    float rope_magnitude;
    uint32_t n_groups;
    struct {
        uint32_t layers, kind, window, bytes_per_token;
    } groups[KV_GROUPS_MAX];
    uint64_t details;
};

_Static_assert(sizeof(struct identity) == 8 + 16 + 12 * 4 + KV_GROUPS_MAX * 16 + 8, "no padding: it is hashed");

/* pow, cos and sin are libm's, whose last bit differs by version and CPU. A sample in double tells them apart,
 * because it is more precise than the f32 results. Then the features that only some models have. */
static uint64_t details(const struct cpu *c)
{
    uint64_t hash = 0;
    for (uint32_t r = 0; r < hparams_ropes(&c->base.hparams); r++)
        for (uint32_t j = 0; j < hparams_rotated(&c->base.hparams, r) / 2; j++)
            for (uint32_t i = 0; i < PROBES; i++) {
                double freq = c->freqs[r][j], angle = i * 509 * freq, probe[] = {freq, cos(angle), sin(angle)};
                hash = XXH3_64bits_withSeed(probe, sizeof(probe), hash);
            }
    if (hparams_state(&c->base.hparams)) {
        const uint32_t more[] = {KERN_RECURRENCE, c->base.hparams.recurrent.floats, c->base.hparams.recurrent.taps};
        hash = XXH3_64bits_withSeed(more, sizeof(more), hash);
        hash = XXH3_64bits_withSeed(c->base.hparams.by_layer.parts, sizeof(c->base.hparams.by_layer.parts), hash);
    }
    if (c->base.hparams.by_layer.window_heads.kv_heads)
        hash = XXH3_64bits_withSeed(&c->base.hparams.by_layer.window_heads,
                                    sizeof(c->base.hparams.by_layer.window_heads), hash);
    if (hparams_grids(&c->base.hparams))
        hash = XXH3_64bits_withSeed(c->base.hparams.sections, sizeof(c->base.hparams.sections), hash);
    return hash;
}

int cpu_kv_identity(const struct backend *b, uint8_t out[16])
{
    const struct cpu *c = (const struct cpu *)b;
    const struct hparams *s = &b->hparams;
    struct identity id = {.backend = "cpu",
                          .version = CPU_VERSION,
                          .arithmetic = KERN_ARITHMETIC,
                          .kv_type = b->config.kv_type,
                          .block = KV_BLOCK,
                          .segment = KV_SEGMENT,
                          .layers = s->n_layers,
                          .kv_heads = s->kv_heads,
                          .head_dim = s->head_dim,
                          .rope_dim = s->rope_dim,
                          .window = s->window,
                          .rope_magnitude = s->rope.magnitude,
                          .n_groups = s->n_groups,
                          .details = details(c)};
    int r = weights_model(&c->weights, &id.model);
    if (r) return r;
    for (uint32_t i = 0; i < s->n_groups; i++) {
        id.groups[i].layers = s->groups[i].n_layers;
        id.groups[i].kind = s->groups[i].kind;
        id.groups[i].window = s->groups[i].window;
        id.groups[i].bytes_per_token = (uint32_t)s->groups[i].bytes_per_token;
    }
    XXH128_canonical_t hash;
    XXH128_canonicalFromHash(&hash, XXH3_128bits(&id, sizeof(id)));
    memcpy(out, hash.digest, sizeof(hash.digest));
    return 0;
}
