/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The energy of the CPU packages, shared among the sequences by the tokens that the steps compute for them. The idle
 * power is taken off: the mean power of the times without steps, which includes all other work of the machine. The
 * counters are read every 50 ms while there are steps, every 5 ms while these compute only prompts, and when an answer
 * ends. All times are monotonic us.
 */
#include "daemon/sched/scheduler.h"
#include "daemon/sequence/sequence.h"
#include "libcommon/powercap.h"

struct energy {
    struct powercap counters; /* n 0: not readable; nothing is known then */
    uint64_t read_at;         /* the last reading */
    double read_joules;       /* of the counters at that time */
    double idle_watts;
    double prompt_token, answer_token; /* joules of a token, as learned from the steps; 0: not yet */
    uint64_t pending[2];               /* tokens computed since the last reading: of prompts, of answers */
};

/* Open the counters (@root as in powercap_open) and, if they are readable, measure the idle power for 20 ms. */
void energy_open(struct energy *e, const char *root);
void energy_close(struct energy *e);

/* The time since the last reading was not idle, although no step ran: the model was loaded. */
void energy_skip(struct energy *e, uint64_t now);

static inline bool energy_known(const struct energy *e)
{
    return e->counters.n > 0;
}

/* A step begins. The time since the last one may have been idle. */
void energy_begin(struct energy *e, struct seq_list *all, uint64_t now);

/* The step has computed @run of @s. Of an answer are its last token and the proposed ones; tokens before these that are
 * computed again, after a preemption or a shift of the context, count like tokens of the prompt. Called for all
 * sequences of the step before any of them advances. */
void energy_computed(struct energy *e, struct seq *s, const struct sched_run *run);

/* The sequences of the step were advanced. @idle: no other step follows at once. */
void energy_end(struct energy *e, struct seq_list *all, uint64_t now, bool idle);

/* @s, one of @all, ends: set the energy of @ev, a done event, if it is known. */
void energy_done(struct energy *e, struct seq_list *all, struct seq *s, uint64_t now, struct proto_event *ev);
