/* SPDX-License-Identifier: MIT */
/* POST /infill: the text between two texts, as in llama-server. */
#include "client/http/fields.h"
#include "client/http/http-reply.h"
#include "client/http/http-routes.h"
#include "client/http/json-body.h"
#include "libcommon/error.h"
#include <string.h>

/* Text of other files, in front of the prefix; the form is llama-server's for models without tokens for it. */
#define SNIPPET "\n\n--- snippet ---\n\n"

static json_t *piece_of(const struct completion *c, uint32_t index, json_t *content, bool stop)
{
    return json_pack("{s:I, s:o, s:s, s:b}", "index", (json_int_t)index, "content", content, "model",
                     completion_model(c), "stop", stop);
}

static json_t *end_of(const struct completion *c, uint32_t index, json_t *content)
{
    enum proto_reason reason = c->choices[index].reason;
    bool cut = reason == PROTO_STOP_LENGTH || reason == PROTO_STOP_CONTEXT;
    json_t *o = piece_of(c, index, content, true);
    json_object_update_new(o, json_pack("{s:I, s:I, s:I, s:s, s:b}", "tokens_predicted", (json_int_t)c->completed,
                                        "tokens_evaluated", (json_int_t)c->prompt, "tokens_cached",
                                        (json_int_t)c->cached, "stop_type", cut ? "limit" : "eos", "truncated", false));
    return o;
}

static int put_text(struct completion *c, struct buf *out, const struct proto_event *e)
{
    return reply_put_event(out, NULL, piece_of(c, e->index, json_stringn(e->text.data, e->text.len), false));
}

static int put_end(struct completion *c, struct buf *out, uint32_t index)
{
    return reply_put_event(out, NULL, end_of(c, index, json_string("")));
}

static int put_close(struct completion *c, struct buf *out)
{
    return 0;
}

static int put_whole(struct completion *c, struct buf *out)
{
    const struct buf *text = &c->choices[0].text;
    return reply_put_json(out, end_of(c, 0, json_stringn(text->data ? text->data : "", text->len)));
}

static const struct completion_format format = {
    .api = API_OPENAI,
    .id_prefix = "infill-",
    .text = put_text,
    .end = put_end,
    .close = put_close,
    .whole = put_whole,
    .ping = ": ping\n\n",
};

/* -1: no limit, which is hobd's default. */
static int read_predict(struct completion *c, const struct field *f, const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) == -1 ? 0 : field_count(c, f, v);
}

static int read_extra(struct completion *c, const struct field *f, const json_t *v)
{
    struct buf b = BUF_INIT;
    size_t i;
    json_t *one;
    int r = 0;
    if (!json_is_array(v)) return field_wrong(c, f, "a list of objects with a text");
    json_array_foreach((json_t *)v, i, one)
    {
        const char *text = json_string_value(json_object_get(one, "text"));
        if (!text) {
            buf_fini(&b);
            return field_wrong(c, f, "a list of objects with a text");
        }
        if (r == 0) r = buf_puts(&b, SNIPPET);
        if (r == 0) r = buf_puts(&b, text);
    }
    if (r < 0) {
        buf_fini(&b);
        return fault_of_error(&c->exchange->fault, error_origin(r));
    }
    proto_text_fini(&c->echo);
    c->echo.data = buf_steal(&b, &c->echo.len);
    return 0;
}

#define AT(member) offsetof(struct proto_generate, member)

/* The order of samplers is hobd's own. Limits of time and of indentation only make an answer shorter. */
static const struct field fields[] = {
    {"input_prefix", field_text, AT(infill.prefix)},
    {"input_suffix", field_text, AT(infill.suffix)},
    {"input_extra", read_extra, 0},
    {"max_lines", field_count, AT(infill.max_lines)},
    {"prompt", field_refuse, 0},
    {"n_predict", read_predict, AT(max_tokens)},
    {"stop", field_stop, 0},
    {"frequency_penalty", field_float, AT(sampling.frequency_penalty)},
    {"presence_penalty", field_float, AT(sampling.presence_penalty)},
    {"samplers", field_ignore, 0},
    {"response_fields", field_ignore, 0},
    {"id_slot", field_ignore, 0},
    {"n_indent", field_ignore, 0},
    {"t_max_prompt_ms", field_ignore, 0},
    {"t_max_predict_ms", field_ignore, 0},
    {0},
};

/* Put the text of other files in front of the prefix. */
static int join_extra(struct completion *c)
{
    struct proto_text *prefix = &c->request.gen.infill.prefix;
    struct buf b = BUF_INIT;
    if (c->echo.len == 0) return 0;
    int r = buf_append(&b, c->echo.data, c->echo.len);
    if (r == 0) r = buf_puts(&b, SNIPPET);
    if (r == 0) r = buf_append(&b, prefix->data ? prefix->data : "", prefix->len);
    if (r < 0) {
        buf_fini(&b);
        return fault_of_error(&c->exchange->fault, error_origin(r));
    }
    proto_text_fini(prefix);
    proto_text_fini(&c->echo);
    prefix->data = buf_steal(&b, &prefix->len);
    return 0;
}

int route_infill(struct exchange *x)
{
    const struct field *const tables[] = {fields, fields_common, NULL};
    struct completion *c = completion_new(x, &format);
    json_t *object = NULL;
    int r = c ? json_body_read(&object, &x->body, &x->fault) : -ENOMEM;
    if (r == 0) r = fields_read(c, object, tables);
    json_decref(object);
    if (r == 0) r = join_extra(c);
    if (r < 0) return r;
    c->request.type = PROTO_INFILL;
    return completion_start(c);
}
