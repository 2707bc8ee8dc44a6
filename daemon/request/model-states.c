/* SPDX-License-Identifier: MIT */
#include "daemon/request/model-states.h"
#include <stdlib.h>
#include <string.h>

/* Room for @n rows more behind the last one. A quarter beside them is room, too, so that rows seldom move. */
static int reserve(struct model_states *t, uint32_t n, uint32_t dim)
{
    const uint32_t all = t->n + n;
    uint32_t room = t->room ? t->room : 8;
    if (t->first + all <= t->room) return 0;
    if (t->first && t->n) memmove(t->rows, t->rows + (size_t)t->first * dim, (size_t)t->n * dim * sizeof(*t->rows));
    t->first = 0;
    if (all + all / 4 <= t->room) return 0;
    while (room < all + all / 4) room *= 2;
    if (room > MODEL_STATES_ROOM) room = MODEL_STATES_ROOM;
    float *rows = reallocarray(t->rows, room, dim * sizeof(*rows));
    if (!rows) return -1;
    t->rows = rows;
    t->room = room;
    return 0;
}

void model_states_drop(struct model_states *t, uint32_t at)
{
    const uint32_t n = at <= t->at ? 0 : at - t->at < t->n ? at - t->at : t->n;
    t->first += n;
    t->at += n;
    t->n -= n;
}

void model_states_add(struct model_states *t, uint32_t at, uint32_t n, const float *rows, uint32_t dim)
{
    if (n > MODEL_STATES_MOST) {
        rows += (size_t)(n - MODEL_STATES_MOST) * dim;
        at += n - MODEL_STATES_MOST;
        n = MODEL_STATES_MOST;
    }
    if (at >= t->at && at - t->at <= t->n)
        t->n = at - t->at;
    else
        t->at = at, t->first = t->n = 0; /* items between are missing */
    if (t->n + n > MODEL_STATES_MOST) model_states_drop(t, t->at + t->n + n - MODEL_STATES_MOST);
    if (reserve(t, n, dim) < 0) {
        t->n = 0;
        return;
    }
    memcpy(t->rows + (size_t)(t->first + t->n) * dim, rows, (size_t)n * dim * sizeof(*rows));
    t->n += n;
}

void model_states_fini(struct model_states *t)
{
    free(t->rows);
    *t = (struct model_states){0};
}
