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
    size_t n = core->config.parallel, dim = model->mtp ? model->hparams.dim : 0;
    m->model = model;
    sched_time_init(&m->time);
    m->places = calloc(n, sizeof(*m->places));
    m->entries = calloc(n, sizeof(*m->entries));
    m->tables = calloc(n, sizeof(*m->tables));
    m->want = calloc(model->backend->config.batch_tokens, sizeof(*m->want));
    if (dim) m->states = calloc(2 * n, dim * sizeof(*m->states));
    if (!m->places || !m->entries || !m->tables || !m->want || (dim && !m->states)) return error_origin(-ENOMEM);
    if (dim) m->next = m->states + n * dim;
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
    free(m->states);
    free(m);
    core->drafter.model = NULL;
}

void model_draft_leave(struct core *core, struct seq *s)
{
    struct model_draft *d = s->speculation.model;
    if (!d) return;
    kv_table_fini(&d->table, core->drafter.model->pool);
    model_states_fini(&d->states);
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
    if (!m->warned) log_warning("the %s proposes less: %s", model_is_mtp(m) ? "model's MTP layer" : "draft model", why);
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

/* After items of @s were taken out, those behind have other numbers: nothing holds that is known of them. */
static void note_loss(const struct seq *s, struct model_draft *d)
{
    const uint32_t known = seq_known(s);
    if (known >= d->known) return;
    d->states.n = 0;
    d->base = d->n = d->n_ids = 0;
    d->known = known;
    if (d->checked > known) d->checked = known;
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

uint32_t model_draft_states_from(const struct core *core, const struct seq *s)
{
    const struct model_drafter *m = core->drafter.model;
    const uint32_t known = seq_known(s);
    if (!m || !model_is_mtp(m) || !s->speculation.states || !s->speculation.past) return UINT32_MAX;
    return known > MODEL_STATES_MOST ? known - MODEL_STATES_MOST : 0;
}

void model_draft_states(struct core *core, struct seq *s, uint32_t at, uint32_t n, const float *rows)
{
    struct model_draft *d = begin(s);
    if (!d) return;
    note_loss(s, d);
    model_states_add(&d->states, at, n, rows, model_dim(core->drafter.model));
}

static bool is_token(const struct model_drafter *m, int32_t id)
{
    return id >= 0 && (uint32_t)id < m->model->vocab;
}

/* Where the MTP layer reads on in @s: behind the first state that it has, where there is a gap before it, and behind
 * items that are no tokens. False: it lacks the last states. */
static bool is_followed(const struct model_drafter *m, const struct seq *s, struct model_draft *d)
{
    struct model_states *t = &d->states;
    const uint32_t known = seq_known(s), ctx = m->model->backend->config.ctx;
    if (t->n == 0 || t->at + t->n < known - 1) return false;
    if (d->n <= t->at || d->n < d->base || d->n - d->base + SEQ_DRAFT_MAX >= ctx) d->base = d->n = t->at + 1;
    for (uint32_t i = d->n; i < known; i++)
        if (!is_token(m, seq_ids(s)[i])) d->base = d->n = i + 1;
    if (d->n >= known) return false;
    model_states_drop(t, d->n - 1);
    return true;
}

/* Blocks for the items of @s and the draft, which has less tokens if there are not enough. False: there is no room. */
static bool cover(struct model_drafter *m, struct model_place *p)
{
    uint32_t known = seq_known(p->s) - p->d->base, ctx = m->model->backend->config.ctx;
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
    note_loss(s, d);
    learn(s, d);
    d->known = seq_known(s);
    if (d->idle < UINT32_MAX) d->idle++;
    *p = (struct model_place){.s = s, .d = d, .most = s->speculation.most, .chance = 1};
    if (!(model_is_mtp(m) ? is_followed(m, s, d) : is_readable(m, s, d))) return false;
    uint32_t missing = d->known - d->n;
    bool far = missing > MODEL_NEAR;
    if (far && !(*read && model_reading_pays(core, m, p, missing))) return false;
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
