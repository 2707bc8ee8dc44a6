/* SPDX-License-Identifier: MIT */
/* Requests with a prompt: generate, warm and infill. Here they are checked; prepare.c makes their prompt in a job, then
 * enqueue.c lets them wait for a slot. */
#include "daemon/request/context-policy.h"
#include "daemon/request/decode-media.h"
#include "daemon/request/enqueue.h"
#include "daemon/request/infill-prompt.h"
#include "daemon/request/prepare.h"
#include "daemon/request/turn.h"
#include "daemon/request/types.h"
#include "libcommon/error.h"
#include "libcommon/random.h"
#include "libcommon/utf8.h"

/* --- checks --- */

static int check_stops(const struct proto_generate *g)
{
    for (size_t i = 0; i < g->n_stop; i++) {
        const struct proto_text *t = &g->stop[i];
        if (t->len == 0) return error_say(-EINVAL, "a stop string must not be empty");
        if (t->len > PROTO_STOP_MAX)
            return error_say(-EINVAL, "a stop string may have %d bytes, this one has %zu", PROTO_STOP_MAX, t->len);
        if (utf8_check(t->data, t->len) < t->len) return error_say(-EINVAL, "a stop string is not UTF-8");
    }
    return 0;
}

/* Negative: draw one. */
static int set_seed(struct seq *s, int64_t seed)
{
    uint64_t drawn;
    int r = seed < 0 ? random_fill(&drawn, sizeof(drawn)) : 0;
    if (r < 0) return r;
    s->sampling.seed = seed < 0 ? drawn >> 1 : (uint64_t)seed;
    return 0;
}

/* Check what the request asks of its answer, and set the parameters of @s. */
static int configure(struct request *r, struct seq *s)
{
    struct proto_generate *g = &r->proto.gen;
    struct sample_params *p = &s->sampling.params;
    bool infill = r->proto.type == PROTO_INFILL;
    const struct hparams *h = &r->core->model.backend->hparams;
    if (h->embedding.whole)
        return error_say(-EOPNOTSUPP, "the model '%s' gives vectors of texts and generates none (hob embed)",
                         r->core->config.model_name);
    *p = r->core->model.sampling;
    if (infill) p->temperature = 0;
    int result = sample_params_request(p, &g->sampling);
    if (result == 0) result = check_stops(g);
    if (result == 0 && infill) result = fim_add_stop(g);
    if (result < 0) return result;
    if (g->max_tokens == 0 || g->max_tokens < -1) return error_say(-EINVAL, "max_tokens must be at least 1");
    if (g->n > PROTO_ANSWERS_MAX) return error_say(-EINVAL, "n is more than %d", PROTO_ANSWERS_MAX);
    result = draft_check(r->core, r->proto.speculate);
    if (result < 0) return result;
    if (g->n > 1 && (g->session.len || g->continue_last))
        return error_say(-EINVAL, "n cannot be used with a session, which stores one answer");
    result = set_seed(s, g->sampling.seed);
    if (result < 0) return result;
    uint32_t max_lines = infill && g->infill.max_lines > 0 ? (uint32_t)g->infill.max_lines : 0;
    const struct loaded *m = &r->core->model;
    const struct output_request q = {.stop = g->stop, .n_stop = g->n_stop, .max_lines = max_lines, .format = m->format};
    output_fini(&s->output); /* of an earlier try, when the session was busy */
    return output_init(&s->output, m->tokenizer, &q);
}

static int acquire_session(struct request *r)
{
    const struct proto_generate *g = &r->proto.gen;
    struct session_store *store = r->core->sessions;
    if (g->fork.len && g->session.len == 0 && !g->continue_last)
        return error_say(-EINVAL, "fork needs session or continue, which select the session to fork");
    if (g->session.len) {
        if (g->continue_last) return error_say(-EINVAL, "session and continue cannot be used together");
        return session_acquire(store, r->uid, g->session.data, g->session.len, g->fork.len == 0, &r->turn.session);
    }
    return g->continue_last ? session_acquire_last(store, r->uid, &r->turn.session) : 0;
}

/* Do the messages fit into the memory of the user's sessions, with their files? */
static int check_memory(const struct request *r)
{
    const struct proto_generate *g = &r->proto.gen;
    uint64_t bytes = 0;
    for (size_t i = 0; i < g->n_messages; i++) bytes += proto_message_bytes(&g->messages[i]);
    return bytes && r->turn.session ? session_fits(r->core->sessions, r->turn.session, bytes) : 0;
}

static int begin(struct request *r)
{
    const struct proto_generate *g = &r->proto.gen;
    if (g->detach && g->session.len == 0 && !g->continue_last)
        return error_say(-EINVAL, "detach needs session or continue, which store the answer");
    if (context_check_bytes(&r->core->model, &r->proto) < 0) return 0; /* the job refuses it */
    int result = decode_media_begin(r);
    if (result == 0) result = configure(r, request_first(r));
    if (result == 0) result = acquire_session(r);
    if (result == 0) result = check_memory(r);
    if (result == 0) turn_find_fork(r);
    return result == -EBUSY && g->wait ? 1 : result; /* 1: until the session is free, or this request too late */
}

/* Without a session, a request needs nothing but the model. Errors are found again, and told, by the engine's thread.
 */
static bool early(struct request *r)
{
    const struct proto_generate *g = &r->proto.gen;
    if (g->session.len || g->continue_last || g->detach || g->fork.len || request_has_media(r)) return false;
    return context_check_bytes(&r->core->model, &r->proto) < 0 || configure(r, request_first(r)) == 0;
}

const struct request_type request_generate = {.proto = PROTO_GENERATE,
                                              .answers = true,
                                              .begin = begin,
                                              .work = prepare_request,
                                              .finish = enqueue_request,
                                              .early = early};
const struct request_type request_warm = {.proto = PROTO_WARM,
                                          .answers = true,
                                          .begin = begin,
                                          .work = prepare_request,
                                          .finish = enqueue_request,
                                          .early = early};
const struct request_type request_infill = {.proto = PROTO_INFILL,
                                            .answers = true,
                                            .begin = begin,
                                            .work = prepare_request,
                                            .finish = enqueue_request,
                                            .early = early};
