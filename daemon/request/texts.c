/* SPDX-License-Identifier: MIT */
#include "daemon/request/texts.h"
#include "daemon/request/finish.h"
#include "daemon/request/request-job.h"
#include "daemon/request/text-tokens.h"
#include "daemon/request/text-vectors.h"
#include "daemon/request/types.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    PREPARE_TEXTS = 256,       /* that a job tokenizes, at most */
    PREPARE_BYTES = 256 << 10, /* of them, if they are several */
    LOOK_TEXTS = 1024,         /* that are looked up at once */
};

/* --- begin and end --- */

static const struct hparams *hparams_of(const struct request *r)
{
    return &r->core->model.backend->hparams;
}

/* The model's own pooling, or the one that the request asks for. 0; -EOPNOTSUPP and the error message. */
static int set_pooling(struct request *r, struct texts *t)
{
    static const enum pooling asked[] = {[PROTO_POOLING_UNSET] = POOLING_NONE,
                                         [PROTO_POOLING_MEAN] = POOLING_MEAN,
                                         [PROTO_POOLING_CLS] = POOLING_CLS,
                                         [PROTO_POOLING_LAST] = POOLING_LAST};
    const struct hparams *h = hparams_of(r);
    const bool ranks = h->embedding.pooling == POOLING_RANK, question = r->proto.type == PROTO_RANK;
    if (h->embedding.pooling == POOLING_NONE)
        return error_say(-EOPNOTSUPP,
                         "the model '%s' has no embeddings: its file names no pooling (the key %s.pooling_type)",
                         r->core->config.model_name, h->arch);
    if (ranks && !question)
        return error_say(-EOPNOTSUPP, "the model '%s' has no embeddings: it scores texts for a question (hob rank)",
                         r->core->config.model_name);
    t->pooling = asked[r->proto.embed.pooling] ? asked[r->proto.embed.pooling] : h->embedding.pooling;
    t->pooled = hparams_pooled(h, t->pooling);
    t->method = !question ? TEXTS_VECTORS : ranks ? TEXTS_RANK : TEXTS_COSINE;
    return 0;
}

static int new_slots(struct request *r, struct texts *t)
{
    t->n_slots = r->core->config.parallel < t->n ? r->core->config.parallel : t->n;
    t->slots = calloc(t->n_slots, sizeof(*t->slots));
    if (!t->slots) return -ENOMEM;
    for (uint32_t i = 0; i < t->n_slots; i++) {
        struct text_slot *x = &t->slots[i];
        x->group = (struct seq_group){.seqs = &x->seq, .n = 1};
        if (t->pooled == POOLING_MEAN)
            x->sums = calloc(t->width, sizeof(*x->sums));
        else
            x->row = calloc(t->width, sizeof(*x->row));
        if (!x->sums && !x->row) return -ENOMEM;
    }
    return 0;
}

int texts_new(struct request *r)
{
    const struct proto_embed *e = &r->proto.embed;
    struct texts *t = calloc(1, sizeof(*t));
    if (!t) return -ENOMEM;
    r->texts = t;
    int result = set_pooling(r, t);
    if (result < 0) return result;
    t->width = hparams_of(r)->dim;
    t->dim = hparams_outputs(hparams_of(r), t->pooling);
    t->dims = e->dims ? e->dims : t->dim;
    if (t->dims > t->dim)
        return error_say(-EINVAL, "dims: %u is more than the model's vectors have: %u", t->dims, t->dim);
    t->n = (uint32_t)e->n_texts + (t->method == TEXTS_COSINE);
    t->items = calloc(t->n, sizeof(*t->items));
    if (!t->items || new_slots(r, t) < 0) return -ENOMEM;
    const struct namespace_owner owner = {
        .uid = r->uid, .salt = r->proto.gen.salt.data, .salt_len = r->proto.gen.salt.len};
    kv_cache_namespace(&r->core->cache, &owner, &t->namespace);
    return 0;
}

void texts_free(struct request *r)
{
    struct texts *t = r->texts;
    if (!t) return;
    for (uint32_t i = 0; t->items && i < t->n; i++) {
        tokens_fini(&t->items[i].tokens);
        free(t->items[i].vector);
    }
    for (uint32_t i = 0; t->slots && i < t->n_slots; i++) {
        assert(!t->slots[i].seq);
        free(t->slots[i].sums);
        free(t->slots[i].row);
        free(t->slots[i].types);
    }
    free(t->why);
    free(t->items);
    free(t->slots);
    free(t);
    r->texts = NULL;
}

void texts_usage(const struct request *r, struct proto_event *ev)
{
    ev->usage_prompt = r->texts->tokens;
    ev->usage_cached = r->texts->cached;
}

static void end_slot(struct request *r, struct text_slot *x)
{
    r->texts->running--;
    request_end_part(r, x->seq); /* which clears x->seq */
    assert(!x->seq);
}

void texts_stop(struct request *r)
{
    struct texts *t = r->texts;
    struct user_counts *sum = &r->user->counts;
    for (uint32_t i = 0; i < t->n_slots && t->slots; i++)
        if (t->slots[i].seq) end_slot(r, &t->slots[i]);
    sum->requests += t->begun || t->cached;
    sum->tokens_prompt += t->tokens;
    sum->tokens_cached += t->cached;
}

/* --- sequences --- */

static struct text_slot *slot_of(const struct seq *s)
{
    return (struct text_slot *)s->group;
}

bool texts_queues(const struct seq *s)
{
    const struct texts *t = s->request->texts;
    for (uint32_t i = 0; !t->begun && i < t->n_slots; i++)
        if (t->slots[i].seq) return t->slots[i].seq == s;
    return false;
}

bool texts_whole(const struct seq *s)
{
    return s->request->texts && hparams_of(s->request)->embedding.whole;
}

void texts_update(struct request *r)
{
    struct texts *t = r->texts;
    t->resume = true;
    for (uint32_t i = 0; t->slots && i < t->n_slots; i++)
        if (t->slots[i].seq) plan_update(r->core, t->slots[i].seq);
}

/* Keep the types of the tokens, which text_tokens has put where the ends of other tokens are. 0 or -ENOMEM. */
static int set_types(const struct request *r, struct text_slot *x, const struct tokens *tokens)
{
    free(steal(x->types));
    if (hparams_of(r)->embedding.types < 2 || r->texts->method != TEXTS_RANK) return 0;
    x->types = malloc(tokens->n);
    for (size_t i = 0; x->types && i < tokens->n; i++) x->types[i] = (uint8_t)tokens->ends[i];
    return x->types ? 0 : -ENOMEM;
}

/* Item @at gets the free slot @x. 0 or -ENOMEM. */
static int begin_text(struct request *r, struct text_slot *x, uint32_t at)
{
    struct core *core = r->core;
    struct text_item *item = &r->texts->items[at];
    struct seq *s;
    if (set_types(r, x, &item->tokens) < 0 || plan_reserve(&core->plan, 1) < 0 || seq_new(&s, r, &x->group, 0) < 0)
        return -ENOMEM;
    x->item = at;
    if (x->sums) memset(x->sums, 0, r->texts->width * sizeof(*x->sums));
    s->uid = r->uid;
    s->state = SEQ_WAITING;
    s->prompt.tokens = item->tokens;
    item->tokens = (struct tokens){0};
    s->n_prompt = s->prompt.tokens.n;
    s->max_tokens = 1; /* none is generated: all positions are those of the text */
    s->context = (struct seq_context){
        .policy = PROTO_CONTEXT_REFUSE, .ctx = core->model.ctx, .batch = core->config.batch_tokens};
    s->reuse.alone = true;
    s->sched.arrival = ++core->arrivals;
    r->texts->running++;
    plan_wait(core, s);
    seq_list_push(&core->seqs, s);
    return 0;
}

static struct text_slot *free_slot(struct texts *t)
{
    for (uint32_t i = 0; i < t->n_slots; i++)
        if (!t->slots[i].seq) return &t->slots[i];
    return NULL;
}

/* 0 or -ENOMEM. */
static int begin_texts(struct request *r)
{
    struct texts *t = r->texts;
    struct text_slot *x;
    int result = 0;
    for (; result == 0 && t->next < t->prepared; t->next++) {
        struct text_item *item = &t->items[t->next];
        if (item->vector) continue;
        if (!(x = free_slot(t))) break;
        if (text_find(r, t->next)) { /* another one like it has been computed since */
            tokens_fini(&item->tokens);
            continue;
        }
        result = begin_text(r, x, t->next);
    }
    return result;
}

const uint8_t *texts_types(const struct seq *s)
{
    const uint8_t *types = slot_of(s)->types;
    return types ? types + s->kv.n_tokens : NULL;
}

uint32_t texts_want(const struct seq *s, uint32_t n, uint8_t *want)
{
    const struct texts *t = s->request->texts;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!pooling_reads(t->pooled, false, s->kv.n_tokens + i, seq_known(s))) continue;
        if (want) want[i] = WANT_HIDDEN;
        rows++;
    }
    return rows;
}

void texts_rows(struct seq *s, uint32_t n, const float *rows)
{
    struct text_slot *x = slot_of(s);
    const struct texts *t = s->request->texts;
    const uint32_t given = texts_want(s, n, NULL);
    if (x->sums && s->kv.n_tokens == 0) memset(x->sums, 0, t->width * sizeof(*x->sums)); /* after a preemption again */
    if (x->sums)
        pooling_add(x->sums, rows, given, t->width);
    else if (given)
        memcpy(x->row, rows, t->width * sizeof(*rows));
}

void texts_computed(struct seq *s)
{
    struct request *r = s->request;
    struct text_slot *x = slot_of(s);
    r->texts->begun = true;
    int result = text_keep(r, x, (uint32_t)s->n_prompt);
    end_slot(r, x);
    if (result < 0)
        answer_fail(r, NULL, result, error_text(result));
    else
        texts_continue(r);
}

/* --- the request --- */

bool texts_look_up(struct request *r)
{
    struct texts *t = r->texts;
    const uint32_t end = t->n - t->prepared < LOOK_TEXTS ? t->n : t->prepared + LOOK_TEXTS;
    size_t bytes = 0, missing = 0;
    for (t->preparing = t->prepared; t->preparing < end && missing < PREPARE_TEXTS; t->preparing++) {
        if (text_find(r, t->preparing)) continue;
        bytes += text_of(r, t->preparing)->len;
        if (missing && bytes > PREPARE_BYTES) break;
        missing++;
    }
    return missing;
}

int texts_prepare(struct request *r)
{
    const struct texts *t = r->texts;
    int result = 0;
    for (uint32_t i = t->prepared; result == 0 && i < t->preparing; i++) {
        struct text_item *item = &t->items[i];
        if (item->vector) continue;
        result = text_tokens(&item->tokens, &r->core->model, text_question(r), text_of(r, i));
        if (result == -ENOMEM) return result;
        const bool question = t->method == TEXTS_COSINE && i == 0;
        if (result < 0 && question) return error_in(result, "question");
        if (result < 0) return error_in(result, "texts[%u]", i - (t->method == TEXTS_COSINE));
    }
    return result;
}

static void prepared(struct request *r, int result)
{
    if (result < 0) {
        answer_fail(r, NULL, result, request_job_error(r));
        return;
    }
    r->texts->prepared = r->texts->preparing;
    texts_continue(r);
}

void texts_continue(struct request *r)
{
    struct texts *t = r->texts;
    for (;;) {
        int result = begin_texts(r);
        if (result == 0) result = text_emit(r);
        if (result < 0) {
            answer_fail(r, NULL, result, error_text(result));
            return;
        }
        if (t->emitted == t->n) {
            answer_done(r, NULL, PROTO_STOP_EOS);
            return;
        }
        if (r->in_job || r->control.paused || t->prepared == t->n || t->prepared - t->next > t->n_slots) return;
        if (texts_look_up(r)) {
            request_send(r, REQUEST_ACTIVE, texts_prepare, prepared);
            return;
        }
        t->prepared = t->preparing;
    }
}

bool texts_resume(struct request *r)
{
    struct texts *t = r->texts;
    if (!t->resume || r->state != REQUEST_ACTIVE || r->control.cancel) return false;
    t->resume = false;
    if (t->failed < 0)
        answer_fail(r, NULL, t->failed, t->why ? t->why : error_text(-ENOMEM));
    else
        texts_continue(r);
    return true;
}

void texts_fail(struct seq *s, int error)
{
    struct texts *t = s->request->texts;
    const char *why = error_text(error);
    if (t->failed == 0) t->why = strdup(why);
    t->failed = error;
    t->resume = true;
    answer_preempt(s);
    core_again(s->request->core);
}

void texts_configure(struct core *core)
{
    const struct backend *b = core->model.backend;
    const struct hparams_embedding *e = &b->hparams.embedding;
    core->vectors.bytes_max = core->config.vector_bytes;
    core->vectors.dim = hparams_outputs(&b->hparams, e->pooling);
    if (!e->whole) return;
    if (core->config.parallel < TEXTS_SLOTS) core->config.parallel = TEXTS_SLOTS;
}

/* --- the types --- */

static int begin(struct request *r)
{
    if (!r->texts) {
        int result = texts_new(r);
        if (result < 0) return result == -ENOMEM ? error_origin(result) : result;
    }
    texts_look_up(r);
    return 0;
}

static void finish(struct request *r, int result)
{
    r->state = REQUEST_ACTIVE;
    prepared(r, result);
}

const struct request_type request_embed = {.proto = PROTO_EMBED,
                                           .answers = true,
                                           .texts = true,
                                           .large = true,
                                           .begin = begin,
                                           .work = texts_prepare,
                                           .finish = finish};
const struct request_type request_rank = {.proto = PROTO_RANK,
                                          .answers = true,
                                          .texts = true,
                                          .large = true,
                                          .begin = begin,
                                          .work = texts_prepare,
                                          .finish = finish};
