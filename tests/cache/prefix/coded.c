/* SPDX-License-Identifier: MIT */
#include "tests/cache/prefix/coded.h"
#include <assert.h>
#include <string.h>

struct items coded_items(struct coded *c, const int32_t *codes, uint32_t n)
{
    struct items t = {.ids = c->ids, .n = n, .runs = c->runs};
    assert(n <= CODED_ITEMS);
    for (uint32_t i = 0; i < n; i++) {
        c->ids[i] = codes[i] < CODE_RUN ? codes[i] : ITEM_EMBD;
        if (codes[i] < CODE_RUN) continue;
        uint32_t run = (uint32_t)(codes[i] - CODE_RUN) / CODE_PLACES,
                 at = (uint32_t)(codes[i] - CODE_RUN) % CODE_PLACES;
        if (i > 0 && at > 0 && codes[i] == codes[i - 1] + 1) {
            c->runs[t.n_runs - 1].n++;
            continue;
        }
        struct item_run *r = &c->runs[t.n_runs++];
        *r = (struct item_run){.at = i, .n = 1, .kind = run == 3 ? ITEM_SOUND : ITEM_IMAGE, .offset = at};
        memset(r->digest, 0x40 + (run == 3 ? 0 : (int)run), sizeof(r->digest));
    }
    return t;
}

void coded_from(const struct items *t, int32_t *codes)
{
    for (uint32_t i = 0; i < t->n; i++) {
        const struct item_run *r = items_run_at(t, i);
        codes[i] = t->ids[i];
        if (r) codes[i] = code_of(r->kind == ITEM_SOUND ? 3 : r->digest[15] - 0x40, r->offset + t->base + i - r->at);
    }
}
