/* SPDX-License-Identifier: MIT */
/* Requests with a prompt: generate, warm and infill, from their check to the moment they wait for a slot. */
#include "daemon/request/finish.h"
#include "daemon/request/infill-prompt.h"
#include "daemon/request/prepare.h"
#include "daemon/request/request-job.h"
#include "daemon/request/turn.h"
#include "daemon/request/types.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#define MAX_TOKENS_DEFAULT 2048
#define STOP_LEN_MAX       1024 /* bytes; held text is compared with every stop string */
#define CONTEXT_KEEP       128  /* tokens that stay when a context is full; a quarter of it, if that is less */
#define CONTEXT_LEAST      64   /* tokens of a context that can shift or rotate */

/* --- checks --- */

static int check_stops(const struct proto_generate *g)
{
    for (size_t i = 0; i < g->n_stop; i++) {
        const struct proto_text *t = &g->stop[i];
        if (t->len == 0) return error_say(-EINVAL, "a stop string must not be empty");
        if (t->len > STOP_LEN_MAX)
            return error_say(-EINVAL, "a stop string may have %d bytes, this one has %zu", STOP_LEN_MAX, t->len);
        if (utf8_check(t->data, t->len) < t->len) return error_say(-EINVAL, "a stop string is not UTF-8");
    }
    return 0;
}

/* A prompt that cannot fit, whatever its tokens are, is not worth the memory to prepare it. */
static int check_length(const struct request *r)
{
    const struct proto_generate *g = &r->proto.gen;
    const struct loaded *m = &r->core->model;
    bool session = g->session.len || g->continue_last; /* it may have a context policy, which is not known yet */
    uint64_t bytes = g->prompt.len;
    if (r->proto.type == PROTO_INFILL) return 0; /* it is cut to fit */
    for (size_t i = 0; i < g->n_messages; i++) bytes += g->messages[i].content.len;
    uint64_t limit = prepare_limit(m->ctx, session ? PROTO_CONTEXT_SHIFT : prepare_context(g, NULL));
    if (bytes <= limit * m->piece_max) return 0;
    return error_say(-E2BIG, "the prompt is %" PRIu64 " bytes; %" PRIu64 " tokens hold at most %" PRIu64, bytes, limit,
                     limit * m->piece_max);
}

/* Negative: draw one. */
static int set_seed(struct seq *s, int64_t seed)
{
    uint64_t drawn;
    if (seed < 0 && getrandom(&drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn)) return error_origin(-errno);
    s->sampling.seed = seed < 0 ? drawn >> 1 : (uint64_t)seed;
    return 0;
}

/* Check what the request asks of its answer, and set the parameters of @s. */
static int configure(struct request *r, struct seq *s)
{
    struct proto_generate *g = &r->proto.gen;
    struct sample_params *p = &s->sampling.params;
    bool infill = r->proto.type == PROTO_INFILL;
    *p = r->core->model.sampling;
    if (infill) p->temperature = 0;
    int result = sample_params_request(p, &g->sampling);
    if (result == 0) result = check_stops(g);
    if (result == 0 && infill) result = fim_add_stop(g);
    if (result < 0) return result;
    if (g->max_tokens == 0 || g->max_tokens < -1) return error_say(-EINVAL, "max_tokens must be at least 1");
    if (g->n > PROTO_ANSWERS_MAX) return error_say(-EINVAL, "n is more than %d", PROTO_ANSWERS_MAX);
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

static int begin(struct request *r)
{
    const struct proto_generate *g = &r->proto.gen;
    if (g->detach && g->session.len == 0 && !g->continue_last)
        return error_say(-EINVAL, "detach needs session or continue, which store the answer");
    if (check_length(r) < 0) return 0; /* the job refuses it */
    int result = configure(r, request_first(r));
    if (result == 0) result = acquire_session(r);
    if (result == 0) turn_find_fork(r);
    return result == -EBUSY && g->wait ? 1 : result; /* 1: until the session is free, or this request too late */
}

/* Without a session, a request needs nothing but the model. Errors are found again, and told, by the engine's thread.
 */
static bool early(struct request *r)
{
    const struct proto_generate *g = &r->proto.gen;
    if (g->session.len || g->continue_last || g->detach || g->fork.len) return false;
    return check_length(r) < 0 || configure(r, request_first(r)) == 0;
}

/* --- the job --- */

/* A job frees the memory of a large text, because that takes milliseconds. */
static int refuse(struct request *r, int result)
{
    struct proto_generate *g = &r->proto.gen;
    proto_text_fini(&g->prompt);
    for (size_t i = 0; i < g->n_messages; i++) proto_text_fini(&g->messages[i].content);
    return result;
}

static int work(struct request *r)
{
    const struct loaded *m = &r->core->model;
    const struct proto_generate *g = &r->proto.gen;
    struct request_session *t = &r->turn;
    struct seq *s = request_first(r);
    int result = check_length(r);
    if (result < 0) return refuse(r, result);
    if (t->session) result = turn_load(r->core, t->session);
    if (result == 0 && t->target) (void)!turn_load(r->core, t->target); /* even unreadable it is in the way */
    if (result == 0) result = prepare_biases(&s->biases, &s->n_biases, m, g);
    if (result == 0 && r->proto.type == PROTO_INFILL)
        result = fim_prepare(&s->prompt, m, g);
    else if (result == 0)
        result = prepare_prompt(&s->prompt, m, g, t->session);
    if (result == 0 && t->session && r->proto.type == PROTO_GENERATE) result = turn_claim(r);
    proto_text_fini(&r->proto.gen.infill.prefix); /* large; the prompt has its own copy */
    proto_text_fini(&r->proto.gen.infill.suffix);
    return result;
}

/* --- the prompt is ready --- */

static int set_context(struct request *r, struct seq *s)
{
    const struct loaded *m = &r->core->model;
    const struct hparams *hparams = &m->backend->hparams;
    struct seq_context *c = &s->context;
    c->ctx = m->ctx;
    c->batch = r->core->config.batch_tokens;
    c->keep = (m->ctx / 4 < CONTEXT_KEEP ? m->ctx / 4 : CONTEXT_KEEP) / KV_BLOCK * KV_BLOCK;
    c->policy = prepare_context(&r->proto.gen, r->turn.session);
    if (c->policy != PROTO_CONTEXT_REFUSE && c->ctx < CONTEXT_LEAST)
        return error_say(-EINVAL, "a context of %u tokens is too small to shift or rotate", c->ctx);
    if (c->policy == PROTO_CONTEXT_ROTATE && hparams->window)
        return error_say(-EOPNOTSUPP,
                         "a '%s' model has layers with sliding windows and cannot rotate its context; use shift",
                         hparams->arch);
    return 0;
}

/* Fix the length of the answer, and what is done when the context is full. */
static int set_limits(struct request *r, struct seq *s)
{
    const struct proto_generate *g = &r->proto.gen;
    const struct kv_pool *pool = r->core->cache.pools[0];
    const struct loaded *m = &r->core->model;
    s->n_prompt = s->prompt.tokens.n;
    int result = sampling_start(&s->sampling, s->biases, s->n_biases, m->eog, g->ignore_eos ? m->n_eog : 0);
    if (result == 0) result = set_context(r, s);
    if (result < 0) return result;
    uint64_t limit = prepare_limit(s->context.ctx, s->context.policy);
    assert(s->n_prompt > 0 && s->n_prompt < limit); /* prepare_prompt has checked it */
    int64_t left = (int64_t)(limit - s->n_prompt), want = g->max_tokens > 0 ? g->max_tokens : MAX_TOKENS_DEFAULT;
    if (r->proto.type == PROTO_INFILL) want = fim_tokens(g);
    if (r->proto.type == PROTO_WARM) want = 1;
    s->max_is_context = want > left;
    s->max_tokens = (uint32_t)(want > left ? left : want);
    if (s->context.policy == PROTO_CONTEXT_SHIFT) result = seq_make_view(s);
    if (s->prompt.runs.n && seq_rotates(s)) /* its window would cut the runs */
        return error_say(-EOPNOTSUPP, "a context with images or sound cannot rotate; shift can");
    if (result == 0 && seq_blocks(s) > kv_pool_total(pool))
        result = error_say(-E2BIG, "the context takes %u KV blocks, but the pool has %u (see --kv-bytes)",
                           seq_blocks(s), kv_pool_total(pool));
    return result;
}

static void finish(struct request *r, int result)
{
    struct core *core = r->core;
    struct seq *s = request_first(r);
    if (turn_replay(r)) return; /* even if the session has no room for another turn */
    if (result < 0) {
        answer_fail(r, s, result, request_job_error(r));
        return;
    }
    if (r->proto.gen.fork.len) result = turn_fork(r);
    if (result == 0) result = set_limits(r, s);
    if (result == 0) result = plan_reserve(&core->plan, 1);
    if (result < 0) {
        answer_fail(r, s, result, error_text(result));
        return;
    }
    const struct proto_text *salt = &r->proto.gen.salt;
    const struct namespace_owner owner = {
        .public = r->control.internal, .uid = r->uid, .salt = salt->data, .salt_len = salt->len};
    kv_cache_namespace(&core->cache, &owner, &s->reuse.namespace);
    r->state = REQUEST_ACTIVE;
    s->sched.arrival = r->arrival;
    plan_wait(core, s);
    seq_list_push(&core->seqs, s);
    plan_join(core, s);
}

const struct request_type request_generate = {
    .proto = PROTO_GENERATE, .answers = true, .begin = begin, .work = work, .finish = finish, .early = early};
const struct request_type request_warm = {
    .proto = PROTO_WARM, .answers = true, .begin = begin, .work = work, .finish = finish, .early = early};
const struct request_type request_infill = {
    .proto = PROTO_INFILL, .answers = true, .begin = begin, .work = work, .finish = finish, .early = early};
