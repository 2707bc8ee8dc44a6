/* SPDX-License-Identifier: MIT */
#include "daemon/request/core.h"
#include <string.h>

void core_again(struct core *core)
{
    mailbox_kick(&core->mail);
}

void core_free_slot(struct core *core, struct seq *s)
{
    if (s->state != SEQ_RUNNING && s->state != SEQ_FETCHING && s->state != SEQ_ENCODING) return;
    core->running--;
    core_again(core); /* another sequence may get it */
}

void core_model_id(const struct core *core, uint8_t out[16])
{
    struct fingerprint f;
    const struct backend *b = core->model.backend;
    memcpy(out, b->ops->fingerprint(b, &f) == 0 ? f.bytes : core->model_here, 16);
}

bool core_is_model(const struct core *core, const uint8_t id[16])
{
    uint8_t now[16];
    core_model_id(core, now);
    return memcmp(id, now, 16) == 0 || memcmp(id, core->model_here, 16) == 0;
}
