/* SPDX-License-Identifier: MIT */
#include "client/constraint-read.h"
#include "client/input.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

/* A schema is JSON rather than a path: an object, true or false. */
static bool is_json(const char *s)
{
    return s[strspn(s, " \t\r\n")] == '{' || strcmp(s, "true") == 0 || strcmp(s, "false") == 0;
}

/* The file's text; @option: its name in the error message. */
static int read_file(struct proto_text *to, const char *option, const char *path)
{
    struct buf text = BUF_INIT;
    int r = input_whole(&text, path, -1);
    if (r == 0 && text.len == 0) r = error_say(-EINVAL, "%s is empty", path);
    if (r == 0 && text.len > PROTO_CONSTRAINT_MAX)
        r = error_say(-EMSGSIZE, "%s has %zu bytes, the limit is %u", path, text.len, PROTO_CONSTRAINT_MAX);
    if (r == 0)
        to->data = buf_steal(&text, &to->len);
    else
        r = error_in(r, "--%s", option);
    buf_fini(&text);
    return r;
}

static int copy_choices(struct proto_constraint *c, const struct option_constraint *o)
{
    int r = 0;
    c->choices = calloc(o->n_choices, sizeof(*c->choices));
    if (!c->choices) return -ENOMEM;
    for (; r == 0 && c->n_choices < o->n_choices; c->n_choices++) {
        const char *s = o->choices[c->n_choices];
        r = proto_text_set(&c->choices[c->n_choices], s, strlen(s));
    }
    return r;
}

int constraint_read(struct proto_request *r, const struct options *o)
{
    const struct option_constraint *given = &o->constraint;
    struct proto_constraint *c = &r->constraint;
    c->on_limit = given->on_limit;
    if (given->schema) {
        c->type = PROTO_CONSTRAINT_SCHEMA;
        c->schema_lenient = given->schema_lenient;
        c->any_order = given->any_order;
        c->compact = given->compact;
        if (is_json(given->schema)) return proto_text_set(&c->text, given->schema, strlen(given->schema));
        return read_file(&c->text, "schema", given->schema);
    }
    if (given->grammar) {
        c->type = PROTO_CONSTRAINT_GRAMMAR;
        return read_file(&c->text, "grammar", given->grammar);
    }
    if (given->regex) {
        c->type = PROTO_CONSTRAINT_REGEX;
        return proto_text_set(&c->text, given->regex, strlen(given->regex));
    }
    if (given->n_choices == 0) return 0;
    c->type = PROTO_CONSTRAINT_CHOICE;
    return copy_choices(c, given);
}
