/* SPDX-License-Identifier: MIT */
#include "client/endpoints.h"
#include "client/launch.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include "libcommon/sock.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int endpoints_find(struct endpoints *p, const struct options *o)
{
    const char *fixed = getenv("HOB_SOCKET");
    *p = (struct endpoints){.model = o->model ? o->model : "default"};
    if (fixed && *fixed) {
        p->fixed = strdup(fixed);
        return p->fixed ? 0 : error_say(-ENOMEM, "no memory for a path");
    }
    int r = paths_socket(p->model, true, &p->system);
    if (r < 0) return r;
    r = paths_socket(p->model, false, &p->user);
    return r == -ENOMEM ? r : 0;
}

void endpoints_fini(struct endpoints *p)
{
    free(p->fixed);
    free(p->user);
    free(p->system);
    *p = (struct endpoints){0};
}

/* Returns the descriptor; -ENOENT: no process listens at @path; else negative; sets the error message. */
static int endpoints_try(const char *path)
{
    int r = sock_connect(path);
    switch (r) {
    case -ENOENT:
    case -ENOTDIR:
    case -ECONNREFUSED:
        return -ENOENT;
    case -EACCES:
    case -EPERM:
        return error_say(-EACCES, "permission denied on %s: are you in group hob?", path);
    case -ENAMETOOLONG:
        return r;
    default:
        return r < 0 ? error_in(r, "cannot connect to %s", path) : r;
    }
}

/* The user's socket. After su, $XDG_RUNTIME_DIR may still belong to another user. */
static int endpoints_try_own(const char *path)
{
    int fd = endpoints_try(path);
    uid_t uid;
    pid_t pid;
    if (fd < 0) return fd;
    int r = sock_peer(fd, &uid, &pid);
    if (r == 0 && uid != geteuid())
        r = error_say(
            -EPERM,
            "the daemon at %s belongs to another user (uid %u): check XDG_RUNTIME_DIR, or set HOB_SOCKET to use it",
            path, (unsigned)uid);
    if (r == 0) return fd;
    close(fd);
    return r;
}

int endpoints_connect(const struct endpoints *p)
{
    int r;
    if (p->fixed) {
        r = endpoints_try(p->fixed);
        return r == -ENOENT ? error_say(r, "no daemon at %s: start one there, or unset HOB_SOCKET", p->fixed) : r;
    }
    r = p->user ? endpoints_try_own(p->user) : -ENOENT;
    if (r == -ENOENT) r = endpoints_try(p->system);
    if (r == -ENOENT) return error_say(r, "no daemon is running for the model '%s'; a prompt starts one", p->model);
    return r;
}

int endpoints_connect_or_start(const struct endpoints *p)
{
    _cleanup_(freep) char *none = NULL;
    int r = endpoints_connect(p);
    if (r != -ENOENT || p->fixed) return r;
    if (p->user) return launch_daemon(p->model, p->user);
    /* Call again only for the error message, which names the reason that the user has no socket path. */
    r = paths_socket(p->model, false, &none);
    return r < 0 ? error_in(r, "no daemon is running and none can be started") : -ENOENT;
}
