/* SPDX-License-Identifier: MIT */
#include "daemon/io/pressure.h"
#include "libcommon/cgroup.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/sock.h"
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#define EVERY_USEC 1000000u

/* A window of a multiple of 2 s needs no privilege since Linux 6.4. The kernel wants the zero at the end, too. */
static const char trigger[] = "some 200000 2000000";

enum { WRITE_MAX = 4096 };

static int digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Base64 (RFC 4648) of at most WRITE_MAX bytes: how many, or -EINVAL. */
static int decode(const char *s, uint8_t out[static WRITE_MAX])
{
    size_t len = strlen(s);
    int n = 0;
    if (len % 4 || len / 4 * 3 > WRITE_MAX) return -EINVAL;
    for (; len; s += 4, len -= 4) {
        int pad = len > 4 ? 0 : s[2] == '=' && s[3] == '=' ? 2 : s[3] == '=';
        uint32_t bits = 0;
        for (int i = 0; i < 4; i++) {
            int d = i < 4 - pad ? digit(s[i]) : 0;
            if (d < 0) return -EINVAL;
            bits = bits << 6 | (uint32_t)d;
        }
        for (int i = 0; i < 3 - pad; i++) out[n++] = (uint8_t)(bits >> (16 - 8 * i));
    }
    return n;
}

/* Write all of it at once. 0 or -errno. */
static int set_trigger(int fd, const void *bytes, size_t len)
{
    ssize_t n = write(fd, bytes, len);
    return n < 0 ? -errno : (size_t)n == len ? 0 : -EIO;
}

/* Open a socket, FIFO or file. 0 and *out, or -errno with a message. */
static int open_place(const char *path, const void *bytes, size_t len, int *out, bool *stream)
{
    struct stat st;
    _cleanup_(closep) int fd = -1;
    int r = stat(path, &st) < 0 ? -errno : 0;
    if (r == 0 && S_ISSOCK(st.st_mode)) {
        fd = sock_connect(path);
        r = fd < 0 ? fd : fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
    } else if (r == 0) {
        fd = open(path, (len || S_ISFIFO(st.st_mode) ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        r = fd < 0 ? -errno : 0;
    }
    if (r == 0 && len) r = set_trigger(fd, bytes, len);
    if (r < 0) return error_say(r, "%s: %s", path, strerror(-r));
    *stream = !S_ISREG(st.st_mode);
    *out = fd;
    fd = -1;
    return 0;
}

static int open_named(const char *path, int *fd, bool *stream)
{
    const char *coded = getenv("MEMORY_PRESSURE_WRITE");
    uint8_t bytes[WRITE_MAX];
    int n = coded ? decode(coded, bytes) : 0;
    if (!strcmp(path, "/dev/null")) return 1;
    if (*path != '/') return error_say(-EINVAL, "MEMORY_PRESSURE_WATCH is not an absolute path");
    if (n < 0) return error_say(-EINVAL, "MEMORY_PRESSURE_WRITE is not base64, or too long");
    return open_place(path, bytes, (size_t)n, fd, stream);
}

int pressure_open(const char *root, int *fd, bool *stream)
{
    const char *named = getenv("MEMORY_PRESSURE_WATCH");
    char dir[CGROUP_PATH_MAX], path[CGROUP_PATH_MAX + 32];
    if (named && *named) return open_named(named, fd, stream);
    if (cgroup_dir(root, dir) == 0) {
        snprintf(path, sizeof path, "%s/memory.pressure", dir);
        if (open_place(path, trigger, sizeof trigger, fd, stream) == 0) return 0;
    }
    snprintf(path, sizeof path, "%s/proc/pressure/memory", root);
    return open_place(path, trigger, sizeof trigger, fd, stream);
}

bool pressure_due(struct pressure *p, uint64_t now)
{
    if (p->told && now - p->last < EVERY_USEC) return false;
    p->told = true;
    p->last = now;
    return true;
}

static int on_pressure(sd_event_source *source, int fd, uint32_t revents, void *ctx)
{
    struct pressure *p = ctx;
    char waste[256];
    uint64_t now;
    if (revents & (EPOLLERR | EPOLLHUP)) { /* the group was removed, the service manager has closed its end */
        log_debug("memory pressure is no longer watched");
        p->source = sd_event_source_disable_unref(p->source);
        return 0;
    }
    while (p->stream && read(fd, waste, sizeof waste) == sizeof waste) continue;
    if (sd_event_now(sd_event_source_get_event(source), CLOCK_MONOTONIC, &now) < 0 || !pressure_due(p, now)) return 0;
    log_debug("memory pressure: returning memory");
    p->fn(p->ctx);
    return 0;
}

void pressure_init(struct pressure *p, struct sd_event *event, const char *root, void (*fn)(void *ctx), void *ctx)
{
    int fd = -1;
    *p = (struct pressure){.fn = fn, .ctx = ctx};
    int r = pressure_open(root, &fd, &p->stream);
    if (r < 0) log_debug("memory pressure is not watched: %s", error_text(r));
    if (r != 0) return;
    r = sd_event_add_io(event, &p->source, fd, p->stream ? EPOLLIN : EPOLLPRI, on_pressure, p);
    if (r >= 0) r = sd_event_source_set_io_fd_own(p->source, true);
    if (r >= 0) return;
    log_debug("memory pressure is not watched: %s", strerror(-r));
    pressure_fini(p);
    close(fd);
}

void pressure_fini(struct pressure *p)
{
    p->source = sd_event_source_disable_unref(p->source);
}
