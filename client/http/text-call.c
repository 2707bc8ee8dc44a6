/* SPDX-License-Identifier: MIT */
#include "client/http/text-call.h"
#include "client/http/base64.h"
#include "client/http/daemon-call.h"
#include "client/http/http-reply.h"
#include "client/http/http-routes.h"
#include "client/http/json-body.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <endian.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct text_call *text_call_free(struct text_call *c)
{
    if (!c) return NULL;
    proto_request_fini(&c->request);
    free(c->model);
    buf_fini(&c->out);
    json_decref(c->texts);
    free(c->scores);
    free(c);
    return NULL;
}

/* --- the response --- */

/* With enough digits to give back the float; null if it is not finite. */
static int put_float(struct buf *out, float v)
{
    return isfinite(v) ? buf_printf(out, "%.9g", (double)v) : buf_puts(out, "null");
}

static int put_string(struct buf *out, const char *s, size_t n)
{
    json_auto_t *v = json_stringn(s, n);
    _cleanup_(freep) char *text = v ? json_dumps(v, JSON_ENCODE_ANY) : NULL;
    return text ? buf_puts(out, text) : -ENOMEM;
}

static int put_base64(struct buf *out, const float *v, uint32_t dim)
{
    uint32_t *bits = reallocarray(NULL, dim, sizeof(*bits));
    if (!bits) return -ENOMEM;
    memcpy(bits, v, dim * sizeof(*bits));
    for (uint32_t i = 0; i < dim; i++) bits[i] = htole32(bits[i]);
    int r = buf_puts(out, "\"");
    if (r == 0) r = base64_encode(out, bits, dim * sizeof(*bits));
    free(bits);
    return r < 0 ? r : buf_puts(out, "\"");
}

static int put_list(struct buf *out, const float *v, uint32_t dim)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < dim; i++) {
        r = buf_puts(out, i ? "," : "[");
        if (r == 0) r = put_float(out, v[i]);
    }
    return r < 0 ? r : buf_puts(out, "]");
}

static int put_vectors(struct text_call *c, const struct proto_vectors *v)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < v->n; i++) {
        const float *values = v->values + (size_t)i * v->dim;
        r = buf_printf(&c->out,
                       "%s{\"object\":\"embedding\",\"index\":%" PRIu32 ",\"embedding\":", v->first + i ? "," : "",
                       v->first + i);
        if (r == 0) r = c->base64 ? put_base64(&c->out, values, v->dim) : put_list(&c->out, values, v->dim);
        if (r == 0) r = buf_puts(&c->out, "}");
    }
    return r;
}

struct scored {
    float score;
    uint32_t at;
};

static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    if (x->score > y->score || x->score < y->score) return x->score > y->score ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int put_results(struct text_call *c)
{
    struct scored *list = calloc(c->n, sizeof(*list));
    int r = list ? 0 : -ENOMEM;
    for (uint32_t i = 0; list && i < c->n; i++) list[i] = (struct scored){c->scores[i], i};
    if (list) qsort(list, c->n, sizeof(*list), by_score);
    for (uint32_t i = 0; r == 0 && i < c->n && i < c->top_n; i++) {
        const json_t *text = json_array_get(c->texts, list[i].at);
        r = buf_printf(&c->out, "%s{\"index\":%" PRIu32 ",\"relevance_score\":", i ? "," : "", list[i].at);
        if (r == 0) r = put_float(&c->out, list[i].score);
        if (r == 0 && c->documents) r = buf_puts(&c->out, ",\"document\":{\"text\":");
        if (r == 0 && c->documents) r = put_string(&c->out, json_string_value(text), json_string_length(text));
        if (r == 0) r = buf_puts(&c->out, c->documents ? "}}" : "}");
    }
    free(list);
    return r;
}

/* All texts are done: the end of the response. 0 or -ENOMEM. */
static int finish(struct exchange *x, const struct proto_event *e)
{
    struct text_call *c = x->texts;
    const char *model = c->model ? c->model : "default";
    int r = c->scores ? put_results(c) : 0;
    if (r == 0) r = buf_puts(&c->out, "],\"model\":");
    if (r == 0) r = put_string(&c->out, model, strlen(model));
    if (r == 0)
        r = buf_printf(&c->out, ",\"usage\":{\"prompt_tokens\":%" PRIu64 ",\"total_tokens\":%" PRIu64 "}}",
                       e->usage_prompt, e->usage_prompt);
    if (r == 0) r = buf_append(&x->out, c->out.data, c->out.len);
    if (r == 0) exchange_reply(x, 200, "application/json");
    return r;
}

static int take(struct text_call *c, const struct proto_event *e)
{
    const struct proto_vectors *v = &e->vectors;
    const bool scores = e->type == PROTO_EV_SCORES;
    if (v->first != c->done || v->n > c->n - c->done || scores != !!c->scores) return -EPROTO;
    c->done += v->n;
    if (scores) memcpy(c->scores + v->first, v->values, v->n * sizeof(*v->values));
    return scores ? 0 : put_vectors(c, v);
}

static void on_event(void *ctx, struct proto_event *e, int r)
{
    struct exchange *x = ctx;
    if (e && !x->ended && (e->type == PROTO_EV_EMBEDDINGS || e->type == PROTO_EV_SCORES)) {
        r = take(x->texts, e);
        if (r == 0) return;
    } else {
        if (!daemon_answered(x, e, r, PROTO_EV_DONE)) return;
        r = x->texts->done == x->texts->n ? finish(x, e) : -EPROTO;
        if (r == 0) return;
    }
    x->upstream = upstream_close(x->upstream);
    if (r == -EPROTO)
        fault_set(&x->fault, 502, NULL, "the daemon's answer is not of these texts");
    else
        fault_of_error(&x->fault, error_origin(r));
    exchange_fail(x);
}

/* --- the request --- */

/* Members other than @known (ended by NULL) are refused by their names. */
static int check_members(struct fault *f, const json_t *object, const char *const *known)
{
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)object, name, v)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], name) != 0) i++;
        if (!known[i] && !json_is_null(v)) return fault_set(f, 400, name, "unknown field '%s'", name);
    }
    return 0;
}

/* The text of @v: a string, or an object with the text (@objects). NULL: neither. */
static const json_t *text_of(const json_t *v, bool objects)
{
    if (objects && json_is_object(v)) v = json_object_get(v, "text");
    return json_is_string(v) ? v : NULL;
}

/* The texts of the field @name: @v is one, or a list. */
static int read_texts(struct text_call *c, struct fault *f, const char *name, const json_t *v, bool objects)
{
    const bool list = json_is_array(v);
    const size_t n = list ? json_array_size(v) : 1;
    struct proto_embed *e = &c->request.embed;
    if (!list && (objects || !json_is_string(v)))
        return fault_set(f, 400, name, "'%s' must be %sa list of strings", name, objects ? "" : "a string or ");
    if (!n || n > PROTO_TEXTS_MAX)
        return fault_set(f, 400, name, "'%s' has %zu texts: it must have 1 to %d", name, n, PROTO_TEXTS_MAX);
    e->texts = calloc(n, sizeof(*e->texts));
    c->texts = json_array();
    if (!e->texts || !c->texts) return fault_of_error(f, error_origin(-ENOMEM));
    for (size_t i = 0; i < n; i++) {
        const json_t *item = list ? json_array_get(v, i) : v, *t = text_of(item, objects);
        if (!t && (json_is_integer(item) || json_is_array(item)))
            return fault_set(f, 400, name, "'%s' must be text: lists of token ids are not supported", name);
        if (!t) return fault_set(f, 400, name, "'%s[%zu]' must be a string", name, i);
        int r = proto_text_set(&e->texts[i], json_string_value(t), json_string_length(t));
        if (r == 0 && objects) r = json_array_append(c->texts, (json_t *)t) < 0 ? -ENOMEM : 0;
        if (r < 0) return fault_of_error(f, error_origin(r));
        e->n_texts++;
    }
    c->n = (uint32_t)n;
    return 0;
}

/* A whole number from 1 to @most; missing or null: *out stays. */
static int read_count(struct fault *f, const json_t *object, const char *name, json_int_t most, uint32_t *out)
{
    const json_t *v = json_object_get(object, name);
    if (!v || json_is_null(v)) return 0;
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > most)
        return fault_set(f, 400, name, "'%s' must be a whole number from 1 to %lld", name, (long long)most);
    *out = (uint32_t)json_integer_value(v);
    return 0;
}

static int read_model(struct text_call *c, struct fault *f, const json_t *object)
{
    const json_t *model = json_object_get(object, "model");
    if (!model || json_is_null(model)) return 0;
    if (!json_is_string(model)) return fault_set(f, 400, "model", "'model' must be a string");
    c->model = strdup(json_string_value(model));
    return c->model ? 0 : fault_of_error(f, error_origin(-ENOMEM));
}

static int read_embeddings(struct text_call *c, struct fault *f, const json_t *object)
{
    static const char *const known[] = {"model", "input", "encoding_format", "dimensions", "user", NULL};
    const json_t *form = json_object_get(object, "encoding_format");
    const char *name = json_string_value(form);
    int r = check_members(f, object, known);
    if (r == 0) r = read_model(c, f, object);
    if (r == 0) r = read_count(f, object, "dimensions", PROTO_DIMS_MAX, &c->request.embed.dims);
    if (r < 0) return r;
    if (form && !json_is_null(form) && (!name || (strcmp(name, "float") != 0 && strcmp(name, "base64") != 0)))
        return fault_set(f, 400, "encoding_format", "'encoding_format' must be \"float\" or \"base64\"");
    c->base64 = name && strcmp(name, "base64") == 0;
    c->request.type = PROTO_EMBED;
    r = read_texts(c, f, "input", json_object_get(object, "input"), false);
    return r < 0 ? r : buf_puts(&c->out, "{\"object\":\"list\",\"data\":[");
}

static int read_rerank(struct text_call *c, struct fault *f, const json_t *object)
{
    static const char *const known[] = {"model", "query", "documents", "top_n", "return_documents", "user", NULL};
    const json_t *query = json_object_get(object, "query"), *with = json_object_get(object, "return_documents");
    struct proto_embed *e = &c->request.embed;
    c->top_n = UINT32_MAX;
    int r = check_members(f, object, known);
    if (r == 0) r = read_model(c, f, object);
    if (r == 0) r = read_count(f, object, "top_n", PROTO_TEXTS_MAX, &c->top_n);
    if (r < 0) return r;
    if (with && !json_is_null(with) && !json_is_boolean(with))
        return fault_set(f, 400, "return_documents", "'return_documents' must be true or false");
    if (!json_is_string(query) || !json_string_length(query))
        return fault_set(f, 400, "query", "'query' must be a string that is not empty");
    c->documents = json_is_true(with);
    c->request.type = PROTO_RANK;
    r = read_texts(c, f, "documents", json_object_get(object, "documents"), true);
    if (r < 0) return r;
    e->question = calloc(1, sizeof(*e->question));
    c->scores = calloc(c->n, sizeof(*c->scores));
    if (!e->question || !c->scores ||
        proto_text_set(e->question, json_string_value(query), json_string_length(query)) < 0)
        return fault_of_error(f, error_origin(-ENOMEM));
    return buf_puts(&c->out, "{\"object\":\"list\",\"results\":[");
}

static int call(struct exchange *x, int (*read)(struct text_call *c, struct fault *f, const json_t *object))
{
    json_t *object;
    int r = json_body_read(&object, &x->body, &x->fault);
    if (r < 0) return r;
    struct text_call *c = x->texts = calloc(1, sizeof(*c));
    if (c) proto_generate_init(&c->request.gen);
    r = c ? read(c, &x->fault, object) : -ENOMEM;
    json_decref(object);
    if (r < 0) return x->fault.status ? r : fault_of_error(&x->fault, error_origin(r));
    return daemon_call(x, c->model, &c->request, on_event);
}

int route_embeddings(struct exchange *x)
{
    return call(x, read_embeddings);
}

int route_rerank(struct exchange *x)
{
    return call(x, read_rerank);
}
