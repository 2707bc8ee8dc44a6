/* SPDX-License-Identifier: MIT */
/* Requests for the tokens of a text. */
#include "daemon/request/finish.h"
#include "daemon/request/prepare.h"
#include "daemon/request/request-job.h"
#include "daemon/request/types.h"
#include "libcommon/error.h"

static int begin(struct request *r)
{
    (void)r;
    return 0;
}

static int work(struct request *r)
{
    int result = prepare_tokens(&r->tokens, &r->core->model, &r->proto.text, r->proto.special);
    proto_text_fini(&r->proto.text); /* it may be large: freeing takes time, which the engine's thread has not */
    return result;
}

static void finish(struct request *r, int result)
{
    if (result < 0) {
        answer_fail(r, NULL, result, request_job_error(r));
        return;
    }
    r->end = (struct proto_event){.type = PROTO_EV_TOKENS, .ids = r->tokens.ids, .n_ids = r->tokens.n};
    r->tokens.ids = NULL; /* the event's now */
    request_end(r, NULL);
}

const struct request_type request_tokenize = {.proto = PROTO_TOKENIZE, .begin = begin, .work = work, .finish = finish};
