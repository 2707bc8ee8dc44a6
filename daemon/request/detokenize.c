/* SPDX-License-Identifier: MIT */
/* Requests for the text of tokens. */
#include "daemon/request/finish.h"
#include "daemon/request/request-job.h"
#include "daemon/request/types.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/frame.h"

static int begin(struct request *r)
{
    (void)r;
    return 0;
}

/* Append the text of token @id; of a control token only if it is @special. */
static int push(struct buf *out, struct detok *d, const struct tokenizer *t, int32_t id, bool special)
{
    size_t len;
    if (!special || !tokenizer_is_control(t, id)) return detok_push(d, t, id, out);
    const char *piece = tokenizer_piece(t, id, &len);
    int r = detok_flush(d, out);
    return r < 0 ? r : buf_append(out, piece, len);
}

static int decode(struct buf *out, const struct tokenizer *t, const struct proto_request *q)
{
    struct detok d = {.at_start = true};
    for (size_t i = 0; i < q->n_ids; i++) {
        if ((size_t)q->ids[i] >= tokenizer_vocab(t))
            return error_say(-EINVAL, "ids[%zu]: no token %d: the model has %zu", i, (int)q->ids[i],
                             tokenizer_vocab(t));
        int r = push(out, &d, t, q->ids[i], q->special);
        if (r == 0 && out->len > FRAME_MAX / 2)
            r = error_say(-E2BIG, "the text is longer than %u bytes", FRAME_MAX / 2);
        if (r < 0) return r;
    }
    return detok_flush(&d, out);
}

static int work(struct request *r)
{
    _cleanup_(buf_fini) struct buf out = BUF_INIT;
    int result = decode(&out, r->core->model.tokenizer, &r->proto);
    if (result < 0) return result;
    proto_text_fini(&r->proto.text);
    r->proto.text.data = buf_steal(&out, &r->proto.text.len);
    return 0;
}

static void finish(struct request *r, int result)
{
    if (result < 0) {
        answer_fail(r, NULL, result, request_job_error(r));
        return;
    }
    r->end = (struct proto_event){.type = PROTO_EV_DETOKENIZED, .text = r->proto.text};
    r->proto.text = (struct proto_text){0}; /* the event's now */
    request_end(r, NULL);
}

const struct request_type request_detokenize = {
    .proto = PROTO_DETOKENIZE, .begin = begin, .work = work, .finish = finish};
