/* SPDX-License-Identifier: MIT */
/* POST /tokenize: the tokens of a text, as in llama-server. */
#include "client/http/fields.h"
#include "client/http/http-reply.h"
#include "client/http/http-routes.h"
#include "client/http/json-body.h"
#include "client/http/model-list.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/json-whole.h"

static json_t *list_of(const struct proto_event *e)
{
    json_t *list = json_array();
    for (size_t i = 0; i < e->tokens.n; i++) json_whole_append(list, json_integer(e->tokens.ids[i]));
    return list;
}

static void on_event(void *ctx, struct proto_event *e, int r)
{
    struct exchange *x = ctx;
    if (x->ended || (e && e->type != PROTO_EV_TOKENS && e->type != PROTO_EV_ERROR)) return;
    x->upstream = upstream_close(x->upstream);
    if (!e)
        r = fault_set(&x->fault, 503, NULL, "%s", error_text(r));
    else if (e->type == PROTO_EV_ERROR)
        r = fault_of_event(&x->fault, e->code, e->message.data);
    else
        r = reply_json(x, json_pack("{s:o}", "tokens", list_of(e)));
    if (r < 0) exchange_fail(x);
}

/* Nothing is added to the tokens of the text. */
static int start(struct exchange *x, const json_t *object)
{
    const json_t *text = json_object_get(object, "content"), *model = json_object_get(object, "model");
    const char *unknown[] = {"add_special", "with_pieces"};
    struct proto_request q = {.type = PROTO_TOKENIZE, .id = 1};
    _cleanup_(freep) char *path = NULL;
    if (!json_is_string(text)) return fault_set(&x->fault, 400, "content", "'content' must be a string");
    for (unsigned i = 0; i < 2; i++)
        if (json_is_true(json_object_get(object, unknown[i])))
            return fault_set(&x->fault, 400, unknown[i], "'%s' is not supported", unknown[i]);
    q.special = json_is_true(json_object_get(object, "parse_special"));
    int r = model_find(x->gateway->options, json_string_value(model), &path, &x->fault);
    if (r < 0) return r;
    r = proto_text_set(&q.text, json_string_value(text), json_string_length(text));
    if (r == 0) r = upstream_open(&x->upstream, x->gateway->event, path, exchange_user(x), &q, on_event, x);
    proto_request_fini(&q);
    if (r == -ENOENT || r == -EAGAIN) return fault_set(&x->fault, 503, NULL, "%s", error_text(r));
    return r < 0 ? fault_of_error(&x->fault, r) : 0;
}

int route_tokenize(struct exchange *x)
{
    json_t *object;
    int r = json_body_read(&object, &x->body, &x->fault);
    if (r == 0) r = start(x, object);
    json_decref(object);
    return r;
}
