/* SPDX-License-Identifier: MIT */
#include "daemon/speculate/past.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const int32_t end_of_text = -1;

static size_t bytes_of(const struct past *p)
{
    return sizeof(*p) + lookup_bytes(p->answers);
}

static void free_past(struct pasts *t, struct past **at)
{
    struct past *p = *at;
    *at = p->next;
    t->n--;
    t->bytes -= bytes_of(p);
    lookup_free(p->answers);
    free(p);
}

static uint32_t count(const struct pasts *t, uid_t uid)
{
    uint32_t n = 0;
    for (const struct past *p = t->list; p; p = p->next) n += p->uid == uid;
    return n;
}

/* Forget one that nobody holds, of a user with the most. False: there is none. */
static bool forget_one(struct pasts *t)
{
    struct past **victim = NULL;
    uint32_t most = 0;
    for (struct past **at = &t->list; *at; at = &(*at)->next) {
        uint32_t n = (*at)->holds ? 0 : count(t, (*at)->uid);
        if (n == 0 || n < most) continue;
        most = n;
        victim = at;
    }
    if (victim) free_past(t, victim);
    return victim;
}

static void make_room(struct pasts *t)
{
    while ((t->n > PASTS_MOST || t->bytes > PASTS_BYTES) && forget_one(t)) continue;
}

static struct past *new_past(struct pasts *t, const uint8_t name[PAST_NAME], uid_t uid)
{
    struct past *p = calloc(1, sizeof(*p));
    if (p && lookup_new(&p->answers, PAST_TOKENS) < 0) {
        free(p);
        return NULL;
    }
    if (!p) return NULL;
    memcpy(p->name, name, PAST_NAME);
    p->uid = uid;
    p->account = PAST_BEGIN;
    p->model_account = PAST_MODEL_BEGIN;
    t->n++;
    t->bytes += bytes_of(p);
    return p;
}

struct past *past_hold(struct pasts *t, const uint8_t name[PAST_NAME], uid_t uid)
{
    struct past **at = &t->list, *p;
    while (*at && ((*at)->uid != uid || memcmp((*at)->name, name, PAST_NAME) != 0)) at = &(*at)->next;
    if ((p = *at))
        *at = p->next;
    else
        p = new_past(t, name, uid);
    if (!p) return NULL;
    p->next = t->list;
    t->list = p;
    p->holds++;
    make_room(t);
    return p;
}

void past_drop(struct pasts *t, struct past *p)
{
    if (!p) return;
    assert(p->holds > 0);
    p->holds--;
    make_room(t);
}

void past_add(struct pasts *t, struct past *p, const int32_t *ids, uint32_t n)
{
    t->bytes -= bytes_of(p);
    if (lookup_push(p->answers, &end_of_text, 1) == 0)
        (void)!lookup_push(p->answers, ids, n); /* without memory: less */
    t->bytes += bytes_of(p);
}

static void pay_in(struct past *p, double steps)
{
    p->account += steps;
    if (p->account > PAST_MOST) p->account = PAST_MOST;
}

void past_pay(struct past *p, uint32_t rows, double cost, uint32_t sequences)
{
    pay_in(p, PAST_ALLOWANCE / sequences - rows * cost);
}

void past_spend(struct past *p, double steps)
{
    p->model_account -= steps;
    if (p->model_account > PAST_MODEL_MOST) p->model_account = PAST_MODEL_MOST;
}

void past_earn(struct past *p, uint32_t sequences)
{
    pay_in(p, 1.0 / sequences);
}

uint32_t past_rows(const struct past *p, double cost, uint32_t most)
{
    if (!(p->account > 0)) return 0;
    double rows = p->account / cost;
    return rows < most ? (uint32_t)rows : most;
}

size_t pasts_bytes(const struct pasts *t, uid_t uid)
{
    size_t sum = 0;
    for (const struct past *p = t->list; p; p = p->next)
        if (uid == (uid_t)-1 || p->uid == uid) sum += bytes_of(p);
    return sum;
}

void pasts_fini(struct pasts *t)
{
    while (t->list) free_past(t, &t->list);
}
