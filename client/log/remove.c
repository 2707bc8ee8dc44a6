/* SPDX-License-Identifier: MIT */
/* hob log rm. */
#include "client/exit-status.h"
#include "client/log/log-options.h"
#include "client/log/row.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <inttypes.h>

/* 0; STORE_NONE: there is no such exchange. */
static int remove_one(struct store *s, int64_t id)
{
    sqlite3_stmt *q = NULL;
    int r = store_prepare(s, &q, "DELETE FROM exchange WHERE id = ?");
    if (r == 0) {
        sqlite3_bind_int64(q, 1, id);
        r = store_step(s, q);
        if (r == STORE_NONE) r = sqlite3_changes(s->db) ? 0 : STORE_NONE;
    }
    sqlite3_finalize(q);
    return r;
}

/* Like rm(1): the words that name no exchange do not stop the removal of the others. *@missing: how many. */
static int remove_words(struct store *s, const struct log_options *o, size_t *missing)
{
    int r = store_begin(s);
    if (r < 0) return r;
    for (size_t i = 0; r >= 0 && i < o->n_words; i++) {
        int64_t id = 0;
        row_id(&id, o->words[i]); /* checked before */
        r = remove_one(s, id);
        if (r != STORE_NONE) continue;
        ++*missing;
        log_error("no exchange @%" PRId64 " in the log", id);
    }
    return store_end(s, r < 0 ? r : 0);
}

static int remove_all(struct store *s)
{
    int r = store_begin(s);
    if (r == 0) r = store_end(s, store_run(s, "DELETE FROM exchange"));
    if (r == 0) r = store_shrink(s);
    return r == 0 ? store_run(s, "VACUUM") : r;
}

int log_remove(const struct log_options *o)
{
    struct store s = {0};
    size_t missing = 0;
    int64_t id;
    int r = 0;
    for (size_t i = 0; r == 0 && i < o->n_words; i++) r = row_id(&id, o->words[i]);
    if (r == 0 && !o->n_words && !o->all)
        r = error_say(-EINVAL, "usage: hob log rm ID…, or hob log rm --all, which removes every exchange");
    if (r == 0 && o->n_words && o->all) r = error_say(-EINVAL, "--all cannot be used with an exchange");
    if (r < 0) return exit_status_before(r);
    r = store_open(&s, false);
    if (r == STORE_NONE && o->n_words) r = error_say(-ENOENT, "the log is empty");
    if (r == 0) r = o->all ? remove_all(&s) : remove_words(&s, o, &missing);
    if (r == 0 && !o->all) r = store_shrink(&s);
    store_close(&s);
    return r < 0 ? exit_status_report(r) : missing ? EXIT_FAILED : 0;
}
