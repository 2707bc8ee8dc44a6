/* SPDX-License-Identifier: MIT */
/* The key `constraint` of a request. */
#include "libcommon/proto-read.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

static int read_type(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                     const struct field *f)
{
    for (int t = PROTO_CONSTRAINT_SCHEMA; t <= PROTO_CONSTRAINT_CHOICE; t++)
        if (proto_is(o, proto_constraint_name((enum proto_constraint_type)t))) {
            *(enum proto_constraint_type *)at = (enum proto_constraint_type)t;
            return 0;
        }
    return proto_bad(where, "must be schema, grammar, regex or choice");
}

static int read_choices(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                        const struct field *f)
{
    static const struct field each = {.lo = 1, .hi = PROTO_CONSTRAINT_MAX};
    struct proto_constraint *c = at;
    size_t n = o->type == MSGPACK_OBJECT_ARRAY ? o->via.array.size : 0;
    int r = 0;
    if (o->type != MSGPACK_OBJECT_ARRAY || !n) return proto_bad(where, "must be a list of one or more strings");
    if (n > PROTO_CHOICES_MAX) return proto_bad(where, "has %zu strings, the limit is %d", n, PROTO_CHOICES_MAX);
    c->choices = calloc(n, sizeof(*c->choices));
    if (!c->choices) return -ENOMEM;
    c->n_choices = n;
    in->bytes += n * sizeof(*c->choices);
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct place inside = {where, NULL, i};

        r = proto_read_text(in, &inside, &o->via.array.ptr[i], &c->choices[i], &each);
    }
    return r;
}

int proto_read_constraint(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                          const struct field *f)
{
    static const struct field fields[] = {
        {.key = "type", .read = read_type, .offset = offsetof(struct proto_constraint, type), .required = true},
        {.key = "text",
         .read = proto_read_text,
         .offset = offsetof(struct proto_constraint, text),
         .lo = 1,
         .hi = PROTO_CONSTRAINT_MAX},
        {.key = "choices", .read = read_choices},
    };
    struct proto_constraint *c = at;
    if (o->type != MSGPACK_OBJECT_MAP) return proto_bad(where, "must be a map");
    int r = proto_read_map(in, where, o, fields, sizeof(fields) / sizeof(*fields), c);
    if (r < 0) return r;
    bool choice = c->type == PROTO_CONSTRAINT_CHOICE;
    if (choice ? !c->choices : !c->text.len) return proto_bad(where, "missing key '%s'", choice ? "choices" : "text");
    if (choice ? c->text.len > 0 : c->choices != NULL)
        return proto_bad(where, "'%s' cannot be used with type '%s'", choice ? "text" : "choices",
                         proto_constraint_name(c->type));
    return 0;
}

int proto_read_on_limit(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                        const struct field *f)
{
    for (int l = PROTO_LIMIT_CLOSE; l <= PROTO_LIMIT_CUT; l++)
        if (proto_is(o, proto_on_limit_name((enum proto_on_limit)l))) {
            *(enum proto_on_limit *)at = (enum proto_on_limit)l;
            return 0;
        }
    return proto_bad(where, "must be close or cut");
}

int proto_check_constraint(const struct place *where, const struct proto_constraint *c)
{
    const char *option = c->schema_lenient ? "schema_lenient"
                         : c->any_order    ? "any_order"
                         : c->compact      ? "compact"
                                           : NULL;
    if (c->on_limit && !c->type) return proto_bad(where, "on_limit needs constraint");
    if (option && c->type != PROTO_CONSTRAINT_SCHEMA)
        return proto_bad(where, "%s needs a constraint of type schema", option);
    return 0;
}
