/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The pasts: for each namespace (uid, salt and model) the latest answers, in which its later requests look for drafts,
 * the experience with these, and an account of what they have cost. No namespace sees that of another, so nobody can
 * learn from the speed of an answer what others were told. Memory is limited to PAST_TOKENS tokens of a namespace, and
 * to PASTS_MOST and PASTS_BYTES in all; the user with the most pasts loses the one that was used least recently.
 */
#include "daemon/speculate/calibration.h"
#include "daemon/speculate/lookup.h"
#include "daemon/speculate/pace.h"
#include <sys/types.h>

#define PAST_TOKENS 16384
#define PAST_NAME   16 /* bytes of a namespace's name */
#define PASTS_MOST  256
#define PASTS_BYTES ((size_t)16 << 20)

/* The account is kept in steps of one sequence: a row of a draft costs the share of a step by which it makes the step
 * longer, an accepted token is worth a step. PAST_ALLOWANCE of each step may be lost. While the account is empty,
 * nothing is drafted; so drafts that are always refused cost at most PAST_BEGIN steps and this share. */
#define PAST_ALLOWANCE 0.01
#define PAST_BEGIN     1.0
#define PAST_MOST      4.0

/* The draft model has an account of its own, with the same allowance: its passes cost more than rows do, and it has to
 * read prompts. Beyond the account it may read a little and make a draft now and then (request/model-gain.c). */
#define PAST_MODEL_BEGIN 6.0
#define PAST_MODEL_MOST  32.0

struct past {
    struct past *next; /* used less recently */
    uint8_t name[PAST_NAME];
    uid_t uid;
    uint32_t holds;
    struct lookup *answers;
    struct pace pace;
    struct calibration calibration;
    double account, model_account;
};

struct pasts {
    struct past *list; /* the most recently used first; those that are held stay */
    uint32_t n;
    size_t bytes;
};

/* The past of @name, a new one if there is none; it stays until past_drop. NULL: no memory. */
struct past *past_hold(struct pasts *t, const uint8_t name[PAST_NAME], uid_t uid);
void past_drop(struct pasts *t, struct past *p); /* NULL ok */

/* An answer ended: its tokens @ids [n], and those before it that lead to it. */
void past_add(struct pasts *t, struct past *p, const int32_t *ids, uint32_t n);

/* A step that @sequences shared had @rows of a draft, each of @cost steps; one of them came true. */
void past_pay(struct past *p, uint32_t rows, double cost, uint32_t sequences);
void past_earn(struct past *p, uint32_t sequences);
/* The draft model took @steps for its passes and rows; negative: it saved some. */
void past_spend(struct past *p, double steps);
/* Rows of @cost that the account can pay. */
uint32_t past_rows(const struct past *p, double cost, uint32_t most);

/* What the pasts of @uid take; (uid_t)-1: of all. */
size_t pasts_bytes(const struct pasts *t, uid_t uid);
void pasts_fini(struct pasts *t);
