/* SPDX-License-Identifier: MIT */
#include "daemon/request/context-policy.h"
#include "libcommon/error.h"
#include <inttypes.h>

#define CONTEXT_TIMES 16 /* contexts full of tokens that a sequence has at most, with a policy */

enum proto_context context_policy(const struct proto_generate *g, const struct session *x)
{
    if (g->context != PROTO_CONTEXT_UNSET) return g->context;
    const struct session_content *c = session_content(x);
    return c && c->context != PROTO_CONTEXT_UNSET ? c->context : PROTO_CONTEXT_REFUSE;
}

uint64_t context_limit(uint32_t ctx, enum proto_context policy)
{
    return (uint64_t)ctx * (policy == PROTO_CONTEXT_REFUSE ? 1 : CONTEXT_TIMES);
}

int context_check_bytes(const struct loaded *m, const struct proto_request *q)
{
    const struct proto_generate *g = &q->gen;
    bool session = g->session.len || g->continue_last; /* it may have a context policy, which is not known yet */
    uint64_t bytes = g->prompt.len;
    if (q->type == PROTO_INFILL) return 0; /* it is cut to fit */
    for (size_t i = 0; i < g->n_messages; i++) bytes += proto_message_text(&g->messages[i]);
    uint64_t limit = context_limit(m->ctx, session ? PROTO_CONTEXT_SHIFT : context_policy(g, NULL));
    if (bytes <= limit * m->piece_max) return 0;
    return error_say(-E2BIG, "the prompt is %" PRIu64 " bytes; %" PRIu64 " tokens hold at most %" PRIu64, bytes, limit,
                     limit * m->piece_max);
}
