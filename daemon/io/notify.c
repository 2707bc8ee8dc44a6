/* SPDX-License-Identifier: MIT */
#include "daemon/io/notify.h"
#include "daemon/io/timer.h"
#include "libcommon/cleanup.h"
#include "libcommon/clock.h"
#include "libcommon/log.h"
#include "libcommon/plain.h"
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#define EXTEND_EVERY 5000000ull
#define EXTEND_BY    60000000ull

/* A new datagram socket that is connected to @name, or -errno. */
static int connect_to(const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(name), len = offsetof(struct sockaddr_un, sun_path) + n;
    if (*name != '/' && *name != '@') return -EAFNOSUPPORT;
    if (n < 2 || n > sizeof a.sun_path) return -EINVAL;
    memcpy(a.sun_path, name, n);
    if (*name == '@') a.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    if (connect(fd, (const struct sockaddr *)&a, (socklen_t)len) == 0) return fd;
    int r = -errno;
    close(fd);
    return r;
}

/* A message that the manager does not take is lost, as with sd_notify. It is sent without an address: the sandbox
 * refuses sendmsg and addresses. */
static void __attribute__((format(printf, 2, 3))) tell(const struct notify *n, const char *fmt, ...)
{
    _cleanup_(freep) char *text = NULL;
    va_list ap;
    if (n->fd < 0) return;
    va_start(ap, fmt);
    int len = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (len < 0) {
        text = NULL;
        log_debug("no memory for a message to the service manager");
    } else if (send(n->fd, text, (size_t)len, MSG_NOSIGNAL) < 0) {
        log_debug("cannot send a message to the service manager: %s", strerror(errno));
    }
}

static int on_extend(sd_event_source *s, uint64_t now, void *ctx)
{
    struct notify *n = ctx;
    if (n->alive(n->ctx)) tell(n, "EXTEND_TIMEOUT_USEC=%llu", EXTEND_BY);
    timer_arm(n->event, &n->extend, EXTEND_EVERY, on_extend, n);
    return 0;
}

/* Four notifications are sent in the manager's interval, so that one may be late or missing. */
static uint64_t watchdog_turn(void)
{
    uint64_t usec;
    return sd_watchdog_enabled(0, &usec) > 0 ? usec / 4 : 0;
}

static int on_watchdog(sd_event_source *s, uint64_t now, void *ctx)
{
    struct notify *n = ctx;
    if (n->alive(n->ctx))
        tell(n, "WATCHDOG=1");
    else
        log_warning("the engine has work but made no step since the last watchdog notification; none is sent now");
    timer_arm(n->event, &n->watchdog, watchdog_turn(), on_watchdog, n);
    return 0;
}

void notify_init(struct notify *n, struct sd_event *event, bool (*alive)(void *ctx), void *ctx)
{
    const char *name = getenv("NOTIFY_SOCKET");
    *n = (struct notify){.fd = -1, .event = event, .alive = alive, .ctx = ctx};
    if (!name) return;
    int r = connect_to(name);
    if (r < 0)
        log_debug("NOTIFY_SOCKET: %s: %s", name, strerror(-r));
    else
        n->fd = r;
}

void notify_fini(struct notify *n)
{
    n->extend = sd_event_source_disable_unref(n->extend);
    n->watchdog = sd_event_source_disable_unref(n->watchdog);
    closep(&n->fd);
}

void notify_loading(struct notify *n, const char *model)
{
    tell(n, "STATUS=Loading %s\nEXTEND_TIMEOUT_USEC=%llu", model, EXTEND_BY);
    timer_arm(n->event, &n->extend, EXTEND_EVERY, on_extend, n);
}

void notify_ready(struct notify *n, const char *model)
{
    uint64_t turn = watchdog_turn();
    n->extend = sd_event_source_disable_unref(n->extend);
    tell(n, "READY=1\nSTATUS=Serving %s", model);
    if (turn) timer_arm(n->event, &n->watchdog, turn, on_watchdog, n);
}

void notify_reloading(struct notify *n)
{
    tell(n, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)clock_now_usec());
}

void notify_reloaded(struct notify *n, const char *model, const char *note)
{
    tell(n, "READY=1\nSTATUS=Serving %s%s%s", model, note ? "; " : "", note ? note : "");
}

void notify_stopping(struct notify *n, const char *why)
{
    n->extend = sd_event_source_disable_unref(n->extend);
    tell(n, "STOPPING=1\nSTATUS=Stopping: %s", why);
}

void notify_failed(struct notify *n, int code, const char *why)
{
    /* The message may quote a model file: a second line would be another assignment. */
    char line[1024];

    line[plain_into(line, sizeof line - 1, why, strlen(why))] = 0;
    n->extend = sd_event_source_disable_unref(n->extend);
    tell(n, "STATUS=%s\nERRNO=%d", line, code);
}
