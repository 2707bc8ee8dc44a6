/* SPDX-License-Identifier: MIT */
#include "client/find/index.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Least cosine of two vectors of the probe by the same model: its files of other types (F16, Q8_0) are over it. */
#define SAME_MODEL 0.98

int index_damaged(const struct index *x, int r)
{
    if (r != -EUCLEAN && r != -EBADMSG && r != -ENOENT) return r;
    char why[256];
    snprintf(why, sizeof(why), "%s", error_text(r));
    return error_say(-EUCLEAN, "the index of %s is damaged (%s): remove it with 'hob index --rm %s' and index again",
                     x->place.root, why, x->place.root);
}

/* Open the vector file of the moment that the transaction shows. A hob index that has just ended may have replaced it:
 * then -ENOENT. */
static int open_vectors(struct index *x, bool write)
{
    char name[PLACE_NAME];
    if (x->meta.dim == 0) return 0;
    place_vectors(name, x->meta.generation);
    int r = vector_file_open(&x->vectors, x->place.fd, name, x->meta.dim, x->meta.generation, write);
    return r == 0 ? vector_file_map(&x->vectors, x->meta.rows) : r;
}

static int open_store(struct index *x, bool write)
{
    char *path;
    if (asprintf(&path, "%s/" STORE_FILE, x->place.dir) < 0) return error_say(-ENOMEM, "no memory for a path");
    int r = access(path, F_OK) < 0 && !write ? 1 : store_open(&x->store, path, write, write);
    free(path);
    return r;
}

/* The database belongs to this folder. */
static int check_root(const struct index *x)
{
    if (strcmp(x->meta.root, x->place.root) == 0) return 0;
    return error_say(-EUCLEAN, "it is that of %s", x->meta.root);
}

static int begin_read(struct index *x)
{
    int r = store_begin(&x->store, false);
    if (r == 0) r = store_meta_read(&x->store, &x->meta);
    if (r == 0) r = check_root(x);
    return r == 0 ? open_vectors(x, false) : r;
}

void index_pause(struct index *x)
{
    vector_file_close(&x->vectors);
    store_meta_fini(&x->meta);
    store_rollback(&x->store);
}

int index_read_again(struct index *x)
{
    int r = begin_read(x);
    for (int tries = 0; r == -ENOENT && tries < 3; tries++) {
        index_pause(x);
        r = begin_read(x);
    }
    return index_damaged(x, r);
}

int index_read(struct index *x)
{
    int r = place_open(&x->place, false);
    if (r == 0) r = open_store(x, false);
    return r == 0 ? index_read_again(x) : index_damaged(x, r);
}

static char *copy(const char *s)
{
    return strdup(s ? s : "");
}

/* Give a new database its settings. */
static int settle(struct index *x, const struct store_meta *new)
{
    struct store_meta *m = &x->meta;
    *m = (struct store_meta){.root = copy(x->place.root),
                             .model = copy(new->model),
                             .prefix = copy(new->prefix),
                             .question_prefix = copy(new->question_prefix),
                             .dims = new->dims};
    if (!m->root || !m->model || !m->prefix || !m->question_prefix)
        return error_say(-ENOMEM, "no memory for the index");
    int r = store_begin(&x->store, true);
    if (r == 0) r = store_meta_write(&x->store, m);
    return r == 0 ? store_commit(&x->store) : r;
}

int index_write(struct index *x, const struct store_meta *new)
{
    int64_t known = 0;
    int r = place_open(&x->place, true);
    if (r == 0) r = place_lock(&x->place);
    if (r == 0) r = open_store(x, true);
    if (r == 0) r = store_number(&x->store, "SELECT count(*) FROM meta", &known);
    if (r == 0) r = known ? store_meta_read(&x->store, &x->meta) : settle(x, new);
    if (r == 0) r = check_root(x);
    if (r == 0) r = open_vectors(x, true);
    if (r == 0) place_tidy(&x->place, x->meta.generation);
    return index_damaged(x, r);
}

void index_close(struct index *x)
{
    if (x->store.db) store_rollback(&x->store);
    store_close(&x->store);
    store_meta_fini(&x->meta);
    vector_file_close(&x->vectors);
    place_close(&x->place);
    *x = (struct index)INDEX_INIT;
}

int index_check_model(const struct index *x, const float *probe, uint32_t dim)
{
    const struct store_meta *m = &x->meta;
    double cosine = 0;
    for (uint32_t i = 0; i < dim && dim == m->dim; i++) cosine += (double)probe[i] * (double)m->probe[i];
    if (cosine >= SAME_MODEL) return 0;
    return error_say(-EMEDIUMTYPE,
                     "the index of %s was made with another model of the name '%s' (%u dims, now %u): remove it with "
                     "'hob index --rm %s' and index again",
                     x->place.root, m->model, m->dim, dim, x->place.root);
}
