/* SPDX-License-Identifier: MIT */
#include "daemon/request/mailbox.h"
#include <stdlib.h>
#include <time.h>

int mailbox_init(struct mailbox *m)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->wake, &attr);
    pthread_condattr_destroy(&attr);
    m->returns.lock = &m->lock;
    m->returns.wake = &m->wake;
    return event_queue_new(&m->events);
}

void mailbox_fini(struct mailbox *m)
{
    while (m->paused) {
        struct paused_conn *p = m->paused;
        m->paused = p->next;
        free(p);
    }
    users_free(&m->users);
    event_queue_free(m->events);
    pthread_cond_destroy(&m->wake);
    pthread_mutex_destroy(&m->lock);
    free(m->error);
}

void mailbox_kick_locked(struct mailbox *m)
{
    m->kick = true;
    pthread_cond_signal(&m->wake);
}

void mailbox_fail_locked(struct mailbox *m, char *why)
{
    if (m->state == ENGINE_FAILED) {
        free(why);
        return;
    }
    m->state = ENGINE_FAILED;
    m->error = why;
    event_queue_signal(m->events);
}

void mailbox_kick(struct mailbox *m)
{
    pthread_mutex_lock(&m->lock);
    mailbox_kick_locked(m);
    pthread_mutex_unlock(&m->lock);
}

bool mailbox_is_paused(const struct mailbox *m, uint64_t conn)
{
    for (const struct paused_conn *p = m->paused; p; p = p->next)
        if (p->conn == conn) return true;
    return false;
}

void mailbox_pause(struct mailbox *m, uint64_t conn, bool pause)
{
    struct paused_conn **at = &m->paused;
    m->control = true;
    while (*at && (*at)->conn != conn) at = &(*at)->next;
    if (!pause && *at) {
        struct paused_conn *p = *at;
        *at = p->next;
        free(p);
    } else if (pause && !*at) {
        *at = calloc(1, sizeof(**at)); /* without memory the sequences run on; the connection has its own limit */
        if (*at) (*at)->conn = conn;
    }
}
