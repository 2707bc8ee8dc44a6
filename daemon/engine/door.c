/* SPDX-License-Identifier: MIT */
/* The engine's door: what other threads may ask of it while it runs. */
#include "daemon/engine/state.h"
#include "libcommon/error.h"

int engine_fd(const struct engine *e)
{
    return queue_fd(e->events);
}

enum engine_state engine_state(struct engine *e, const char **why)
{
    pthread_mutex_lock(&e->lock);
    enum engine_state state = e->state;
    if (why) *why = state != ENGINE_FAILED ? NULL : e->why ? e->why : "out of memory";
    pthread_mutex_unlock(&e->lock);
    return state;
}

static bool for_engine(enum proto_type t)
{
    return t != PROTO_HELLO && t != PROTO_CANCEL && t != PROTO_STOP;
}

/* May it come in? With the lock held. */
static int may_submit(const struct engine *e, uid_t uid, enum proto_type type)
{
    uint64_t room = 2ull * e->config.queue + e->config.parallel; /* of the inbox; the engine decides who is refused */
    if (!for_engine(type)) return error_say(-EINVAL, "not a request for the engine");
    if (e->draining) return error_say(-ESHUTDOWN, "the daemon is stopping");
    if (type == PROTO_TOKENIZE || turns_is_request(type)) return 0; /* they do not queue; connections limit them */
    if (share_is_full(e, uid, room)) return error_say(-EBUSY, "the queue is full: %u requests wait or run", e->load);
    return 0;
}

static int submit(struct engine *e, uint64_t conn, uid_t uid, struct proto_request *req)
{
    struct seq *s = NULL;
    int r = may_submit(e, uid, req->type);
    if (r == 0) r = share_take(e, uid);
    if (r < 0) return r;
    r = seq_new(&s, conn, uid, req, engine_now());
    if (r < 0) {
        share_give(e, uid);
        return r;
    }
    seq_list_push(&e->inbox, s);
    /* With the lock held, so that the engine's thread sees it with its job. */
    if (e->state == ENGINE_READY) requests_prepare_early(e, s);
    e->load++;
    e->detached += s->req.gen.detach;
    pthread_cond_signal(&e->wake);
    return 0;
}

int engine_submit(struct engine *e, uint64_t conn, uid_t uid, struct proto_request *req)
{
    if (req->type == PROTO_STATUS) return status_submit(e, conn, uid, req);
    pthread_mutex_lock(&e->lock);
    int r = submit(e, conn, uid, req);
    pthread_mutex_unlock(&e->lock);
    return r;
}

void engine_cancel(struct engine *e, uint64_t conn, uint64_t id)
{
    pthread_mutex_lock(&e->lock);
    struct seq *lists[] = {e->inbox.head, e->all.head};
    for (int i = 0; i < 2; i++)
        for (struct seq *s = lists[i]; s; s = s->next) {
            if (s->conn != conn || s->req.id != id) continue;
            s->cancel_wanted = true;
            e->kick = true;
        }
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
}

static bool is_detached(const struct seq_list *l, uint64_t conn, uint64_t id)
{
    for (const struct seq *s = l->head; s; s = s->next)
        if (s->conn == conn && s->req.id == id) return s->req.gen.detach;
    return false;
}

void engine_abandon(struct engine *e, uint64_t conn, uint64_t id)
{
    pthread_mutex_lock(&e->lock);
    bool stays = is_detached(&e->inbox, conn, id) || is_detached(&e->all, conn, id);
    pthread_mutex_unlock(&e->lock);
    if (!stays) engine_cancel(e, conn, id);
}

uint32_t engine_detached(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    uint32_t n = e->detached;
    pthread_mutex_unlock(&e->lock);
    return n;
}

void engine_pause(struct engine *e, uint64_t conn, bool pause)
{
    pthread_mutex_lock(&e->lock);
    struct paused **at = &e->paused;
    while (*at && (*at)->conn != conn) at = &(*at)->next;
    if (!pause && *at) {
        struct paused *p = *at;
        *at = p->next;
        free(p);
    } else if (pause && !*at) {
        *at = calloc(1, sizeof(**at)); /* without memory it goes on; the connection has its own limit */
        if (*at) (*at)->conn = conn;
    }
    e->kick = true;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
}

bool engine_poll(struct engine *e, struct engine_event *out)
{
    pthread_mutex_lock(&e->lock);
    bool got = queue_pop(e->events, out);
    pthread_mutex_unlock(&e->lock);
    return got;
}

void engine_drain(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->draining = true;
    pthread_mutex_unlock(&e->lock);
}

uint32_t engine_load(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    uint32_t n = e->load;
    pthread_mutex_unlock(&e->lock);
    return n;
}

uint64_t engine_progress(struct engine *e)
{
    return atomic_load(&e->progress);
}
