/* SPDX-License-Identifier: MIT */
#include "daemon/request/recover.h"
#include "daemon/request/core.h"
#include "daemon/request/draft-model.h"
#include "daemon/request/finish.h"
#include "daemon/request/request.h"
#include "daemon/sequence/fetch-blocks.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <string.h>

void recover_begin(struct core *core)
{
    log_warning("%s; its work is done again", error_text(-EIO));
    core->cache.lost = true;
    for (struct seq *s = core->seqs.head, *next; s; s = next) {
        next = s->next;
        if (s->state == SEQ_FETCHING)
            seq_fetch_spoil(s);
        else if (s->state == SEQ_RUNNING || s->state == SEQ_ENCODING)
            answer_preempt(s); /* what it adds to the index leaves it in recover_turn */
        else
            reuse_drop(&core->cache, s); /* its answer is being saved */
    }
    core_again(core);
}

/* A job may still write to blocks. */
static bool fetching(const struct core *core)
{
    for (const struct seq *s = core->seqs.head; s; s = s->next)
        if (s->fetch) return true;
    return false;
}

/* Forget all blocks: none is written to disk, and what files and host memory have stays good. */
static int forget_blocks(struct core *core)
{
    struct prefix *p = core->cache.prefix;
    struct prefix_stats sum;
    host_pool_settle(&core->cache);
    while (prefix_evict(p, UINT32_MAX, NULL, NULL)) continue;
    prefix_stats_get(p, (uid_t)-1, &sum);
    return sum.blocks_memory ? error_say(-EIO, "a KV block is in use after its device has failed") : 0;
}

static void fail(struct core *core, int r)
{
    struct mailbox *m = &core->mail;
    pthread_mutex_lock(&m->lock);
    mailbox_fail_locked(m, strdup(error_text(r)));
    pthread_mutex_unlock(&m->lock);
}

/* Smaller steps, unless they are configured: the buffers stay. */
static void configure(struct core *core)
{
    const struct backend *b = core->model.backend;
    if (b->config.batch_tokens >= core->config.batch_tokens) return;
    core->plan.config.batch_tokens = core->config.batch_tokens = b->config.batch_tokens;
}

/* An MTP layer may be on the same device. Its sequences begin anew, as those of the model. */
static void recover_draft(const struct core *core)
{
    struct backend *b = core->model.draft ? core->model.draft->backend : NULL;
    if (b && b->ops->recover && b->ops->recover(b) < 0)
        log_warning("the MTP layer proposes nothing: %s", error_text(-EIO));
}

void recover_turn(struct core *core)
{
    struct backend *b = core->model.backend;
    if (!core->cache.lost || fetching(core)) return;
    core->cache.lost = false;
    int r = forget_blocks(core);
    if (r == 0) r = b->ops->recover(b);
    if (r < 0) {
        fail(core, r);
        return;
    }
    configure(core);
    recover_draft(core);
    log_warning("computing with %s from now on; a new start of hobd may use the device again", b->isa);
}
