/* SPDX-License-Identifier: MIT */
/* hob: sends requests to the daemon and prints its answers. */
#include "client/batch/batch-command.h"
#include "client/batch/map.h"
#include "client/do/do.h"
#include "client/embed/embed-command.h"
#include "client/exit-status.h"
#include "client/generate.h"
#include "client/infill.h"
#include "client/launch.h"
#include "client/options.h"
#include "client/output.h"
#include "client/sessions.h"
#include "client/startup.h"
#include "client/status.h"
#include "client/templates/templates.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int help(bool version)
{
    struct buf text = BUF_INIT;
    int r = version ? buf_puts(&text, "hob " HOB_VERSION "\n") : options_help(&text);
    if (r == 0) r = output_print(text.data, text.len);
    buf_fini(&text);
    return r < 0 ? exit_status_report(r) : EXIT_ANSWERED;
}

/* Run a helper program, which has the line editor or uses the network, so that hob need not load their libraries. It is
 * in the directory of hob or in HOB_LIBEXEC. */
static int helper(const char *name, char **argv)
{
    char path[PATH_MAX + 16]; /* names are shorter */
    ssize_t n;
    for (unsigned i = 0; i < 2; i++) {
        if (i == 0) {
            n = readlink("/proc/self/exe", path, PATH_MAX - 1);
            path[n > 0 ? n : 0] = 0;
            n = n > 0 ? strrchr(path, '/') - path : 0;
        } else {
            n = snprintf(path, PATH_MAX, "%s", HOB_LIBEXEC);
        }
        snprintf(path + n, 16, "/%s", name);
        execv(path, argv);
    }
    log_error("cannot run the helper %s: %s; reinstall hob", path, strerror(errno));
    return EXIT_FAILED;
}

/* hobd decodes media, with the options after the word "media". */
static int media(int argc, char **argv)
{
    int r = argc > 1 && strcmp(argv[1], "media") == 0
                ? 0
                : error_say(-EINVAL, "the word 'media' must come first, options after it");
    return exit_status_before(r < 0 ? r : launch_tool(argv));
}

static int run(struct options *o, void *ctx)
{
    switch (o->command) {
    case COMMAND_STATUS:
        return status_run(o);
    case COMMAND_STOP:
        return status_stop(o);
    case COMMAND_SESSIONS:
        return sessions_run(o);
    case COMMAND_INFILL:
        return infill_run(o);
    case COMMAND_BATCH:
        return batch_command(o);
    case COMMAND_MAP:
        return map_command(o);
    case COMMAND_EMBED:
        return embed_run(o);
    case COMMAND_RANK:
        return rank_run(o);
    case COMMAND_TEMPLATES:
        return template_command(o);
    case COMMAND_DO:
        return do_run(o);
    default:
        return generate_run(o, o->no_stdin || isatty(STDIN_FILENO) ? -1 : STDIN_FILENO);
    }
}

int main(int argc, char **argv)
{
    struct options o;
    startup_begin();
    int r = options_parse(&o, argc, argv);
    if (r < 0) return startup_run(&o, r, run, NULL);
    switch (o.command) {
    case COMMAND_HELP:
    case COMMAND_VERSION:
        r = help(o.command == COMMAND_VERSION);
        break;
    case COMMAND_CHAT:
        r = helper("hob-chat", argv);
        break;
    case COMMAND_MODELS:
        r = helper("hob-models", argv);
        break;
    case COMMAND_FIND:
        r = helper("hob-find", argv);
        break;
    case COMMAND_LOG:
        r = helper("hob-log", argv);
        break;
    case COMMAND_MEDIA:
        r = media(argc, argv);
        break;
    default:
        return startup_run(&o, 0, run, NULL);
    }
    options_fini(&o);
    return r;
}
