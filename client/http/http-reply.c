/* SPDX-License-Identifier: MIT */
#include "client/http/http-reply.h"
#include "libcommon/error.h"
#include "libcommon/json-whole.h"

int reply_put_json(struct buf *out, json_t *json)
{
    return json_whole_put(out, json) < 0 ? error_say(-ENOMEM, "no memory for an answer") : 0;
}

int reply_put_event(struct buf *out, const char *name, json_t *json)
{
    int r = name ? buf_printf(out, "event: %s\n", name) : 0;
    if (r == 0) r = buf_puts(out, "data: ");
    if (r < 0) {
        json_decref(json);
        return error_origin(r);
    }
    r = reply_put_json(out, json);
    return r == 0 ? buf_puts(out, "\n\n") : r;
}

static const char *openai_type(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 429:
        return "rate_limit_error";
    case 408:
        return "timeout_error";
    default:
        return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

static const char *anthropic_type(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 408:
        return "timeout_error";
    case 413:
        return "request_too_large";
    case 429:
        return "rate_limit_error";
    case 503:
        return "overloaded_error";
    default:
        return status >= 500 ? "api_error" : "invalid_request_error";
    }
}

json_t *reply_fault(enum api api, const struct fault *f)
{
    if (api == API_ANTHROPIC)
        return json_pack("{s:s, s:{s:s, s:s}}", "type", "error", "error", "type", anthropic_type(f->status), "message",
                         f->message);
    return json_pack("{s:{s:s, s:s, s:s?, s:s?}}", "error", "message", f->message, "type", openai_type(f->status),
                     "param", *f->param ? f->param : NULL, "code", f->code);
}

int reply_put_fault(struct buf *out, enum api api, const struct fault *f)
{
    return reply_put_json(out, reply_fault(api, f));
}

int reply_json(struct exchange *x, json_t *json)
{
    int r = reply_put_json(&x->out, json);
    if (r < 0) return fault_of_error(&x->fault, r);
    exchange_reply(x, 200, "application/json");
    return 0;
}
