/* SPDX-License-Identifier: MIT */
/* hob: asks the daemon and prints its answer. */
#include "client/exits.h"
#include "client/generate.h"
#include "client/interrupt.h"
#include "client/options.h"
#include "client/output.h"
#include "client/sessions.h"
#include "client/status.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/paths.h"
#include <fcntl.h>

/* So that no socket or file of ours becomes a standard stream. What was closed fails when it is used: the wrong way
 * round, except for standard input, which is empty. */
static void open_standard_streams(void)
{
    int fd;

    for (fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDONLY) < 0) return;
}

static int print(const struct buf *text)
{
    struct output out;
    int r;

    output_init(&out, STDOUT_FILENO, false);
    r = output_write(&out, text->data, text->len);
    return r < 0 ? exits_say(r) : EXITS_ANSWERED;
}

static int help(bool version)
{
    struct buf text = BUF_INIT;
    int r = version ? buf_puts(&text, "hob " HOB_VERSION "\n") : options_help(&text);

    r = r < 0 ? exits_say(r) : print(&text);
    buf_fini(&text);
    return r;
}

static int complete(struct options *o)
{
    _cleanup_(freep) char *dir = NULL, *path = NULL;

    /* Without a home there is no configuration, and that is no error. */
    if (paths_dir(PATHS_CONFIG, false, &dir) < 0) return options_complete(o, NULL);
    /* Nor is somebody else's, as after su: a file of one's own that cannot be read would be. */
    if (access(dir, X_OK) < 0) return options_complete(o, NULL);
    if (asprintf(&path, "%s/hob.conf", dir) < 0) return error_say(-ENOMEM, "no memory for a path");
    return options_complete(o, path);
}

static int run(const struct options *o)
{
    switch (o->command) {
    case COMMAND_STATUS:
        return status_run(o);
    case COMMAND_STOP:
        return status_stop(o);
    case COMMAND_SESSIONS:
        return sessions_run(o);
    default:
        return generate_run(o, o->no_stdin || isatty(STDIN_FILENO) ? -1 : STDIN_FILENO);
    }
}

int main(int argc, char **argv)
{
    struct options o;
    int r;

    open_standard_streams();
    interrupt_init();
    log_init("hob", LOG_INFO);
    r = options_parse(&o, argc, argv);
    if (r == 0 && (o.command == COMMAND_HELP || o.command == COMMAND_VERSION)) {
        r = help(o.command == COMMAND_VERSION);
    } else {
        if (r == 0) r = complete(&o);
        if (r == 0 && o.quiet) log_init("hob", LOG_ERROR);
        if (r == 0) {
            r = run(&o);
        } else {
            log_error("%s", error_text(r));
            r = r == -EINVAL ? EXITS_USAGE : EXITS_FAILED;
        }
    }
    options_fini(&o);
    return r;
}
