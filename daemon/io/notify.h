/* SPDX-License-Identifier: MIT */
#pragma once
/* Messages to the service manager, as in sd_notify(3). The socket is connected once, before the sandbox, which allows
 * no further one. Without $NOTIFY_SOCKET each function does nothing. */
#include <stdbool.h>
#include <systemd/sd-event.h>

struct notify {
    int fd; /* a datagram socket, connected to $NOTIFY_SOCKET; -1: none */
    struct sd_event *event;
    sd_event_source *extend, *watchdog;
    bool (*alive)(void *ctx); /* whether the engine makes progress; called at each turn of a timer */
    void *ctx;
};

#define NOTIFY_INIT                                                                                                    \
    {                                                                                                                  \
        .fd = -1                                                                                                       \
    }

/* Connect to $NOTIFY_SOCKET: a path, or a name in the abstract namespace behind '@'. On failure it logs at debug level
 * and the manager gets no messages. @event and @alive may be NULL when only notify_failed follows. */
void notify_init(struct notify *n, struct sd_event *event, bool (*alive)(void *ctx), void *ctx);
void notify_fini(struct notify *n);

/* STATUS, and more time again and again while it is alive, until one of the others is called. */
void notify_loading(struct notify *n, const char *model);
/* From now on the watchdog is fed while it is alive, if the manager wants that. */
void notify_ready(struct notify *n, const char *model);
/* The configuration is read again; then it serves, with a @note for people, or NULL. */
void notify_reloading(struct notify *n);
void notify_reloaded(struct notify *n, const char *model, const char *note);
void notify_stopping(struct notify *n, const char *why);
void notify_failed(struct notify *n, int code, const char *why);
