/* SPDX-License-Identifier: MIT */
#pragma once
/* Reads the fields of a request's JSON object by tables. A field that no table has is refused by its name: an option
 * that changes nothing would surprise its sender. */
#include "client/http/completion.h"
#include <jansson.h>
#include <stddef.h>

struct field {
    const char *name;
    /* Read @v, which is not null. 0; negative with the fault. */
    int (*read)(struct completion *c, const struct field *f, const json_t *v);
    size_t at; /* for numbers: the offset of the value in struct proto_generate */
};

/* Read the members of @object by @tables (ended by NULL), each ended by a field without a name. A null counts as
 * missing. 0; negative with the fault of @c's exchange. */
int fields_read(struct completion *c, const json_t *object, const struct field *const *tables);

/* hob's own fields and those that the APIs share: model, stream, sampling, sessions, priority, timeout. */
extern const struct field fields_common[];

/* Values of struct field.read. */
int field_ignore(struct completion *c, const struct field *f, const json_t *v);     /* changes no answer */
int field_refuse(struct completion *c, const struct field *f, const json_t *v);     /* false, 0, "" and {} are fine */
int field_float(struct completion *c, const struct field *f, const json_t *v);      /* float */
int field_int(struct completion *c, const struct field *f, const json_t *v);        /* int64_t, 0 or more */
int field_count(struct completion *c, const struct field *f, const json_t *v);      /* int64_t, 1 or more */
int field_bool(struct completion *c, const struct field *f, const json_t *v);       /* bool */
int field_text(struct completion *c, const struct field *f, const json_t *v);       /* struct proto_text */
int field_stop(struct completion *c, const struct field *f, const json_t *v);       /* a string or a list of them */
int field_logit_bias(struct completion *c, const struct field *f, const json_t *v); /* {"TOKEN": BIAS} */
int field_format(struct completion *c, const struct field *f, const json_t *v);     /* response_format */
int field_set_schema(struct completion *c, const json_t *schema);                   /* of the whole answer */
int field_stream_options(struct completion *c, const struct field *f, const json_t *v);
int field_effort(struct completion *c, const struct field *f, const json_t *v); /* of the thinking */
int field_budget(struct completion *c, const struct field *f, const json_t *v); /* tokens of the thinking */
int field_n(struct completion *c, const struct field *f, const json_t *v);

/* Set the fault "NAME must be KIND" and return negative. */
int field_wrong(struct completion *c, const struct field *f, const char *kind);
