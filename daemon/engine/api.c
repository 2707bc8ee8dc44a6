/* SPDX-License-Identifier: MIT */
/* The functions of the engine that other threads may call while it runs. */
#include "daemon/engine/engine.h"
#include "daemon/engine/state.h"
#include "daemon/engine/status-requests.h"
#include "daemon/request/named-users.h"
#include "daemon/request/request-job.h"
#include "daemon/request/types.h"
#include "libcommon/error.h"

int engine_fd(const struct engine *e)
{
    return event_queue_fd(e->core.mail.events);
}

enum engine_state engine_state(struct engine *e, const char **why)
{
    struct mailbox *m = &e->core.mail;
    pthread_mutex_lock(&m->lock);
    enum engine_state state = m->state;
    if (why) *why = state != ENGINE_FAILED ? NULL : m->error ? m->error : "out of memory";
    pthread_mutex_unlock(&m->lock);
    return state;
}

/* May it be accepted? The caller holds the lock. */
static int may_submit(const struct engine *e, uid_t uid, const struct request_type *type)
{
    const struct mailbox *m = &e->core.mail;
    const struct engine_config *c = &e->core.config;
    uint64_t room = 2ull * c->queue + c->parallel; /* of the inbox; the engine decides who is refused */
    if (!type) return error_say(-EINVAL, "not a request for the engine");
    if (m->draining) return error_say(-ESHUTDOWN, "the daemon is stopping");
    if (!type->answers) return 0; /* these do not queue; connections limit them */
    if (users_is_full(&m->users, uid, room))
        return error_say(-EBUSY, "the queue is full: %u requests wait or run; try again later", m->load);
    return 0;
}

int engine_submit(struct engine *e, uint64_t conn, uid_t uid, struct proto_request *req)
{
    struct mailbox *m = &e->core.mail;
    const struct request_type *type = request_type_of(req->type);
    struct request *r = NULL;
    if (req->type == PROTO_STATUS) return status_submit(e, conn, uid, req);
    pthread_mutex_lock(&m->lock);
    int result = may_submit(e, uid, type);
    struct user *user = result == 0 ? user_hold(&m->users, uid) : NULL;
    if (result == 0) result = user ? request_new(&r, &e->core, type, conn, uid, req) : -ENOMEM;
    if (result < 0) {
        user_drop(user);
    } else {
        r->user = user;
        user_begin(&m->users, user);
        m->load++;
        m->detached += r->proto.gen.detach;
        request_list_push(&m->inbox, r);
        /* With the lock held, so that the engine's thread does not see the request before its job. */
        if (m->state == ENGINE_READY && type->early && type->early(r)) request_prepare(r);
        pthread_cond_signal(&m->wake);
    }
    pthread_mutex_unlock(&m->lock);
    return result;
}

bool engine_serves(uid_t uid)
{
    return uid < NAMED_USERS_FIRST;
}

int engine_named_user(struct engine *e, uid_t gateway, const struct proto_text *name, uid_t *out)
{
    return named_users_number(e->core.mail.named_users, gateway, name, out);
}

/* @detached: also a request that was to continue without its peer. */
static void cancel(struct engine *e, uint64_t conn, uint64_t id, bool detached)
{
    struct mailbox *m = &e->core.mail;
    pthread_mutex_lock(&m->lock);
    struct request *lists[] = {m->inbox.head, e->core.requests.head};
    for (int i = 0; i < 2; i++)
        for (struct request *r = lists[i]; r; r = r->next) {
            if (r->conn != conn || r->proto.id != id || (r->proto.gen.detach && !detached)) continue;
            r->control.cancel_wanted = m->control = true;
            mailbox_kick_locked(m);
        }
    pthread_mutex_unlock(&m->lock);
}

void engine_cancel(struct engine *e, uint64_t conn, uint64_t id)
{
    cancel(e, conn, id, true);
}

void engine_abandon(struct engine *e, uint64_t conn, uint64_t id)
{
    cancel(e, conn, id, false);
}

uint32_t engine_detached(struct engine *e)
{
    pthread_mutex_lock(&e->core.mail.lock);
    uint32_t n = e->core.mail.detached;
    pthread_mutex_unlock(&e->core.mail.lock);
    return n;
}

void engine_pause(struct engine *e, uint64_t conn, bool pause)
{
    struct mailbox *m = &e->core.mail;
    pthread_mutex_lock(&m->lock);
    mailbox_pause(m, conn, pause);
    mailbox_kick_locked(m);
    pthread_mutex_unlock(&m->lock);
}

bool engine_poll(struct engine *e, struct engine_event *out)
{
    pthread_mutex_lock(&e->core.mail.lock);
    bool got = event_queue_pop(e->core.mail.events, out);
    pthread_mutex_unlock(&e->core.mail.lock);
    return got;
}

void engine_drain(struct engine *e)
{
    pthread_mutex_lock(&e->core.mail.lock);
    e->core.mail.draining = true;
    pthread_mutex_unlock(&e->core.mail.lock);
}

uint32_t engine_load(struct engine *e)
{
    pthread_mutex_lock(&e->core.mail.lock);
    uint32_t n = e->core.mail.load;
    pthread_mutex_unlock(&e->core.mail.lock);
    return n;
}

uint64_t engine_progress(struct engine *e)
{
    return atomic_load(&e->core.progress);
}
