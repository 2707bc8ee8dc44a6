/* SPDX-License-Identifier: MIT */
/* Nanoseconds to read a token, and to propose a draft, in texts of 30,000 tokens. Not a test: run it alone. */
#include "daemon/speculate/guesser.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TOKENS 30000
#define DRAFTS 2000

static int32_t text[TOKENS + DRAFTS];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* @words: different tokens; each text of @period tokens comes again. */
static int measure(const char *name, int words, int period)
{
    static const uint8_t me[PAST_NAME];
    struct pasts pasts = {0};
    struct past *past = past_hold(&pasts, me, 0);
    struct guesser *g;
    int32_t out[GUESS_MOST];
    float chance[GUESS_MOST];
    double proposing = 0;
    if (!past || guesser_new(&g, past) < 0) return 1;
    for (int i = 0; i < TOKENS + DRAFTS; i++) text[i] = i < period ? rand() % words : text[i - period];
    past_add(&pasts, past, text, PAST_TOKENS);
    double began = now();
    guesser_read(g, text, TOKENS, TOKENS);
    double reading = now() - began;
    for (uint32_t i = 0; i < DRAFTS; i++) {
        guesser_read(g, text, TOKENS + i, 1);
        began = now();
        guesser_propose(g, text, TOKENS + i, out, chance, GUESS_MOST);
        proposing += now() - began;
    }
    printf("%-10s %6.1f ns to read a token, %6.0f ns for a draft, %5.1f bytes a token\n", name, reading / TOKENS,
           proposing / DRAFTS, (double)guesser_bytes(g) / TOKENS);
    guesser_free(g);
    past_drop(&pasts, past);
    pasts_fini(&pasts);
    return 0;
}

int main(void)
{
    return measure("prose", 3000, TOKENS + DRAFTS) | measure("copies", 3000, 1000) | measure("records", 40, 60) |
           measure("one token", 1, 1);
}
