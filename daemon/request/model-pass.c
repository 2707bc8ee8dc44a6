/* SPDX-License-Identifier: MIT */
/* The draft model: its forward passes. */
#include "daemon/request/model-draft-inside.h"
#include "daemon/speculate/calibration.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST 8 /* items of a prompt that are read before one step */

static int reserve_rows(struct model_drafter *m, uint32_t rows)
{
    size_t bytes;
    if (rows <= m->rows) return 0;
    if (__builtin_mul_overflow((size_t)rows, m->model->hparams.vocab * sizeof(*m->logits), &bytes) ||
        bytes > SIZE_MAX - KERN_ALIGN)
        return error_say(-ENOMEM, "no memory for %u rows of logits", rows);
    float *logits = aligned_alloc(KERN_ALIGN, kern_align(bytes));
    if (!logits) return error_say(-ENOMEM, "no memory for %u rows of logits", rows);
    free(m->logits);
    m->logits = logits;
    m->rows = rows;
    return 0;
}

/* The time of a pass counts as service of as many tokens as would be decoded in it. */
static void charge(struct core *core, const struct model_place *p, double ms)
{
    const struct plan *plan = &core->plan;
    const struct sched_load one = {.decode = 1};
    double token = plan->book.time.samples ? sched_time_of(&plan->book.time, &one) : ms;
    p->d->owed += ms / (token > 0.01 ? token : 0.01) * plan->config.decode_units;
    const uint32_t units = (uint32_t)p->d->owed;
    p->d->owed -= units;
    p->s->sched.spent += units;
    plan_charge(core, p->s->request->user, units);
    plan_update(core, p->s);
}

/* Compute the @n entries; an MTP layer's states, too. 0; else -errno. */
static int compute(struct core *core, struct model_drafter *m, uint32_t n, const struct sched_load *load, double *ms)
{
    struct backend *b = m->model->backend;
    uint64_t began = clock_now_usec();
    pthread_mutex_unlock(&core->own); /* a status need not wait */
    int r = b->ops->forward(b, m->entries, n, m->logits, m->states);
    pthread_mutex_lock(&core->own);
    *ms = (double)(clock_now_usec() - began) / 1000;
    if (r < 0) return r;
    atomic_fetch_add(&core->progress, 1);
    sched_time_learn(&m->time, load, *ms);
    m->passes_ms += *ms;
    m->step_ms += *ms;
    m->passes++;
    m->tokens += load->decode + load->prefill;
    return 0;
}

/* The next @n items of @p. */
static struct batch_entry items_entry(const struct model_drafter *m, const struct model_place *p, uint32_t n)
{
    const struct model_draft *d = p->d;
    return (struct batch_entry){.pos = d->n - d->base,
                                .n = n,
                                .tokens = seq_ids(p->s) + d->n,
                                .states = model_is_mtp(m) ? model_states_of(&d->states, d->n - 1, model_dim(m)) : NULL};
}

int model_read(struct core *core, struct model_drafter *m, struct model_place *p, double ms)
{
    struct model_draft *d = p->d;
    uint32_t n = seq_known(p->s) - d->n - 1, most = m->model->backend->config.batch_tokens;
    const uint32_t depth = d->n - d->base;
    if (n > most) n = most;
    if (m->time.samples) n = sched_time_prefill(&m->time, depth, ms, n);
    if (n < LEAST) n = LEAST;
    const struct sched_load load = {.prefill = n, .prefill_kv = ((double)depth * n + (double)n * n / 2) / 1000};
    m->tables[0] = d->table.ids;
    m->entries[0] = items_entry(m, p, n);
    m->entries[0].blocks = &m->tables[0];
    double took;
    int r = compute(core, m, 1, &load, &took);
    if (r < 0) return r;
    d->n += n;
    charge(core, p, took);
    past_spend(p->s->speculation.past, took / (m->step_ms - took));
    return 0;
}

/* The items that the next round computes: those that are missing, or the token of the last round. */
static struct batch_entry entry_of(const struct model_drafter *m, const struct model_place *p)
{
    const struct model_draft *d = p->d;
    uint32_t known = seq_known(p->s);
    if (d->n_ids == 0) return items_entry(m, p, known - d->n);
    return (struct batch_entry){.pos = known - d->base + d->n_ids - 1,
                                .n = 1,
                                .tokens = &d->ids[d->n_ids - 1],
                                .states = m->next ? m->next + (size_t)(p - m->places) * model_dim(m) : NULL};
}

static uint32_t fill_entries(struct model_drafter *m, struct sched_load *load)
{
    uint8_t *want = m->want;
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        const struct model_place *p = &m->places[i];
        if (!p->takes) continue;
        struct batch_entry *e = &m->entries[n];
        *e = entry_of(m, p);
        m->tables[n] = p->d->table.ids;
        e->blocks = &m->tables[n++];
        e->want = want;
        memset(want, WANT_NOTHING, e->n - 1);
        want[e->n - 1] = WANT_LOGITS | (model_is_mtp(m) ? WANT_HIDDEN : 0);
        want += e->n;
        load->decode++;
        load->prefill += e->n - 1;
        load->decode_kv += (double)e->pos / 1000;
    }
    return n;
}

/* Append the likeliest token of @row to the draft. */
static void append(const struct model_drafter *m, struct model_place *p, const float *row)
{
    struct model_draft *d = p->d;
    float max, lse;
    uint32_t id = 0;
    backend_logsumexp(m->model->backend, row, &max, &lse);
    while (id < m->model->vocab && !(row[id] == max)) id++;
    d->n = seq_known(p->s) + (model_is_mtp(m) ? 0 : d->n_ids); /* the KV of the items, and of the tokens before; that
                                                                * of an MTP layer is of its own states */
    if (id == m->model->vocab) {                               /* not a number, or no token of the vocabulary */
        p->ended = true;
        return;
    }
    float probability = expf(-lse);
    p->chance *= calibration_chance(&d->calibration, &p->s->speculation.past->calibration, probability);
    d->ids[d->n_ids] = (int32_t)id;
    d->probability[d->n_ids] = probability;
    p->s->speculation.chance[d->n_ids++] = p->chance;
    p->ended = d->n_ids == p->most;
}

int model_round(struct core *core, struct model_drafter *m)
{
    struct sched_load load = {0};
    double took;
    uint32_t n = fill_entries(m, &load);
    int r = reserve_rows(m, n);
    if (r == 0) r = compute(core, m, n, &load, &took);
    if (r < 0) return r;
    const float *row = m->logits, *state = m->states;
    for (uint32_t i = 0; i < m->n; i++) {
        struct model_place *p = &m->places[i];
        if (!p->takes) continue;
        const uint32_t before = p->d->n_ids;
        append(m, p, row);
        row += m->model->hparams.vocab;
        if (m->next) memcpy(m->next + (size_t)i * model_dim(m), state, model_dim(m) * sizeof(*state));
        if (m->next) state += model_dim(m);
        charge(core, p, took / n);
        past_spend(p->s->speculation.past, took / n / m->step_ms);
        if (p->d->n_ids == before) continue; /* no token */
        m->tokens_step += p->chance;
        m->rows_ms += model_row_ms(core, seq_known(p->s) + p->d->n_ids);
    }
    return 0;
}
