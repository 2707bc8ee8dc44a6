/* SPDX-License-Identifier: MIT */
#pragma once
/* What the service manager is told (sd_notify(3)): nothing at all when there is none. */
#include <stdbool.h>
#include <systemd/sd-event.h>

struct notify {
    struct sd_event *event;
    sd_event_source *extend, *watchdog;
    bool (*alive)(void *ctx); /* is what should move moving? Asked at each turn of a timer */
    void *ctx;
};

void notify_init(struct notify *n, struct sd_event *event, bool (*alive)(void *ctx), void *ctx);
void notify_fini(struct notify *n);

/* STATUS, and more time again and again while it is alive, until one of the others is called. */
void notify_loading(struct notify *n, const char *model);
/* From now on the watchdog is fed while it is alive, if the manager wants that. */
void notify_ready(struct notify *n, const char *model);
/* The configuration is read again; then it serves, with a @note for people, or NULL. */
void notify_reloading(void);
void notify_reloaded(const char *model, const char *note);
void notify_stopping(struct notify *n, const char *why);
void notify_failed(struct notify *n, int code, const char *why);
