/* SPDX-License-Identifier: MIT */
/* Requests for the tokens of a text. */
#include "daemon/request/finish.h"
#include "daemon/request/request-job.h"
#include "daemon/request/types.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <inttypes.h>

static int begin(struct request *r)
{
    (void)r;
    return 0;
}

static int encode(struct tokens *out, const struct loaded *m, const struct proto_text *text, bool special)
{
    _cleanup_(text_fini) struct text t = {0};
    /* No reply can hold what a longer one would give: not worth the time. */
    uint64_t most = (uint64_t)PROTO_ELEMS_MAX * m->piece_max;
    if (text->len > most)
        return error_say(-E2BIG, "the text is %zu bytes; the %u ids of a reply stand for at most %" PRIu64, text->len,
                         PROTO_ELEMS_MAX, most);
    if (text_append(&t, text->data ? text->data : "", text->len, special) < 0) return -ENOMEM;
    int r = tokenizer_encode(m->tokenizer, &t, 0, true, out);
    return r == -EILSEQ ? error_in(r, "the text") : r;
}

static int work(struct request *r)
{
    int result = encode(&r->tokens, &r->core->model, &r->proto.text, r->proto.special);
    proto_text_fini(&r->proto.text); /* it may be large: freeing takes time, which the engine's thread has not */
    return result;
}

static void finish(struct request *r, int result)
{
    if (result < 0) {
        answer_fail(r, NULL, result, request_job_error(r));
        return;
    }
    r->end = (struct proto_event){.type = PROTO_EV_TOKENS, .tokens.ids = r->tokens.ids, .tokens.n = r->tokens.n};
    r->tokens.ids = NULL; /* the event's now */
    request_end(r, NULL);
}

const struct request_type request_tokenize = {.proto = PROTO_TOKENIZE, .begin = begin, .work = work, .finish = finish};
