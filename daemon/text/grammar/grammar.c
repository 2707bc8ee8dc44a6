/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/grammar.h"
#include "daemon/text/grammar/grammar-inside.h"
#include "daemon/text/grammar/mask-part.h"
#include "libcommon/error.h"
#include <stdlib.h>

int grammar_build(struct grammar **out, struct grammar_builder *b, expr_t root)
{
    struct rules rules;
    struct dfa dfa;
    struct grammar *g = calloc(1, sizeof(*g));
    if (!g) return error_origin(-ENOMEM);
    pthread_mutex_init(&g->lock, NULL);
    g->refs = 1;
    int r = rules_compile(&rules, &dfa, b, root);
    if (r < 0) {
        rules_fini(&rules);
        dfa_fini(&dfa);
        grammar_unref(g);
        return r;
    }
    r = rows_init(&g->rows, &rules, &dfa);
    g->share.memory = grammar_memory_ref(g->rows.share.memory);
    if (r == 0) g->start = rows_start(&g->rows);
    if (r == 0 && g->start == ROW_FAILED) r = rows_status(&g->rows);
    if (r < 0) {
        grammar_unref(g);
        return r;
    }
    g->rows.rows[g->start].pins++;
    *out = g;
    return 0;
}

void grammar_set_space(struct grammar *g, struct mask_space space)
{
    g->rows.dfa.space = space;
}

struct grammar *grammar_ref(struct grammar *g)
{
    atomic_fetch_add(&g->refs, 1);
    return g;
}

struct grammar *grammar_unref(struct grammar *g)
{
    if (!g || atomic_fetch_sub(&g->refs, 1) > 1) return NULL;
    mask_parts_forget(&g->rows.dfa);
    for (int i = 0; i < MASK_SLOTS; i++) free(g->slots[i].bits);
    grammar_share_close(&g->share);
    rows_fini(&g->rows);
    pthread_mutex_destroy(&g->lock);
    free(g);
    return NULL;
}
