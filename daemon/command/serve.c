/* SPDX-License-Identifier: MIT */
#include "daemon/command/command.h"
#include "daemon/io/server.h"
#include "daemon/config.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static void help(void)
{
    puts("usage: hobd [serve] [OPTION…]\n\nHolds a model and answers hob(1) on a Unix socket, one of its own or the "
         "service manager's.\n");
    options_help(stdout);
    puts("      --help                  this text\n      --version               the version\n\n"
         "SIZE: 512M, 4G. TIME: 500ms, 30s, 15min, 1h. Every option but --system is also a key of hobd.conf(5).");
}

/* A socket must not become descriptor 0, 1 or 2, which others write to. */
static int fill_standard_fds(void)
{
    int fd;

    do fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd < 0) return error_say(-errno, "/dev/null: %s", strerror(errno));
    close(fd);
    return 0;
}

/* Connections are limited by hobd itself. */
static void raise_nofile(void)
{
    struct rlimit l;

    if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur == l.rlim_max) return;
    l.rlim_cur = l.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &l) < 0) log_debug("RLIMIT_NOFILE: %s", strerror(errno));
}

/* The directory of the model's socket: the user's alone, or one that the system's users may enter. */
static int make_runtime_dir(bool system)
{
    _cleanup_(freep) char *dir = NULL;
    int r = paths_dir(PATHS_RUNTIME, system, &dir);

    if (r < 0) return r;
    if (system && mkdir(dir, 0755) == 0) return 0;
    return paths_make(dir);
}

static int open_listener(const struct options *o, struct listener *l)
{
    _cleanup_(freep) char *path = NULL;
    int r = listener_inherit(l);

    if (r <= 0) return r;
    if (!o->socket) {
        r = make_runtime_dir(o->system);
        if (r == 0) r = paths_socket(o->model, o->system, &path);
        if (r < 0) return r;
    }
    return listener_make(l, o->socket ? o->socket : path, o->system ? 0660 : 0600);
}

static int serve(struct options *o)
{
    struct listener listener = LISTENER_INIT;
    const struct server_config config = {
        .engine = &o->engine,
        .listener = &listener,
        .idle_exit_usec = o->idle_exit_usec,
        .stop_timeout_usec = o->stop_timeout_usec,
    };
    int r = fill_standard_fds();

    raise_nofile();
    if (r == 0) r = options_resolve(o);
    if (r == 0) r = open_listener(o, &listener);
    if (r < 0) {
        log_error("%s", error_text(r));
        return 1;
    }
    return server_run(&config);
}

int command_serve(int argc, char **argv)
{
    static struct options options; /* the engine may read it until the process ends */
    int r;

    log_init("hobd", LOG_INFO);
    r = options_init(&options);
    if (r == 0) r = options_load(&options, argc, argv);
    if (r < 0) {
        log_error("%s", error_text(r));
        return r == -EINVAL ? 2 : 1;
    }
    if (r == OPTIONS_HELP) {
        help();
        return 0;
    }
    if (r == OPTIONS_VERSION) {
        puts("hobd " HOB_VERSION);
        return 0;
    }
    log_init("hobd", options.log_level);
    return serve(&options);
}
