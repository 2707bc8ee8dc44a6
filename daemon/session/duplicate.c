/* SPDX-License-Identifier: MIT */
/* Copying sessions: a fork shares the log of its parent, or has a copy of the content. */
#include "daemon/session/dir.h"
#include "daemon/session/save.h"
#include "daemon/session/session-log.h"
#include "daemon/session/session.h"
#include "daemon/session/share.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <assert.h>
#include <string.h>

/* The content but for outcomes and error message. 0 or -ENOMEM (@dst has a part of it). */
static int copy_content(struct session *dst, const struct session_content *from)
{
    assert(from->text.len == from->markup.len);
    int r = session_extend(dst, session_items(from), from->ends, from->text.data, from->markup.data, from->text.len);
    for (size_t i = 0; r == 0 && i < from->n_messages; i++) {
        r = session_add_parts(dst, &from->messages[i]);
    }
    if (r < 0) return r;
    session_set_raw(dst, from->raw);
    session_set_context(dst, from->context);
    session_set_model(dst, from->model);
    return session_set_adapter(dst, from->adapter.data, from->adapter.len);
}

int session_copy(struct session *dst, const struct session *src)
{
    assert(src->loaded && !dst->content.n_ids && !dst->content.n_messages && !dst->content.text.len);
    int r = copy_content(dst, &src->content);
    if (r < 0) {
        session_clear(dst);
        return r;
    }
    session_share_begin(dst, src);
    return 0;
}

/* As session_duplicate, without loading; 1: the log of @src cannot be shared. */
static int duplicate_log(struct session *dst, const struct session *src)
{
    if (!session_shareable(src) || (src->loaded && !src->log.saved)) return 1;
    _cleanup_(closep) int dir = session_dir_of(dst->owner->dir, dst->owner->path, dst->key.uid, false);
    if (dir < 0) return 1;
    session_share_take(&dst->log, src);
    int r = session_share_write(dir, dst, dst, false);
    if (r < 0 && dst->log.size) (void)!session_log_unlink(dir, dst); /* a crash may undo the rename */
    dst->loaded = dst->log.size == 0;
    if (dst->loaded) dst->log.n_bases = 0;
    return r;
}

int session_duplicate(struct session *dst, struct session *src)
{
    assert(dst->busy && src->busy && dst->owner == src->owner && dst->loaded && !dst->log.size);
    int r = duplicate_log(dst, src);
    if (r < 0) return error_in(r, "session '%s' could not be forked", src->key.name.data);
    if (r == 0) return 0;
    r = session_load(src);
    if (r == 0) r = duplicate_log(dst, src);
    if (r <= 0) return r;
    r = session_claim(dst, src->charged.memory);
    if (r == 0) r = session_copy(dst, src);
    return r < 0 ? r : session_save(dst);
}
