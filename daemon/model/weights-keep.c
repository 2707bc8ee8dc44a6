/* SPDX-License-Identifier: MIT */
/* Keeping the packed weights for the next start, and trusting those of the last one. */
#include "daemon/model/weights.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/paths.h"

static int keep(const struct weights *w, const atomic_bool *stop)
{
    struct fingerprint model = w->model;
    int r = paths_make(w->dir);
    if (r) return r;
    if (!w->model_known) {
        r = fingerprint_make(&model, w->g, stop);
        if (!r) r = fingerprint_remember(&model, w->g, w->dir);
    }
    if (!r) packed_sweep(w->dir); /* first, for the room it makes */
    return r ? r : packed_write(&w->table, &model, w->dir, w->mem, stop);
}

int weights_upkeep(const struct weights *w, const atomic_bool *stop)
{
    if (!w->dir) return 0;
    int r;
    if (w->packed) {
        r = packed_verify(w->packed, stop);
        if (r == -EBADMSG) return r;
        if (r == 0) r = packed_make_huge(w->packed, stop);
        if (r < 0 && r != -ECANCELED) log_warning("the weights stay in small pages: %s", error_text(r));
        packed_sweep(w->dir);
        log_debug("the packed weights were verified%s", r > 0 ? " and copied to huge pages" : "");
        return 0;
    }
    r = keep(w, stop);
    if (r == -ECANCELED)
        log_debug("%s", error_text(r));
    else if (r)
        log_warning("the packed weights are not kept for the next start: %s", error_text(r));
    else
        log_debug("the packed weights were written");
    return 0;
}
