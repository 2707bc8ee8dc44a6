/* SPDX-License-Identifier: MIT */
#include "daemon/text/template/jinja-str.h"
#include "daemon/text/template/jinja-value.h"

static int from_object(struct jj *j, const json_t *json, bool markup, struct jj_value *out)
{
    struct jj_dict *d = jj_dict_new(j);
    if (!d) return j->err;
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)json, key, v)
    {
        struct jj_value item;
        const struct jj_str *k = jj_str_view(j, key, strlen(key), markup);
        int r = k ? jj_from_json(j, v, markup, &item) : j->err;
        if (r == 0) r = jj_dict_set(j, d, jj_string(k), item);
        if (r < 0) return r;
    }
    *out = jj_mapping(d);
    return 0;
}

static int from_array(struct jj *j, const json_t *json, bool markup, struct jj_value *out)
{
    struct jj_seq *q = jj_seq_new(j, JJ_LIST, json_array_size(json));
    if (!q) return j->err;
    for (size_t i = 0; i < json_array_size(json); i++) {
        int r = jj_from_json(j, json_array_get(json, i), markup, &q->v[i]);
        if (r < 0) return r;
        q->n++;
    }
    *out = jj_sequence(q);
    return 0;
}

int jj_from_json(struct jj *j, const json_t *json, bool markup, struct jj_value *out)
{
    int r = jj_enter(j);
    if (r < 0) return r;
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        r = from_object(j, json, markup, out);
        break;
    case JSON_ARRAY:
        r = from_array(j, json, markup, out);
        break;
    case JSON_STRING: {
        const struct jj_str *s = jj_str_view(j, json_string_value(json), json_string_length(json), markup);
        r = s ? 0 : j->err;
        *out = jj_string(s);
        break;
    }
    case JSON_INTEGER:
        *out = jj_int(json_integer_value(json));
        break;
    case JSON_REAL:
        *out = jj_float(json_real_value(json));
        break;
    case JSON_NULL:
        *out = jj_none();
        break;
    default:
        *out = jj_bool(json_is_true(json));
        break;
    }
    if (r == 0) out->data = !markup;
    jj_leave(j);
    return r;
}
