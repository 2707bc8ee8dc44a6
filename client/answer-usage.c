/* SPDX-License-Identifier: MIT */
#include "client/answer.h"
#include "libcommon/log.h"
#include <inttypes.h>
#include <stdio.h>

void answer_add(struct answer *a, const struct proto_event *e)
{
    a->others.tokens += e->usage_completion;
    a->others.prompt_j += e->energy.prompt_j;
    a->others.answer_j += e->energy.token_j * (double)e->usage_completion;
    a->others.saved_j += e->energy.saved_j;
}

/* The energy of all answers, of which @e is the last. */
static void answer_energy(const struct answer *a, const struct proto_event *e, char out[static 128])
{
    const struct proto_energy *x = &e->energy;
    double tokens = (double)(e->usage_completion + a->others.tokens), saved = x->saved_j + a->others.saved_j;
    double answer = x->token_j * (double)e->usage_completion + a->others.answer_j;
    snprintf(out, 128, ", energy unknown");
    if (!x->known) return;
    int n = snprintf(out, 128, ", energy %.3g J prompt", x->prompt_j + a->others.prompt_j);
    if (tokens > 0) n += snprintf(out + n, 128 - (size_t)n, ", %.3g J/token", answer / tokens);
    if (saved > 0) snprintf(out + n, 128 - (size_t)n, ", %.3g J saved", saved);
}

/* "image 2 of 2: 576 tokens (cached)" */
static void media_usage(const struct proto_event *e, size_t i)
{
    const struct proto_media_usage *u = &e->media[i];
    size_t number = 0, all = 0;
    char encoded[64] = " (cached)";
    for (size_t k = 0; k < e->n_media; k++) {
        all += e->media[k].kind == u->kind;
        if (k == i) number = all;
    }
    if (!u->cached) snprintf(encoded, sizeof(encoded), ", encoded in %.1f s", u->encode_ms / 1000);
    log_info("%s %zu of %zu: %" PRIu32 " tokens%s", proto_media_name(u->kind), number, all, u->tokens, encoded);
}

/* How many tokens were proposed, and how many a step gave. */
static void answer_speculation(const struct proto_event *e, char out[static 128])
{
    uint64_t steps = e->usage_completion - e->usage_accepted;
    char model[48] = "";
    *out = 0;
    if (e->usage_drafted == 0 || e->usage_accepted >= e->usage_completion) return;
    if (e->usage_drafted_model)
        snprintf(model, sizeof(model), " (%" PRIu64 " by the draft model)", e->usage_drafted_model);
    snprintf(out, 128, ", drafted %" PRIu64 "%s, accepted %" PRIu64 " (%.1f tokens a step)", e->usage_drafted, model,
             e->usage_accepted, (double)e->usage_completion / (double)steps);
}

void answer_usage(const struct answer *a, const struct proto_event *e)
{
    uint64_t completion = e->usage_completion + a->others.tokens;
    double total = e->queue_ms + e->prefill_ms + e->decode_ms;
    double speed = e->decode_ms > 0 ? (double)completion * 1000 / e->decode_ms : 0;
    char prompt[256], shifted[128] = "", energy[128], drafts[128];
    answer_energy(a, e, energy);
    answer_speculation(e, drafts);
    if (e->cut.shifted) snprintf(shifted, sizeof(shifted), ", %" PRIu64 " dropped", e->cut.shifted);
    if (e->cut.prefix || e->cut.suffix)
        snprintf(shifted, sizeof(shifted),
                 ", without the first %" PRIu64 " bytes of the prefix and the last %" PRIu64 " of the suffix",
                 e->cut.prefix, e->cut.suffix);
    snprintf(prompt, sizeof(prompt), "prompt %" PRIu64 " tokens (%" PRIu64 " cached%s)", e->usage_prompt,
             e->usage_cached, shifted);
    if (a->opt->warm)
        log_info("%s, prefill %.0f ms%s%s%s", prompt, total, e->session.len ? ", session " : "",
                 e->session.len ? e->session.data : "", energy);
    else
        log_info("%s, answer %" PRIu64 " tokens, first token %.0f ms, total %.0f ms, %.1f tok/s%s, seed %" PRId64
                 "%s%s%s",
                 prompt, completion, e->ttft_ms, total, speed, drafts, e->seed, e->session.len ? ", session " : "",
                 e->session.len ? e->session.data : "", energy);
    for (size_t i = 0; i < e->n_media; i++) media_usage(e, i);
}
