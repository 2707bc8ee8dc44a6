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

/* Send STATUS, and extend the start timeout repeatedly while alive() is true, until another function below is called.
 */
void notify_loading(struct notify *n, const char *model);
/* Send READY. From now on send watchdog notifications while alive() is true, if the manager has a watchdog. */
void notify_ready(struct notify *n, const char *model);
/* The configuration is being read again; then the daemon serves again. @note: added to STATUS, or NULL. */
void notify_reloading(struct notify *n);
void notify_reloaded(struct notify *n, const char *model, const char *note);
void notify_stopping(struct notify *n, const char *why);
void notify_failed(struct notify *n, int code, const char *why);
