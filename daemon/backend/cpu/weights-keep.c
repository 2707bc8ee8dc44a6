/* SPDX-License-Identifier: MIT */
/* Writes the packed weights for the next start, and verifies those of the last one. */
#include "daemon/backend/cpu/weights.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/paths.h"

int weights_model(const struct weights *w, struct fingerprint *out)
{
    if (!atomic_load_explicit(&w->model_known, memory_order_acquire)) return 1;
    *out = w->model;
    return 0;
}

/* Compute the fingerprint, and record it in the directory. The fingerprint is valid even if the record fails. */
static int identify(struct weights *w, const atomic_bool *stop)
{
    bool known = atomic_load(&w->model_known);
    int r = known ? 0 : fingerprint_make(&w->model, w->g, stop);
    if (r) return r;
    atomic_store_explicit(&w->model_known, true, memory_order_release);
    if (w->dir) r = paths_make(w->dir);
    return r || known || !w->dir ? r : fingerprint_remember(&w->model, w->g, w->dir);
}

static int keep(struct weights *w, const atomic_bool *stop)
{
    int r = identify(w, stop);
    if (r || !w->dir) return r;
    packed_sweep(w->dir); /* first: it frees space on the disk */
    return packed_write(&w->table, &w->model, w->dir, w->mem, stop);
}

int weights_background_verify(struct weights *w, const atomic_bool *stop)
{
    int r;
    if (w->packed) {
        r = packed_verify(w->packed, stop);
        if (r == -EBADMSG) return r;
        if (r == 0) r = packed_make_huge(w->packed, stop);
        if (r == -ECANCELED)
            log_debug("%s", error_text(r));
        else if (r < 0)
            log_warning("the packed weights were verified, but stay in small pages: %s", error_text(r));
        else
            log_debug("the packed weights were verified%s", r > 0 ? " and copied to huge pages" : "");
        packed_sweep(w->dir);
        return 0;
    }
    r = keep(w, stop);
    if (r == -ECANCELED)
        log_debug("%s", error_text(r));
    else if (r)
        log_warning("%s: %s",
                    w->dir ? "the packed weights are not kept for the next start" : "the model has no fingerprint",
                    error_text(r));
    else
        log_debug("the %s", w->dir ? "packed weights were written" : "model's file was hashed");
    return 0;
}
