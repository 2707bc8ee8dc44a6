/* SPDX-License-Identifier: MIT */
#include "daemon/io/reload.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdlib.h>

static void take_over(const struct server_config *c, struct engine *e, const struct server_reload *changed)
{
    log_info("SIGHUP: %s%s", changed->taken ? "applied: " : "no setting to apply",
             changed->taken ? changed->taken : "");
    if (changed->pending) log_warning("SIGHUP: these settings need a restart: %s", changed->pending);
    if (engine_configure(e, c->engine, changed->pending) < 0)
        log_warning("no memory to record the settings that wait for a restart");
}

void reload(const struct server_config *c, struct engine *e, struct notify *n)
{
    struct server_reload changed = {0};
    if (n) notify_reloading(n);
    int r = c->reload(c->ctx, e, &changed);
    if (r == 0) {
        take_over(c, e, &changed);
    } else {
        log_error("SIGHUP: nothing changes, hobd.conf is invalid: %s", error_text(r));
        engine_configure_failed(e, error_text(r));
    }
    const char *note = r < 0 ? "hobd.conf is invalid" : changed.pending ? "a restart is pending" : NULL;
    if (n) notify_reloaded(n, c->engine->model_name, note);
    free(changed.taken);
    free(changed.pending);
}
