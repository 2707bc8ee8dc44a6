/* SPDX-License-Identifier: MIT */
#include "client/http/fields.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include <stdlib.h>
#include <string.h>

int field_wrong(struct completion *c, const struct field *f, const char *kind)
{
    return fault_set(&c->exchange->fault, 400, f->name, "'%s' must be %s", f->name, kind);
}

static int no_memory(struct completion *c)
{
    return fault_of_error(&c->exchange->fault, error_origin(-ENOMEM));
}

static const struct field *find(const struct field *const *tables, const char *name)
{
    for (; *tables; tables++)
        for (const struct field *f = *tables; f->name; f++)
            if (strcmp(f->name, name) == 0) return f;
    return NULL;
}

int fields_read(struct completion *c, const json_t *object, const struct field *const *tables)
{
    const char *name;
    json_t *v;
    int r = 0;
    json_object_foreach((json_t *)object, name, v)
    {
        const struct field *f = find(tables, name);
        if (json_is_null(v)) continue;
        if (!f) return fault_set(&c->exchange->fault, 400, name, "unknown field '%s'", name);
        r = f->read(c, f, v);
        if (r < 0) return r;
    }
    return 0;
}

static void *value_at(struct completion *c, const struct field *f)
{
    return (char *)&c->request.gen + f->at;
}

int field_ignore(struct completion *c, const struct field *f, const json_t *v)
{
    return 0;
}

int field_refuse(struct completion *c, const struct field *f, const json_t *v)
{
    if (json_is_false(v) || (json_is_number(v) && json_number_value(v) == 0)) return 0;
    if (json_is_string(v) && json_string_length(v) == 0) return 0;
    if ((json_is_array(v) && json_array_size(v) == 0) || (json_is_object(v) && json_object_size(v) == 0)) return 0;
    fault_set(&c->exchange->fault, 400, f->name, "'%s' is not supported", f->name);
    c->exchange->fault.code = "unsupported_parameter";
    return -EINVAL;
}

int field_float(struct completion *c, const struct field *f, const json_t *v)
{
    if (!json_is_number(v)) return field_wrong(c, f, "a number");
    *(float *)value_at(c, f) = (float)json_number_value(v);
    return 0;
}

int field_int(struct completion *c, const struct field *f, const json_t *v)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0) return field_wrong(c, f, "an integer, 0 or more");
    *(int64_t *)value_at(c, f) = json_integer_value(v);
    return 0;
}

int field_count(struct completion *c, const struct field *f, const json_t *v)
{
    if (!json_is_integer(v) || json_integer_value(v) < 1) return field_wrong(c, f, "an integer, 1 or more");
    return field_int(c, f, v);
}

int field_bool(struct completion *c, const struct field *f, const json_t *v)
{
    if (!json_is_boolean(v)) return field_wrong(c, f, "true or false");
    *(bool *)value_at(c, f) = json_is_true(v);
    return 0;
}

int field_text(struct completion *c, const struct field *f, const json_t *v)
{
    struct proto_text *t = value_at(c, f);
    if (!json_is_string(v)) return field_wrong(c, f, "a string");
    proto_text_fini(t);
    return proto_text_set(t, json_string_value(v), json_string_length(v)) < 0 ? no_memory(c) : 0;
}

int field_n(struct completion *c, const struct field *f, const json_t *v)
{
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > PROTO_ANSWERS_MAX)
        return field_wrong(c, f, "an integer from 1 to 32");
    c->n = (uint32_t)json_integer_value(v);
    return 0;
}

static int add_stop(struct completion *c, const struct field *f, const json_t *v)
{
    struct proto_generate *g = &c->request.gen;
    if (!json_is_string(v) || json_string_length(v) == 0) return field_wrong(c, f, "a string, or a list of strings");
    if (g->n_stop == PROTO_STOPS_MAX) return field_wrong(c, f, "a list of at most 16 strings");
    if (proto_text_set(&g->stop[g->n_stop], json_string_value(v), json_string_length(v)) < 0) return no_memory(c);
    g->n_stop++;
    return 0;
}

int field_stop(struct completion *c, const struct field *f, const json_t *v)
{
    size_t i;
    json_t *one;
    if (!json_is_array(v)) return add_stop(c, f, v);
    json_array_foreach((json_t *)v, i, one)
    {
        int r = add_stop(c, f, one);
        if (r < 0) return r;
    }
    return 0;
}

int field_logit_bias(struct completion *c, const struct field *f, const json_t *v)
{
    struct proto_generate *g = &c->request.gen;
    const char *token;
    json_t *bias;
    size_t n = json_object_size(v);
    if (!json_is_object(v)) return field_wrong(c, f, "an object");
    if (n > PROTO_BIASES_MAX) return field_wrong(c, f, "an object with at most 10000 members");
    free(g->biases); /* two names of one field */
    g->n_biases = 0;
    g->biases = calloc(n + 1, sizeof(*g->biases));
    if (!g->biases) return no_memory(c);
    json_object_foreach((json_t *)v, token, bias)
    {
        uint64_t id;
        if (parse_u64(token, 0, INT32_MAX, &id) < 0 || !json_is_number(bias))
            return field_wrong(c, f, "an object of token ids and numbers");
        g->biases[g->n_biases++] = (struct proto_bias){.id = (int64_t)id, .bias = (float)json_number_value(bias)};
    }
    return 0;
}

static int set_constraint(struct completion *c, enum proto_constraint_type type, char *text)
{
    struct proto_constraint *k = &c->request.constraint;
    if (!text) return no_memory(c);
    proto_text_fini(&k->text);
    k->type = type;
    k->text = (struct proto_text){text, strlen(text)};
    return 0;
}

int field_set_schema(struct completion *c, const json_t *schema)
{
    return set_constraint(c, PROTO_CONSTRAINT_SCHEMA, json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY));
}

int field_format(struct completion *c, const struct field *f, const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    const json_t *schema = json_object_get(json_object_get(v, "json_schema"), "schema");
    if (type && strcmp(type, "text") == 0) return 0;
    if (type && strcmp(type, "json_object") == 0)
        return set_constraint(c, PROTO_CONSTRAINT_SCHEMA, strdup("{\"type\":\"object\"}"));
    if (!type || strcmp(type, "json_schema") != 0)
        return field_wrong(c, f, "an object of the type text, json_object or json_schema");
    if (!schema) return field_wrong(c, f, "an object with json_schema.schema");
    return field_set_schema(c, schema);
}

int field_stream_options(struct completion *c, const struct field *f, const json_t *v)
{
    static const char *const known[] = {"include_usage", "include_obfuscation"};
    const char *name;
    json_t *value;
    if (!json_is_object(v)) return field_wrong(c, f, "an object");
    json_object_foreach((json_t *)v, name, value)
    {
        if (strcmp(name, known[0]) != 0 && strcmp(name, known[1]) != 0)
            return fault_set(&c->exchange->fault, 400, f->name, "unknown field '%s' of '%s'", name, f->name);
    }
    c->include_usage = json_is_true(json_object_get(v, known[0]));
    return 0;
}
