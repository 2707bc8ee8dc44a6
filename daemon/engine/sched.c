/* SPDX-License-Identifier: MIT */
#include "daemon/engine/sched.h"

/* Does @a come before @b? Decoding first, the longest waiting of them first; then prefill by arrival. */
static bool before(const struct sched_seq *a, const struct sched_seq *b)
{
    if (a->decoding != b->decoding) return a->decoding;
    if (a->decoding && a->last_step != b->last_step) return a->last_step < b->last_step;
    return a->arrival < b->arrival;
}

size_t sched_batch(const struct sched_seq *s, size_t n, uint32_t batch_tokens, uint32_t *order, struct sched_run *out)
{
    size_t ready = 0, runs = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i].paused || s[i].computed >= s[i].known) continue;
        size_t k = ready++;
        for (; k > 0 && before(&s[i], &s[order[k - 1]]); k--) order[k] = order[k - 1];
        order[k] = (uint32_t)i;
    }
    for (size_t k = 0; k < ready && batch_tokens > 0; k++) {
        const struct sched_seq *x = &s[order[k]];
        uint32_t left = x->known - x->computed, take = left < batch_tokens ? left : batch_tokens;
        out[runs++] = (struct sched_run){.index = order[k], .n = take, .logits = take == left};
        batch_tokens -= take;
    }
    return runs;
}

enum sched_verdict sched_admit(const struct sched_wait *w, uint32_t slots, uint32_t free_blocks)
{
    if (w->paused) return SCHED_PASS;
    return slots > 0 && w->blocks <= free_blocks ? SCHED_ADMIT : SCHED_WAIT;
}
