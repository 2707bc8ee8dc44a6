/* SPDX-License-Identifier: MIT */
/* Work that the engine's thread gives to the job pool and takes back. */
#include "daemon/engine/state.h"

static void errand_done(struct job *j)
{
    struct errand *x = errand_of(j);
    struct engine *e = x->engine;
    pthread_mutex_lock(&e->lock);
    x->next = e->returned;
    e->returned = x;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
}

void errand_send(struct engine *e, struct errand *x, uid_t uid, void (*run)(struct job *),
                 void (*back)(struct engine *, struct errand *))
{
    x->engine = e;
    x->back = back;
    x->job.uid = uid;
    x->job.run = run;
    x->job.done = errand_done;
    e->errands++;
    job_pool_push(e->aux, &x->job);
}

void seq_send(struct engine *e, struct seq *s, void (*run)(struct job *),
              void (*back)(struct engine *, struct errand *))
{
    s->in_aux = true;
    s->errand.job.uncharged = s->state == SEQ_FETCHING;
    s->aux_r = 0;
    errand_send(e, &s->errand, s->uid, run, back);
}

bool seq_recall(struct engine *e, struct seq *s)
{
    if (!s->in_aux || !job_pool_recall(e->aux, &s->errand.job)) return false;
    s->in_aux = false;
    e->errands--;
    store_unfetch(e, s);
    return true;
}

void errands_back(struct engine *e, struct errand *list)
{
    struct errand *first = NULL, *next;
    for (; list; list = next) {
        next = list->next;
        list->next = first;
        first = list;
    }
    for (; first; first = next) {
        next = first->next;
        e->errands--;
        first->back(e, first);
    }
}
