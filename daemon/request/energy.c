/* SPDX-License-Identifier: MIT */
#include "daemon/request/energy.h"
#include "daemon/request/request.h"
#include "libcommon/clock.h"
#include "libcommon/log.h"
#include <math.h>
#include <time.h>

#define FIRST_NSEC  20000000 /* of the first measurement of the idle power; the counters change every ms */
#define READ_USEC   50000    /* between two readings in steps, */
#define PROMPT_USEC 5000     /* of which none has tokens of an answer */
#define IDLE_USEC   500000   /* without steps, from which on the power counts as idle */
#define IDLE_MEMORY 30e6     /* us: after so long a time, the new value of the idle power has half of the weight */
#define MOST_WATTS  1000     /* of a package; with more the counter could have started again */
#define PURE        0.9      /* share of one kind of tokens from which on their energy is learned */
#define LEARN       256      /* tokens whose weight equals that of all before */

/* A counter cannot have passed its whole range in @usec. */
static bool is_safe(const struct powercap *p, uint64_t usec)
{
    for (unsigned i = 0; i < p->n; i++)
        if ((double)p->zone[i].range < MOST_WATTS * (double)usec) return false;
    return true;
}

/* Read the counters: joules since the last reading, and *usec; negative: not known. */
static double take(struct energy *e, uint64_t now, uint64_t *usec)
{
    double before = e->read_joules;
    *usec = now - e->read_at;
    bool safe = is_safe(&e->counters, *usec);
    e->read_at = now;
    e->read_joules = powercap_read(&e->counters);
    return safe && energy_known(e) ? e->read_joules - before : -1;
}

void energy_open(struct energy *e, const char *root)
{
    uint64_t usec;
    *e = (struct energy){0};
    powercap_open(&e->counters, root);
    if (!energy_known(e)) return;
    e->read_at = clock_now_usec();
    nanosleep(&(struct timespec){.tv_nsec = FIRST_NSEC}, NULL);
    double joules = take(e, clock_now_usec(), &usec);
    if (joules >= 0 && usec > 0) e->idle_watts = joules / (double)usec * 1e6;
    log_debug("energy: %u CPU packages, idle at %.1f W", e->counters.n, e->idle_watts);
}

void energy_skip(struct energy *e, uint64_t now)
{
    uint64_t usec;
    if (energy_known(e)) (void)take(e, now, &usec);
}

void energy_close(struct energy *e)
{
    powercap_close(&e->counters);
}

void energy_computed(struct energy *e, struct seq *s, const struct sched_run *run)
{
    uint32_t answer = s->generated && run->logits ? 1 + run->draft : 0, n[2] = {run->n - answer, answer};
    if (!energy_known(e)) return;
    for (int kind = 0; kind < 2; kind++) {
        e->pending[kind] += n[kind];
        s->energy.pending[kind] += n[kind];
    }
}

/* Learn the energy of a token of kind @kind from @joules of all pending ones, if nearly all are of this kind. */
static void learn(const struct energy *e, double *token, int kind, double joules)
{
    double n = (double)e->pending[kind], all = n + (double)e->pending[!kind];
    if (n < PURE * all) return;
    *token += (joules / all - *token) * (*token > 0 ? n / (n + LEARN) : 1);
}

/* The account that the energy of @s counts for; NULL: it is the daemon's own. */
static struct user_counts *account_of(const struct seq *s)
{
    const struct request *r = s->request;
    return r->user && !r->control.internal ? &r->user->counts : NULL;
}

/* Read the counters, and share the energy among the sequences. */
static void settle(struct energy *e, struct seq_list *all, uint64_t now)
{
    uint64_t usec;
    double joules = take(e, now, &usec), tokens = (double)(e->pending[0] + e->pending[1]);
    double net = joules < 0 ? 0 : fmax(0, joules - e->idle_watts * (double)usec * 1e-6);
    for (struct seq *s = all->head; s; s = s->next) {
        struct seq_energy *x = &s->energy;
        double of_prompt = net * x->pending[0] / tokens, of_answer = net * x->pending[1] / tokens;
        x->prompt += of_prompt;
        x->answer += of_answer;
        x->pending[0] = x->pending[1] = 0;
        if (account_of(s)) account_of(s)->joules += of_prompt + of_answer;
    }
    if (joules >= 0) {
        learn(e, &e->prompt_token, 0, net);
        learn(e, &e->answer_token, 1, net);
    }
    e->pending[0] = e->pending[1] = 0;
}

void energy_begin(struct energy *e, struct seq_list *all, uint64_t now)
{
    uint64_t usec = now - e->read_at;
    if (!energy_known(e)) return;
    if (e->pending[0] && !e->pending[1] && usec >= PROMPT_USEC) settle(e, all, now);
    if (e->pending[0] + e->pending[1] || usec < READ_USEC) return;
    double joules = take(e, now, &usec), weight = (double)usec / ((double)usec + IDLE_MEMORY);
    if (joules >= 0 && usec >= IDLE_USEC) e->idle_watts += (joules / (double)usec * 1e6 - e->idle_watts) * weight;
}

void energy_end(struct energy *e, struct seq_list *all, uint64_t now, bool idle)
{
    if (e->pending[0] + e->pending[1] && (idle || now - e->read_at >= READ_USEC)) settle(e, all, now);
}

void energy_done(struct energy *e, struct seq_list *all, struct seq *s, uint64_t now, struct proto_event *ev)
{
    if (e->pending[0] + e->pending[1]) settle(e, all, now);
    if (!energy_known(e)) return;
    double saved = s->nth == 0 ? e->prompt_token * (double)s->cached : 0;
    if (account_of(s)) account_of(s)->joules_saved += saved;
    ev->energy = (struct proto_energy){.known = true,
                                       .prompt_j = s->energy.prompt,
                                       .token_j = s->generated ? s->energy.answer / s->generated : 0,
                                       .saved_j = saved};
}
