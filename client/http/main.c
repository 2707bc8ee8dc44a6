/* SPDX-License-Identifier: MIT */
/* hob-http: serves the APIs of OpenAI and Anthropic over HTTP, and passes requests on to hobd's sockets. It holds no
 * model. */
#include "client/exit-status.h"
#include "client/http/gateway.h"
#include "client/http/http-listen.h"
#include "client/http/http-sandbox.h"
#include "client/http/http-server.h"
#include "client/output.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/json-whole.h"
#include "libcommon/log.h"
#include "libcommon/paths.h"
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

/* The keys file: as given, or in the configuration directory. The caller frees *path. 0; 1: none exists and none was
 * given; else negative. */
static int keys_path(const struct http_options *o, char **path)
{
    _cleanup_(freep) char *dir = NULL;
    if (o->keys) {
        *path = strdup(o->keys);
        return *path ? 0 : error_origin(-ENOMEM);
    }
    int r = paths_dir(PATHS_CONFIG, false, &dir);
    if (r == -ENOMEM) return r;
    if (r < 0) return 1;
    if (asprintf(path, "%s/keys", dir) < 0) return error_origin(-ENOMEM);
    return access(*path, F_OK) == 0 ? 0 : 1;
}

static int read_keys(struct gateway *g)
{
    _cleanup_(freep) char *path = NULL;
    int r = keys_path(g->options, &path);
    if (r == 0) r = keys_reload(&g->keys, path);
    if (r > 0 && g->keys.n > 0) return error_say(-ENOENT, "%s: %s", path ? path : "keys", strerror(ENOENT));
    return r > 0 ? 0 : r;
}

/* SIGHUP: read the keys again. Without any keys now, a new file counts too. */
static int on_reload(sd_event_source *source, const struct signalfd_siginfo *si, void *ctx)
{
    struct gateway *g = ctx;
    int r = read_keys(g);
    if (r < 0)
        log_error("SIGHUP: the keys do not change: %s", error_text(r));
    else
        log_info("SIGHUP: %zu keys", g->keys.n);
    return 0;
}

static int add_key(const struct http_options *o)
{
    _cleanup_(freep) char *path = NULL, *dir = NULL;
    char text[KEY_TEXT + 1];
    int r = keys_path(o, &path);
    if (r > 0 && !path) return error_say(-ENOENT, "no configuration directory: use --keys");
    if (r >= 0) {
        dir = strdup(path);
        char *slash = dir ? strrchr(dir, '/') : NULL;
        if (slash && slash > dir) {
            *slash = 0;
            r = paths_make(dir);
        }
    }
    if (r >= 0) r = keys_add(path, o->key_name, text);
    if (r < 0) return r;
    strcat(text, "\n");
    return output_print(text, strlen(text));
}

/* A request needs two descriptors. */
static void raise_limit(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0) return;
    l.rlim_cur = l.rlim_max;
    setrlimit(RLIMIT_NOFILE, &l);
}

/* SIGTERM and SIGINT end the loop. */
static int add_signals(struct gateway *g)
{
    sd_event *event = g->event;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int r = sd_event_add_signal(event, NULL, SIGTERM, NULL, NULL);
    if (r >= 0) r = sd_event_add_signal(event, NULL, SIGHUP, on_reload, g);
    return r < 0 ? r : sd_event_add_signal(event, NULL, SIGINT, NULL, NULL);
}

static void enter_sandbox(const struct http_options *o)
{
    _cleanup_(freep) char *keys = NULL;
    int r = keys_path(o, &keys);
    if (r < 0) log_debug("%s", error_text(r));
    http_sandbox_enter(keys);
}

static int serve_loop(struct gateway *g, struct listeners *l)
{
    int r = add_signals(g);
    if (r < 0) return error_say(r, "signals: %s", strerror(-r));
    r = listeners_open(l, g->options, g->keys.n > 0);
    if (r == 0 && g->keys.n == 0) peer_uids_init(&g->peer_uids, l);
    if (r == 0) r = http_server_init(g, l);
    if (r < 0) return r;
    if (!g->options->no_sandbox) enter_sandbox(g->options);
    sd_notify(0, "READY=1");
    r = sd_event_loop(g->event);
    sd_notify(0, "STOPPING=1");
    return r < 0 ? error_say(r, "event loop: %s", strerror(-r)) : 0;
}

static int serve(const struct http_options *o)
{
    struct gateway g = {.options = o, .peer_uids.fd = -1};
    struct listeners l = {.diag = -1};
    raise_limit();
    int r = sd_event_new(&g.event);
    if (r < 0) return error_say(r, "event loop: %s", strerror(-r));
    sd_event_set_watchdog(g.event, true);
    r = read_keys(&g);
    if (r == 0) r = serve_loop(&g, &l);
    http_server_fini(&g);
    listeners_fini(&l);
    keys_fini(&g.keys);
    sd_event_unref(g.event);
    return r;
}

static int run(const struct http_options *o)
{
    switch (o->command) {
    case HTTP_HELP:
        return http_options_help();
    case HTTP_VERSION:
        return output_print("hob-http " HOB_VERSION "\n", strlen("hob-http " HOB_VERSION "\n"));
    case HTTP_KEY_ADD:
        return add_key(o);
    default:
        return serve(o);
    }
}

int main(int argc, char **argv)
{
    struct http_options o;
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0) return EXIT_FAILED;
    signal(SIGPIPE, SIG_IGN);
    json_whole_watch();
    log_init("hob-http", LOG_INFO);
    int r = http_options_parse(&o, argc, argv), status = EXIT_ANSWERED;
    if (r < 0) {
        log_error("%s", error_text(r));
        status = EXIT_USAGE;
    } else {
        if (o.verbose) log_limit(LOG_DEBUG);
        r = run(&o);
        if (r < 0) log_error("%s", error_text(r));
        if (r < 0) status = EXIT_FAILED;
    }
    http_options_fini(&o);
    return status;
}
