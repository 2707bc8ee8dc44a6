/* SPDX-License-Identifier: MIT */
#include "client/startup.h"
#include "client/exit-status.h"
#include "client/interrupt.h"
#include "client/log/log-record.h"
#include "client/templates/templates.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/paths.h"
#include <fcntl.h>

static void open_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDONLY) < 0) return;
}

/* options_complete with the user's file. */
static int complete(struct options *o)
{
    _cleanup_(freep) char *dir = NULL, *path = NULL;
    /* Without a home directory there is no configuration, which is no error. */
    if (paths_dir(PATHS_CONFIG, false, &dir) < 0) return options_complete(o, NULL);
    /* After su the directory may belong to another user, which is no error either. An unreadable file of the user's own
     * is one. */
    if (access(dir, X_OK) < 0) return options_complete(o, NULL);
    if (asprintf(&path, "%s/hob.conf", dir) < 0) return error_say(-ENOMEM, "no memory for a path");
    return options_complete(o, path);
}

void startup_begin(void)
{
    unsetenv("POSIXLY_CORRECT"); /* getopt(3): options may follow words, in every environment */
    open_streams();
    interrupt_init();
    log_init("hob", LOG_INFO);
}

int startup_run(struct options *o, int parsed, int (*run)(struct options *o, void *ctx), void *ctx)
{
    int r = parsed == 0 ? template_load(o) : parsed;
    if (r == 0) r = complete(o);
    if (r == 0) {
        struct record record = {0};
        if (o->quiet) log_init("hob", LOG_ERROR);
        if (o->log.on) o->log.record = &record;
        r = run(o, ctx);
        record_fini(&record);
    } else {
        log_error("%s", error_text(r));
        r = r == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
    }
    options_fini(o);
    return r;
}
