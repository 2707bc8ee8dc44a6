/* SPDX-License-Identifier: MIT */
#include "daemon/command/command.h"
#include "daemon/command/gateways.h"
#include "daemon/command/serve-device.h"
#include "daemon/command/serve-sandbox.h"
#include "daemon/io/notify.h"
#include "daemon/io/server.h"
#include "daemon/media/media-helper.h"
#include "daemon/serve-config.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static void help(void)
{
    puts("usage: hobd [serve] [OPTION…]\n\nServes a model to hob(1) on a Unix socket. The socket comes from the "
         "service\n"
         "manager, or hobd creates it.\n");
    options_help(stdout);
    puts("      --help               print this help\n      --version            print the version\n\n"
         "SIZE: 512M, 4G. TIME: 500ms, 30s, 15min, 1h.\nEvery option but --system is also a key of hobd.conf(5).");
}

/* A socket must not become descriptor 0, 1 or 2, because libraries write to them. */
static int fill_standard_fds(void)
{
    int fd;
    do fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd < 0) return error_say(-errno, "/dev/null: %s", strerror(errno));
    close(fd);
    return 0;
}

/* hobd limits the connections itself. */
static void raise_nofile(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur == l.rlim_max) return;
    l.rlim_cur = l.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &l) < 0) log_debug("RLIMIT_NOFILE: %s", strerror(errno));
}

/* Large buffers get mappings of their own, and the number of arenas is small, so that memory of short use returns to
 * the system. Without this, the allocator's threshold grows with the largest buffer ever freed. */
static void tune_malloc(void)
{
    mallopt(M_MMAP_THRESHOLD, 256 << 10);
    mallopt(M_TRIM_THRESHOLD, 1 << 20);
    mallopt(M_ARENA_MAX, 4);
}

/* Makes the directory of the model's socket: private to the user, or open to the users of the system. */
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
    int r = listener_inherit(l);
    if (r <= 0) return r;
    _cleanup_(freep) char *path = NULL;
    if (!o->socket) {
        r = make_runtime_dir(o->system);
        if (r == 0) r = paths_socket(o->model, o->system, &path);
        if (r < 0) return r;
    }
    return listener_make(l, o->socket ? o->socket : path, o->system ? 0660 : 0600);
}

/* Refuses the clients that wait in a socket of the service manager. Otherwise they would wait forever, and the manager
 * would start one hobd after the other for them. */
static void give_up(struct listener *l, int r)
{
    _cleanup_(freep) char *why = strdup(error_text(r));
    log_error("%s", error_text(r));
    struct notify manager;
    notify_init(&manager, NULL, NULL, NULL);
    notify_failed(&manager, -r, error_text(r));
    notify_fini(&manager);
    if (l->fd < 0 && listener_inherit(l) != 0) return;
    error_say(r, "the daemon cannot start: %s", why ? why : "no memory");
    listener_turn_all_away(l, r);
    listener_fini(l);
}

/* The arguments of the start, so that the command line still overrides the file. */
struct reload_state {
    int argc;
    char **argv;
    struct options *options;
    struct server_config *config;
};

static void set_times(struct server_config *c, const struct options *o)
{
    c->client_bytes = o->client_bytes;
    c->idle_exit_usec = o->idle_exit_usec;
    c->stop_timeout_usec = o->stop_timeout_usec;
}

static int reload(void *ctx, struct engine *e, struct server_reload *changed)
{
    struct reload_state *a = ctx;
    struct options fresh;
    int r = options_init(&fresh);
    if (r == 0) r = options_load(&fresh, a->argc, a->argv);
    /* One that had none from the start, for want of memory, may stay as it is. */
    if (r == 0 && fresh.engine.speculation.mode != a->options->engine.speculation.mode)
        r = engine_check(e, &fresh.engine);
    struct buf taken = BUF_INIT, pending = BUF_INIT;
    if (r == 0) r = options_take(a->options, &fresh, &taken, &pending);
    if (r == 0) {
        log_limit(a->options->log_level);
        set_times(a->config, a->options);
        size_t len;
        *changed = (struct server_reload){buf_steal(&taken, &len), buf_steal(&pending, &len)};
    }
    buf_fini(&taken);
    buf_fini(&pending);
    options_fini(&fresh);
    return r;
}

/* Images are decoded by a process that has to start before the sandbox. It ends when this one does, and not before: the
 * engine's threads may use it until then (server_run). */
static void start_decoders(struct engine_config *c)
{
    int r = c->media.mmproj ? media_helper_new(&c->media.helper, NULL) : 0;
    if (r < 0) log_warning("requests with images are refused: %s", error_text(r));
}

static int serve(struct options *o, int argc, char **argv)
{
    struct listener listener = LISTENER_INIT;
    struct server_config config = {.engine = &o->engine, .listener = &listener, .reload = reload};
    struct reload_state state = {argc, argv, o, &config};
    int r = fill_standard_fds();
    config.ctx = &state;
    set_times(&config, o);
    raise_nofile();
    tune_malloc();
    if (r == 0) r = options_resolve(o);
    if (r == 0) r = serve_device(o);
    uid_t *gateways = NULL;
    bool misused = false; /* the option names no user */
    if (r == 0) r = gateways_find(o, &gateways, &config.n_gateways), misused = r == -EINVAL;
    config.gateways = gateways;
    if (r == 0) r = open_listener(o, &listener);
    if (r < 0) {
        free(gateways);
        give_up(&listener, r);
        return misused ? 2 : 1;
    }
    start_decoders(&o->engine);
    struct serve_sandbox sandbox;
    if (!o->no_sandbox) {
        serve_sandbox_init(&sandbox, o, &listener);
        config.sandbox = &sandbox.sandbox;
    }
    r = server_run(&config);
    if (!o->no_sandbox) serve_sandbox_fini(&sandbox);
    free(gateways);
    return r;
}

int command_serve(int argc, char **argv)
{
    static struct options options; /* static: the engine may read it until the process ends */
    log_init("hobd", LOG_INFO);
    int r = options_init(&options);
    if (r == 0) r = options_load(&options, argc, argv);
    if (r < 0) {
        struct listener none = LISTENER_INIT;
        give_up(&none, r);
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
    log_limit(options.log_level);
    return serve(&options, argc, argv);
}
