/* SPDX-License-Identifier: MIT */
/* Verifies the weights, and writes the packed ones for the next start. */
#include "daemon/backend/cpu/weights.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/paths.h"
#include <string.h>

int weights_model(const struct weights *w, struct fingerprint *out)
{
    if (!atomic_load_explicit(&w->model_known, memory_order_acquire)) return 1;
    for (int i = 0; i < 2; i++) {
        const uint64_t word = atomic_load_explicit(&w->model[i], memory_order_relaxed);
        memcpy(out->bytes + i * sizeof(word), &word, sizeof(word));
    }
    return 0;
}

/* Without a lock: a thread of idle priority could hold it for seconds. */
void weights_set_model(struct weights *w, const struct fingerprint *f)
{
    uint64_t words[2];
    memcpy(words, f->bytes, sizeof(words));
    for (int i = 0; i < 2; i++) atomic_store_explicit(&w->model[i], words[i], memory_order_relaxed);
    atomic_store_explicit(&w->model_known, true, memory_order_release);
}

/* Compute the fingerprint, and record it in the directory. The fingerprint is valid even if the record fails. */
static int identify(struct weights *w, const atomic_bool *stop)
{
    struct fingerprint f;
    if (weights_model(w, &f) == 0) return 0;
    int r = fingerprint_make(&f, w->g, stop);
    if (r) return r;
    log_debug("the model's file was hashed");
    if (w->dir) r = paths_make(w->dir);
    if (r == 0 && w->dir) r = fingerprint_remember(&f, w->g, w->dir);
    if (r == 0 && w->dir) atomic_store(&w->recorded, true);
    weights_set_model(w, &f);
    return r;
}

/* What follows where the model's file cannot be hashed, or its hash not be recorded. */
static const char *what_lacks(const struct weights *w)
{
    struct fingerprint f;
    if (w->dir && !w->no_packed_file) return "the packed weights are not kept for the next start";
    return weights_model(w, &f) ? "the model has no fingerprint" : "the next start hashes the model's file again";
}

int weights_verify(struct weights *w, const atomic_bool *stop)
{
    int r = w->packed ? packed_verify(w->packed, stop) : identify(w, stop);
    if (r == -ECANCELED) {
        log_debug("%s", error_text(r));
        return 1;
    }
    if (w->packed) return r;
    if (r) log_warning("%s: %s", what_lacks(w), error_text(r));
    return 0;
}

static void make_huge(struct weights *w, const atomic_bool *stop)
{
    int r = packed_make_huge(w->packed, stop);
    if (r == -ECANCELED)
        log_debug("%s", error_text(r));
    else if (r < 0)
        log_warning("the packed weights were verified, but stay in small pages: %s", error_text(r));
    else
        log_debug("the packed weights were verified%s", r > 0 ? " and copied to huge pages" : "");
}

static void write_packed(struct weights *w, const struct fingerprint *model, const atomic_bool *stop)
{
    int r = packed_write(&w->table, model, w->dir, w->mem, stop);
    if (r == -ECANCELED)
        log_debug("%s", error_text(r));
    else if (r)
        log_warning("the packed weights are not kept for the next start: %s", error_text(r));
    else
        log_debug("the packed weights were written");
}

void weights_keep(struct weights *w, const atomic_bool *stop)
{
    struct fingerprint model;
    if (!atomic_load(&w->recorded) || weights_model(w, &model)) return; /* weights_verify has said why */
    if (w->packed) make_huge(w, stop);
    packed_sweep(w->dir); /* before a write: it frees space on the disk */
    if (!w->packed && !w->no_packed_file) write_packed(w, &model, stop);
}
