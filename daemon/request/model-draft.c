/* SPDX-License-Identifier: MIT */
#include "daemon/request/model-draft-inside.h"
#include "daemon/speculate/calibration.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdlib.h>
#include <string.h>

#define ALONE_MS 1e6 /* of a part of a prompt, where nobody else waits: as long as it takes */

int model_draft_new(struct core *core)
{
    struct draft_model *model = core->model.draft;
    if (!model) return 0;
    struct model_drafter *m = core->drafter.model = calloc(1, sizeof(*m));
    if (!m) return error_origin(-ENOMEM);
    size_t n = core->config.parallel;
    m->model = model;
    sched_time_init(&m->time);
    m->places = calloc(n, sizeof(*m->places));
    m->entries = calloc(n, sizeof(*m->entries));
    m->tables = calloc(n, sizeof(*m->tables));
    m->want = calloc(model->backend->config.batch_tokens, sizeof(*m->want));
    if (!m->places || !m->entries || !m->tables || !m->want) return error_origin(-ENOMEM);
    return kv_pool_new(&m->pool, model->backend->kv_blocks[0]);
}

void model_draft_free(struct core *core)
{
    struct model_drafter *m = core->drafter.model;
    if (!m) return;
    kv_pool_free(m->pool);
    free(m->places);
    free(m->entries);
    free(m->tables);
    free(m->want);
    free(m->logits);
    free(m);
    core->drafter.model = NULL;
}

void model_draft_leave(struct core *core, struct seq *s)
{
    struct model_draft *d = s->speculation.model;
    if (!d) return;
    kv_table_fini(&d->table, core->drafter.model->pool);
    free(d);
    s->speculation.model = NULL;
}

void model_draft_stats(const struct core *core, struct model_draft_stats *out)
{
    const struct model_drafter *m = core->drafter.model;
    const struct sched_load one = {.decode = 1};
    *out = (struct model_draft_stats){.passes = m->passes,
                                      .tokens = m->tokens,
                                      .blocks = kv_pool_total(m->pool),
                                      .blocks_free = kv_pool_free_blocks(m->pool),
                                      .step_ms = m->time.samples ? sched_time_of(&m->time, &one) : 0};
}

static void warn(struct model_drafter *m, const char *why)
{
    if (!m->warned) log_warning("the draft model proposes less: %s", why);
    m->warned = true;
}

/* Compare the last draft with the tokens that came: its KV holds for those that are the same. */
static void learn(struct seq *s, struct model_draft *d)
{
    struct calibration *user = &s->speculation.past->calibration;
    uint32_t known = seq_known(s), hits = 0;
    while (hits < d->n_ids && d->known + hits < known) {
        bool hit = seq_ids(s)[d->known + hits] == d->ids[hits];
        calibration_learn(&d->calibration, d->probability[hits], hit);
        calibration_learn(user, d->probability[hits], hit);
        if (!hit) break;
        hits++;
    }
    if (d->n_ids && d->n > d->known + hits) d->n = d->known + hits;
    if (d->n >= known) d->n = known - 1; /* the last one gives the logits */
    d->n_ids = 0;
}

/* Can the draft model read all items of @s that it has not read? */
static bool is_readable(const struct model_drafter *m, const struct seq *s, struct model_draft *d)
{
    const int32_t *ids = seq_ids(s);
    if (seq_items(s).n_runs) d->off = true;
    for (; d->checked < seq_known(s) && !d->off; d->checked++)
        d->off = ids[d->checked] < 0 || (uint32_t)ids[d->checked] >= m->model->vocab;
    return !d->off;
}

static struct model_draft *begin(struct seq *s)
{
    struct model_draft *d = s->speculation.model;
    if (d || !s->speculation.past) return d; /* without a past there is no memory */
    return s->speculation.model = calloc(1, sizeof(*d));
}

/* Blocks for the items of @s and the draft, which has less tokens if there are not enough. False: there is no room. */
static bool cover(struct model_drafter *m, struct model_place *p)
{
    uint32_t known = seq_known(p->s), ctx = m->model->backend->config.ctx;
    if (known > ctx) return false;
    if (p->most > ctx - known + 1) p->most = ctx - known + 1;
    int r = kv_table_reserve(&p->d->table, m->pool, known + p->most - 1);
    if (r < 0) r = kv_table_reserve(&p->d->table, m->pool, known);
    if (r < 0) {
        warn(m, r == -ENOBUFS ? "its KV has no free block (see --kv-bytes)" : error_text(r));
        return false;
    }
    uint32_t room = p->d->table.n_blocks * KV_BLOCK - known + 1;
    if (p->most > room) p->most = room;
    return true;
}

/* A place for @s in this turn. *read: a prompt may be read. False: it gets none. */
static bool make_place(struct core *core, struct model_drafter *m, struct seq *s, bool *read)
{
    struct model_draft *d = begin(s);
    struct model_place *p = &m->places[m->n];
    if (!d) return false;
    if (seq_known(s) < d->known) d->n = d->n_ids = 0;
    learn(s, d);
    d->known = seq_known(s);
    if (d->idle < UINT32_MAX) d->idle++;
    *p = (struct model_place){.s = s, .d = d, .most = s->speculation.most, .chance = 1};
    uint32_t missing = d->known - d->n;
    bool far = missing > MODEL_NEAR;
    if (!is_readable(m, s, d) || (far && !(*read && model_reading_pays(core, m, p, missing)))) return false;
    if (!cover(m, p)) return false;
    if (far) {
        int r = model_read(core, m, p, core->running > 1 ? m->step_ms / m->decoding : ALONE_MS);
        if (r < 0) warn(m, error_text(r));
        *read = false;
    }
    return d->known - d->n <= MODEL_NEAR;
}

/* The draft of @p, for the next step. */
static void give(struct core *core, const struct model_place *p)
{
    struct seq_speculation *x = &p->s->speculation;
    if (p->d->n_ids == 0) return;
    memcpy(x->draft, p->d->ids, p->d->n_ids * sizeof(*x->draft));
    x->n_draft = p->d->n_ids;
    x->by_model = true;
    p->d->idle = 0;
    plan_update(core, p->s);
}

void model_draft_propose(struct core *core)
{
    struct model_drafter *m = core->drafter.model;
    bool read = true;
    int r = 0;
    uint32_t tokens = 0;
    if (!m) return;
    m->n = 0;
    model_expect(core, m);
    for (struct seq *s = core->seqs.head; s && m->n < core->config.parallel; s = s->next) {
        if (s->speculation.most == 0 || s->speculation.n_draft) continue;
        if (tokens + MODEL_NEAR > m->model->backend->config.batch_tokens) break;
        if (!make_place(core, m, s, &read)) continue;
        tokens += s->speculation.model->known - s->speculation.model->n;
        m->n++;
    }
    while (r == 0 && m->n && model_choose(core, m)) r = model_round(core, m);
    if (r < 0) warn(m, error_text(r));
    for (uint32_t i = 0; i < m->n; i++) give(core, &m->places[i]);
}
