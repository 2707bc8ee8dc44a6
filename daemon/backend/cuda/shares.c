/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cuda/shares.h"
#include "libcommon/error.h"
#include <stdlib.h>

#define HALVINGS 40 /* of an interval of shares */

static void find_apart(struct cuda_shares *p)
{
    const struct hparams *s = p->s;
    for (uint32_t l = 0; l < s->n_layers; l++) {
        p->apart[l] = true;
        if (!(s->by_layer.parts[l] & LAYER_ATTENTION)) continue;
        for (uint32_t i = hparams_kv_layer(s, l) + 1; i <= l; i++) p->apart[i] = false;
    }
}

int cuda_shares_init(struct cuda_shares *p, const struct hparams *s)
{
    *p = (struct cuda_shares){.s = s};
    p->begin = calloc(s->n_layers + 2, sizeof(*p->begin));
    p->kv = calloc(s->n_layers, sizeof(*p->kv));
    p->apart = calloc(s->n_layers, sizeof(*p->apart));
    if (!p->begin || !p->kv || !p->apart) return error_say(-ENOMEM, "out of memory for %u layers", s->n_layers);
    find_apart(p);
    return 0;
}

void cuda_shares_fini(struct cuda_shares *p)
{
    free(p->begin);
    free(p->kv);
    free(p->apart);
}

size_t cuda_shares_weights(const struct cuda_shares *p, uint32_t first, uint32_t end)
{
    const uint32_t n = p->s->n_layers;
    const size_t behind = p->begin[n + 1] - p->begin[n];
    return p->begin[end] - p->begin[first] + (!first || end == n ? behind : 0) + (end == n ? p->begin[0] : 0);
}

double cuda_shares_kv(const struct cuda_shares *p, uint32_t first, uint32_t end)
{
    double sum = 0;
    for (uint32_t l = first; l < end; l++) sum += p->kv[l];
    return sum;
}

/* Parts that the layers from @l on can be cut into. */
static uint32_t parts_from(const struct cuda_shares *p, uint32_t l)
{
    uint32_t n = 0;
    for (; l < p->s->n_layers; l++) n += p->apart[l];
    return n;
}

/* The next end of a device that has the layers before @l; 0: @l is behind the last layer. */
static uint32_t next_end(const struct cuda_shares *p, uint32_t l)
{
    if (l == p->s->n_layers) return 0;
    for (l++; l < p->s->n_layers && !p->apart[l]; l++) continue;
    return l;
}

static double room_of(const struct cuda_shares *p, uint32_t device)
{
    const size_t left = p->of[device].left, fixed = p->of[device].fixed;
    return left > fixed ? (double)(left - fixed) : 1;
}

/* Give each device as much as fits into @share of its room, but leave a part for each behind it. False: some layers are
 * left, or a device gets none. */
static bool fill(struct cuda_shares *p, double share)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t end = at;
        for (uint32_t to = next_end(p, at); to && parts_from(p, to) >= p->n - 1 - i; to = next_end(p, to)) {
            if ((double)cuda_shares_weights(p, at, to) + cuda_shares_kv(p, at, to) > share * room_of(p, i)) break;
            end = to;
        }
        if (end == at) return false;
        p->of[i].end = at = end;
    }
    return at == p->s->n_layers;
}

int cuda_shares_balance(struct cuda_shares *p)
{
    double low = 0, high = 1;
    if (parts_from(p, 0) < p->n)
        return error_say(-EOPNOTSUPP, "a '%s' model of %u layers that share KV cannot be split over %u devices",
                         p->s->arch, p->s->n_layers, p->n);
    while (!fill(p, high)) high *= 2;
    for (int i = 0; i < HALVINGS; i++) {
        const double half = (low + high) / 2;
        if (fill(p, half))
            high = half;
        else
            low = half;
    }
    fill(p, high);
    return 0;
}
