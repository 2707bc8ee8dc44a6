/* SPDX-License-Identifier: MIT */
/* Sessions, as requests see them: turns that are kept, and what is asked of sessions themselves. */
#include "daemon/engine/state.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <jansson.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define PAGE_SESSIONS 256 /* of a list, when the request does not say */
#define ANSWER_BYTES 65536 /* that are claimed on disk for what a turn writes besides its prompt */
#define FORK_BYTES   8192  /* and for a session that begins as another */

#define RESIDENT_BYTES   (64ull << 20) /* of sessions in memory, of all users */
#define UNLOADS_PER_TURN 4
#define LOCK_USEC  20000 /* between looks whether another daemon has left */
#define LOCK_TRIES 500
/* Between looks for sessions that are too old: as long as they may live, within these. */
#define EXPIRE_LEAST 1000000ull
#define EXPIRE_MOST  600000000ull

static bool quits(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool quit = e->quit;
    pthread_mutex_unlock(&e->lock);
    return quit;
}

static struct session_store_config limits(const struct engine *e)
{
    return (struct session_store_config){
        .dir = e->config.state_dir,
        .sessions_max_per_uid = e->config.session_count,
        .disk_max_per_uid = e->config.session_bytes,
        .disk_reserve = e->config.disk_reserve,
    };
}

void turns_limit(struct engine *e)
{
    const struct session_store_config c = limits(e);
    if (e->sessions) session_store_limit(e->sessions, &c);
}

int turns_open(struct engine *e)
{
    const struct session_store_config c = limits(e);
    if (getrandom(e->model_here, sizeof(e->model_here), 0) != (ssize_t)sizeof(e->model_here))
        return error_origin(-errno);
    int r = 0;
    if (c.dir) {
        /* The daemon before this one may still be writing. */
        for (int i = 0; (r = session_store_open(&e->sessions, ENGINE_SESSION_BYTES, &c)) == -EBUSY; i++) {
            if (i == LOCK_TRIES || quits(e)) break;
            if (i == 10) log_info("waiting for another daemon: %s", error_text(r));
            usleep(LOCK_USEC);
        }
        if (r == 0 || r == -EBUSY || r == -ENOMEM) return r;
        log_warning("sessions last as long as this process: %s", error_text(r));
    }
    r = session_store_new(&e->sessions, ENGINE_SESSION_BYTES);
    turns_limit(e);
    return r;
}

/* --- whose ids they are --- */

/* The model's fingerprint; until it is known, a name for it that holds in this process. */
static void model_id(const struct engine *e, uint8_t out[16])
{
    struct fingerprint f;
    const struct backend *b = e->model.backend;
    memcpy(out, b->ops->fingerprint(b, &f) == 0 ? f.bytes : e->model_here, 16);
}

static bool is_ours(const struct engine *e, const uint8_t id[16])
{
    uint8_t now[16];
    model_id(e, now);
    return memcmp(id, now, 16) == 0 || memcmp(id, e->model_here, 16) == 0;
}

/* What the turn adds to its session, as text and ids, but for the answer. */
static uint64_t turn_bytes(const struct seq *s)
{
    const struct proto_generate *g = &s->req.gen;
    const struct prompt *p = &s->prompt;
    uint64_t ids = p->tokens.n - p->keep, bytes = p->text.len - (p->keep ? p->tokens.ends[p->keep - 1] : 0);
    for (size_t i = 0; i < g->n_messages; i++) bytes += g->messages[i].role.len + g->messages[i].content.len;
    return bytes + 8 * ids;
}

int turns_claim(struct seq *s)
{
    return session_claim(s->session, turn_bytes(s) + ANSWER_BYTES);
}

int turns_load(struct engine *e, struct session *x)
{
    int r = session_load(x);
    if (r == 0 && x->n_ids && !is_ours(e, x->model)) session_forget_tokens(x);
    return r;
}

/* --- the end of a turn --- */

static int add_outcome(struct seq *s)
{
    const struct proto_event *ev = &s->end;
    struct session_outcome o = {
        .reason = ev->reason,
        .usage_prompt = ev->usage_prompt,
        .usage_cached = ev->usage_cached,
        .usage_completion = ev->usage_completion,
        .shifted = ev->shifted,
        .miss_at = ev->miss_at,
        .seed = ev->seed,
        .answer = {.data = s->answer.data, .len = s->answer.len},
    };
    if (ev->type != PROTO_EV_DONE) return 0;
    memcpy(o.uuid, s->req.gen.uuid, sizeof(o.uuid));
    return session_add_outcome(s->session, &o);
}

static void run_save(struct job *j)
{
    struct seq *s = seq_of(errand_of(j));
    struct session *x = s->session;
    model_id(s->errand.engine, x->model);
    seq_say(s, session_save(x));
}

/* `done` would say that it is on disk. */
static void not_saved(struct seq *s, const char *why)
{
    if (s->end.type != PROTO_EV_DONE) return;
    proto_event_fini(&s->end);
    s->end = (struct proto_event){.type = PROTO_EV_ERROR, .code = -s->aux_r};
    (void)!proto_text_set(&s->end.message, why, strlen(why)); /* without memory the code says it */
}

static void saved(struct engine *e, struct errand *x)
{
    struct seq *s = seq_of(x);
    s->in_aux = false;
    if (s->aux_r < 0) {
        const char *why = s->aux_why ? s->aux_why : error_text(s->aux_r);
        log_warning("%s", why);
        not_saved(s, why);
    }
    requests_end(e, s);
}

static void save(struct engine *e, struct seq *s)
{
    s->state = SEQ_SAVING;
    seq_send(e, s, run_save, saved);
}

/* Nobody waits for the request, which was accepted: why it fails is found in its session. */
static bool fails_alone(const struct seq *s)
{
    return s->req.gen.detach && s->session && s->session->loaded && (s->admitted || s->position);
}

static void note_failure(struct seq *s, const struct proto_text *why)
{
    struct session *x = s->session;
    log_warning("a detached turn of session '%s' failed: %s", x->name.data, why->len ? why->data : "out of memory");
    if (session_set_failed(x, why->len ? why->data : "out of memory", why->len ? why->len : 13) < 0)
        log_warning("no memory to note that in the session");
}

bool turns_note(struct engine *e, struct seq *s)
{
    if (s->end.type != PROTO_EV_ERROR || !fails_alone(s)) return false;
    note_failure(s, &s->end.message);
    reuse_end(e, s);
    engine_free_slot(e, s);
    s->forked = false;
    save(e, s);
    return true;
}

void turns_cut(struct engine *e, struct seq *s)
{
    static const char why[] = "the daemon was stopped before this answer's end";
    if (s->state == SEQ_ENDED || s->state == SEQ_SAVING || s->in_aux || !fails_alone(s)) return;
    s->forked = false;
    if (s->generated && s->answer.len && seq_commit(s) < 0) log_warning("no memory to keep what was said");
    model_id(e, s->session->model);
    note_failure(s, &(struct proto_text){(char *)why, sizeof(why) - 1});
}

/* @id is where the session's KV ends now; zero: nowhere. */
static void set_tail(struct engine *e, struct session *x, struct prefix_id id)
{
    prefix_mark_tail(e->prefix, id, true);
    prefix_mark_tail(e->prefix, x->tail, false);
    x->tail = id;
}

bool turns_keep(struct engine *e, struct seq *s)
{
    struct session *x = s->session;
    if (seq_commit(s) < 0 || add_outcome(s) < 0) {
        log_warning("no memory to keep a turn of session '%s'", x->name.data);
        s->aux_r = -ENOMEM;
        not_saved(s, "no memory to keep the turn");
        return false;
    }
    if (s->end.type == PROTO_EV_ERROR && fails_alone(s)) note_failure(s, &s->end.message);
    set_tail(e, x, s->kv.n_blocks ? reuse_end(e, s) : s->tail);
    engine_free_slot(e, s);
    s->forked = false;
    save(e, s);
    return true;
}

void turns_find_fork(struct engine *e, struct seq *s)
{
    const struct proto_generate *g = &s->req.gen;
    if (s->req.type != PROTO_GENERATE || !g->fork.len || !g->uuid[0]) return;
    (void)!session_acquire(e->sessions, s->uid, g->fork.data, g->fork.len, false, &s->other);
}

/* The turn of this UUID; it may have gone to the new session of a fork, which is the request's then. */
static const struct session_outcome *made_before(struct engine *e, struct seq *s)
{
    const char *uuid = s->req.gen.uuid;
    if (!s->session || !uuid[0] || s->req.type != PROTO_GENERATE) return NULL;
    const struct session_outcome *o = s->other ? session_find_outcome(s->other, uuid) : NULL;
    struct session *unused = s->other;
    if (o) {
        unused = s->session;
        s->session = s->other;
    }
    s->other = NULL;
    if (unused) session_release(e->sessions, unused);
    return o ? o : session_find_outcome(s->session, uuid);
}

bool turns_replay(struct engine *e, struct seq *s)
{
    const struct session_outcome *o = made_before(e, s);
    if (!o) return false;
    struct proto_event text = {.type = PROTO_EV_TEXT, .channel = "answer"};
    if (o->answer.len && proto_text_set(&text.text, o->answer.data, o->answer.len) == 0) engine_emit(e, s, &text);
    s->end = (struct proto_event){
        .type = PROTO_EV_DONE,
        .reason = o->reason,
        .usage_prompt = o->usage_prompt,
        .usage_cached = o->usage_cached,
        .usage_completion = o->usage_completion,
        .shifted = o->shifted,
        .miss_at = o->miss_at,
        .seed = o->seed,
    };
    (void)!proto_text_set(&s->end.session, s->session->name.data, s->session->name.len);
    if (s->session->log.saved)
        requests_end(e, s);
    else
        save(e, s); /* the first time it was an error that it could not be */
    return true;
}

/* The new session is filled and saved with the turn itself. */
int turns_fork(struct engine *e, struct seq *s)
{
    const struct proto_text *name = &s->req.gen.fork;
    struct session *from = s->session;
    int r = session_fork(e->sessions, from, name->data, name->len, &s->session);
    if (r < 0) {
        s->session = from;
        return r;
    }
    session_take_claim(s->session, from);
    r = session_copy(s->session, from);
    s->forked = true;
    session_release(e->sessions, from);
    return r;
}

/* --- requests about sessions --- */

bool turns_is_request(enum proto_type t)
{
    return t >= PROTO_SESSION_LIST && t <= PROTO_SESSION_REMOVE;
}

/* Takes @json. 0 or -ENOMEM. */
static int set_answer(struct seq *s, json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (!text) return error_say(-ENOMEM, "no memory for the answer");
    s->end = (struct proto_event){.type = PROTO_EV_SESSIONS, .sessions = {.data = text, .len = strlen(text)}};
    return 0;
}

/* What is not UTF-8 (a raw text may be anything) becomes '?' byte by byte. */
static json_t *json_text(const char *data, size_t len)
{
    json_t *j = json_stringn(data ? data : "", len);
    if (j) return j;
    char *copy = malloc(len + 1);
    if (!copy) return NULL;
    for (size_t i = 0; i < len; i++) copy[i] = (signed char)data[i] < 0 ? '?' : data[i];
    j = json_stringn(copy, len);
    free(copy);
    return j;
}

static void set(json_t *o, const char *key, uint64_t v)
{
    json_object_set_new(o, key, json_integer((json_int_t)v));
}

static json_t *describe_page(const struct session_page *p)
{
    json_t *out = json_array();
    for (size_t i = 0; i < p->n; i++) {
        const struct session_info *x = &p->all[i];
        json_t *o = json_object();
        json_object_set_new(o, "name", json_text(x->name->data, x->name->len));
        set(o, "used", x->used / 1000000);
        set(o, "messages", x->messages);
        set(o, "tokens", x->ids);
        json_object_set_new(o, "raw", json_boolean(x->ids && !x->messages));
        set(o, "bytes", x->disk || x->shared ? x->disk : x->bytes);
        set(o, "shared", x->shared);
        json_object_set_new(o, "busy", json_boolean(x->busy));
        json_array_append_new(out, o);
    }
    return out;
}

static json_t *describe(const struct session *x)
{
    static const char *const policies[] = {
        [PROTO_CONTEXT_UNSET] = "refuse",
        [PROTO_CONTEXT_REFUSE] = "refuse",
        [PROTO_CONTEXT_SHIFT] = "shift",
        [PROTO_CONTEXT_ROTATE] = "rotate",
    };
    json_t *o = json_object(), *messages = json_array();
    json_object_set_new(o, "name", json_text(x->name.data, x->name.len));
    set(o, "used", x->used / 1000000);
    json_object_set_new(o, "raw", json_boolean(x->raw));
    json_object_set_new(o, "context", json_string(policies[x->context]));
    set(o, "tokens", x->n_ids);
    for (size_t i = 0; i < x->n_messages; i++) {
        json_t *m = json_object();
        json_object_set_new(m, "role", json_text(x->messages[i].role.data, x->messages[i].role.len));
        json_object_set_new(m, "content", json_text(x->messages[i].content.data, x->messages[i].content.len));
        json_array_append_new(messages, m);
    }
    if (x->failed.len) json_object_set_new(o, "failed", json_text(x->failed.data, x->failed.len));
    if (x->raw)
        json_object_set_new(o, "text", json_text(x->text.data, x->text.len));
    else
        json_object_set(o, "messages", messages);
    json_decref(messages);
    return o;
}

static void run_request(struct job *j)
{
    struct seq *s = seq_of(errand_of(j));
    int r = 0;
    switch (s->req.type) {
    case PROTO_SESSION_LIST:
        r = set_answer(s, describe_page(&s->page));
        if (r == 0) r = proto_text_set(&s->end.next, s->page.next, strlen(s->page.next));
        break;
    case PROTO_SESSION_REMOVE:
        r = session_erase(s->session);
        break;
    case PROTO_SESSION_RENAME:
        r = session_load(s->session);
        if (r == 0) r = session_move(s->other, s->session);
        break;
    case PROTO_SESSION_FORK:
        r = session_claim(s->other, FORK_BYTES);
        if (r == 0) r = session_duplicate(s->other, s->session);
        break;
    default: /* shown; it can be long */
        r = session_load(s->session);
        if (r == 0) r = set_answer(s, describe(s->session));
        break;
    }
    seq_say(s, r);
}

static void request_back(struct engine *e, struct errand *x)
{
    struct seq *s = seq_of(x);
    s->in_aux = false;
    if (s->state == SEQ_ENDED) {
        requests_returned(e, s);
    } else if (s->aux_r < 0) {
        requests_fail(e, s, s->aux_r, s->aux_why ? s->aux_why : error_text(s->aux_r));
    } else {
        if (s->req.type > PROTO_SESSION_SHOW) s->end = (struct proto_event){.type = PROTO_EV_OK};
        requests_end(e, s);
    }
}

void turns_start(struct engine *e, struct seq *s)
{
    const struct proto_request *q = &s->req;
    int r;
    if (q->type == PROTO_SESSION_LIST)
        r = session_page_take(e->sessions, s->uid, &q->after, q->limit ? q->limit : PAGE_SESSIONS, &s->page);
    else
        r = session_acquire(e->sessions, s->uid, q->name.data, q->name.len, false, &s->session);
    if (r == 0 && q->type == PROTO_SESSION_FORK)
        r = session_fork(e->sessions, s->session, q->to.data, q->to.len, &s->other);
    if (r == 0 && q->type == PROTO_SESSION_RENAME)
        r = session_rename(e->sessions, s->session, q->to.data, q->to.len, &s->other);
    if (r < 0) {
        requests_fail(e, s, r, error_text(r));
        return;
    }
    if (q->type == PROTO_SESSION_REMOVE) set_tail(e, s->session, (struct prefix_id){0});
    s->state = SEQ_PREPARING;
    seq_send(e, s, run_request, request_back);
}

/* --- what grows old --- */

struct erasure {
    struct errand errand;
    struct session *x;
};

static void run_erase(struct job *j)
{
    struct erasure *a = (struct erasure *)errand_of(j);
    int r = session_erase(a->x);
    if (r < 0) log_warning("a session that is too old stays: %s", error_text(r));
}

static void erased(struct engine *e, struct errand *x)
{
    struct erasure *a = (struct erasure *)x;
    session_release(e->sessions, a->x);
    free(a);
}

uint64_t turns_next(const struct engine *e)
{
    bool may = e->config.session_ttl_usec && e->state == ENGINE_READY && !e->stopping;
    return may ? e->expire_next : UINT64_MAX;
}

/* Sessions that nobody uses are read from disk again when somebody does. */
static void unload_some(struct engine *e)
{
    size_t sessions;
    uint64_t bytes;
    session_count(e->sessions, (uid_t)-1, &sessions, &bytes);
    for (int i = 0; i < UNLOADS_PER_TURN && bytes > RESIDENT_BYTES && session_unload_idle(e->sessions); i++)
        session_count(e->sessions, (uid_t)-1, &sessions, &bytes);
}

void turns_look(struct engine *e, uint64_t now)
{
    struct session *x;
    unload_some(e);
    uint64_t ttl = e->config.session_ttl_usec;
    if (now < turns_next(e)) return;
    e->expire_next = now + (ttl < EXPIRE_LEAST ? EXPIRE_LEAST : ttl > EXPIRE_MOST ? EXPIRE_MOST : ttl);
    while (session_acquire_expired(e->sessions, ttl, &x)) {
        struct erasure *a = calloc(1, sizeof(*a));
        if (!a) {
            session_release(e->sessions, x);
            return;
        }
        a->x = x;
        set_tail(e, x, (struct prefix_id){0});
        errand_send(e, &a->errand, x->uid, run_erase, erased);
    }
}

void turns_save_rest(struct engine *e)
{
    struct session *x;
    size_t sessions = 0;
    uint64_t bytes;
    if (e->sessions) session_count(e->sessions, (uid_t)-1, &sessions, &bytes);
    while (sessions-- > 0 && session_acquire_unsaved(e->sessions, &x)) {
        int r = session_save(x);
        if (r < 0) log_error("%s", error_text(r));
        session_release(e->sessions, x);
    }
}
