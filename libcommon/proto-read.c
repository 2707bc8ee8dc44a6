/* SPDX-License-Identifier: MIT */
#include "libcommon/proto-read.h"
#include "libcommon/conf.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <assert.h>
#include <stdarg.h>
#include <string.h>

/* "messages[0].content"; the message's type when that is all there is. */
static void format_place(char *out, size_t n, const struct place *where)
{
    *out = 0;
    if (!where->up) {
        snprintf(out, n, "%s", where->key);
        return;
    }
    if (where->up->up) format_place(out, n, where->up);
    size_t used = strlen(out);
    if (where->key)
        snprintf(out + used, n - used, "%s%s", used ? "." : "", where->key);
    else
        snprintf(out + used, n - used, "[%zu]", where->index);
}

int proto_bad(const struct place *where, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char text[256];
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    char place[96];
    format_place(place, sizeof(place), where);
    return error_say(-EINVAL, "%s: %s", place, text);
}

const char *proto_printable(char out[64], const char *s, size_t n)
{
    size_t len = n <= 40 ? n : utf8_whole(s, 40);
    for (size_t i = 0; i < len; i++) out[i] = (unsigned char)s[i] < ' ' || s[i] == 0x7f ? '?' : s[i];
    if (utf8_check(s, len) < len)
        for (size_t i = 0; i < len; i++)
            if (out[i] & 0x80) out[i] = '?';
    strcpy(out + len, len < n ? "…" : "");
    return out;
}

bool proto_is(const msgpack_object *o, const char *text)
{
    return o->type == MSGPACK_OBJECT_STR && o->via.str.size == strlen(text) &&
           memcmp(o->via.str.ptr, text, o->via.str.size) == 0;
}

const msgpack_object *proto_find(const msgpack_object *o, const char *key)
{
    for (uint32_t i = 0; i < o->via.map.size; i++)
        if (proto_is(&o->via.map.ptr[i].key, key)) return &o->via.map.ptr[i].val;
    return NULL;
}

int proto_unpack(msgpack_unpacked *u, const char *body, size_t len)
{
    size_t off = 0;
    msgpack_unpacked_init(u);
    int r = proto_scan(body, len);
    if (r < 0) return r;
    msgpack_unpack_return got = msgpack_unpack_next(u, body, len, &off);
    if (got == MSGPACK_UNPACK_NOMEM_ERROR) return error_origin(-ENOMEM);
    if (got != MSGPACK_UNPACK_SUCCESS) return error_say(-EBADMSG, "malformed message");
    if (u->data.type != MSGPACK_OBJECT_MAP) return error_say(-EBADMSG, "malformed message: not a map");
    return 0;
}

static int unknown_key(const struct place *where, const msgpack_object *key, const struct field *fields, size_t n)
{
    const char *names[PROTO_FIELDS_MAX + 1] = {NULL}, *nearest;
    if (key->type != MSGPACK_OBJECT_STR) return proto_bad(where, "a key that is not a string");
    char text[64];
    proto_printable(text, key->via.str.ptr, key->via.str.size);
    for (size_t i = 0; i < n; i++) names[i] = fields[i].key;
    nearest = conf_nearest(text, names);
    if (!nearest) return proto_bad(where, "unknown key '%s'", text);
    return proto_bad(where, "unknown key '%s' (did you mean '%s'?)", text, nearest);
}

int proto_read_map(struct reading *in, const struct place *where, const msgpack_object *o, const struct field *fields,
                   size_t n_fields, void *base)
{
    uint64_t seen = 0;
    assert(n_fields <= PROTO_FIELDS_MAX);
    if (o->type != MSGPACK_OBJECT_MAP) return proto_bad(where, "must be a map");
    for (uint32_t i = 0; i < o->via.map.size; i++) {
        const msgpack_object_kv *kv = &o->via.map.ptr[i];
        const struct field *f = NULL;
        struct place inside = {where, NULL, 0};
        int r;

        for (size_t k = 0; k < n_fields && !f; k++)
            if (proto_is(&kv->key, fields[k].key)) f = &fields[k];
        if (!f && in->lenient) continue;
        if (!f) return unknown_key(where, &kv->key, fields, n_fields);
        /* A second value would also have to free the first. */
        if (seen & UINT64_C(1) << (f - fields)) return proto_bad(where, "key '%s' twice", f->key);
        seen |= UINT64_C(1) << (f - fields);
        inside.key = f->key;
        r = f->read(in, &inside, &kv->val, (char *)base + f->offset, f);
        if (r < 0) return r;
    }
    for (size_t k = 0; k < n_fields; k++)
        if (fields[k].required && !(seen & UINT64_C(1) << k))
            return proto_bad(where, "missing key '%s'", fields[k].key);
    return 0;
}

int proto_read_version(const struct place *where, const msgpack_object *o, uint32_t *version)
{
    const struct place inside = {where, "version", 0};
    const msgpack_object *v = proto_find(o, "version");
    if (!v) return proto_bad(where, "missing key 'version'");
    if (v->type != MSGPACK_OBJECT_POSITIVE_INTEGER || v->via.u64 > UINT32_MAX)
        return proto_bad(&inside, "must be a whole number");
    *version = (uint32_t)v->via.u64;
    if (*version == PROTO_VERSION) return 0;
    return error_say(-EPROTO, "protocol version %u is not supported, only %d", *version, PROTO_VERSION);
}

int proto_read_skip(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                    const struct field *f)
{
    return 0;
}

int proto_read_bool(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                    const struct field *f)
{
    if (o->type != MSGPACK_OBJECT_BOOLEAN) return proto_bad(where, "must be true or false");
    *(bool *)at = o->via.boolean;
    return 0;
}

int proto_read_u64(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                   const struct field *f)
{
    assert(!f->hi); /* no such field has an upper limit */
    if (o->type != MSGPACK_OBJECT_POSITIVE_INTEGER || o->via.u64 < f->lo)
        return proto_bad(where, "must be %s", f->wanted ? f->wanted : "a whole number");
    *(uint64_t *)at = o->via.u64;
    return 0;
}

int proto_read_u32(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                   const struct field *f)
{
    uint64_t hi = f->hi ? f->hi : UINT32_MAX;
    if (o->type != MSGPACK_OBJECT_POSITIVE_INTEGER || o->via.u64 < f->lo || o->via.u64 > hi)
        return proto_bad(where, "must be %s", f->wanted ? f->wanted : "a whole number");
    *(uint32_t *)at = (uint32_t)o->via.u64;
    return 0;
}

/* Not negative: -1 is for values that are not there. */
int proto_read_i64(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                   const struct field *f)
{
    uint64_t hi = f->hi ? f->hi : INT64_MAX;
    if (o->type != MSGPACK_OBJECT_POSITIVE_INTEGER || o->via.u64 < f->lo || o->via.u64 > hi)
        return proto_bad(where, "must be %s", f->wanted ? f->wanted : "a whole number");
    *(int64_t *)at = (int64_t)o->via.u64;
    return 0;
}

/* Many languages write 0.0 as the integer 0. */
static bool number(const msgpack_object *o, double *v)
{
    switch (o->type) {
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        *v = (double)o->via.u64;
        return true;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        *v = (double)o->via.i64;
        return true;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        *v = o->via.f64;
        return true;
    default:
        return false;
    }
}

int proto_read_float(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                     const struct field *f)
{
    double v;
    /* written so that a NaN fails */
    if (!number(o, &v) || !(v >= f->flo && v <= f->fhi)) return proto_bad(where, "must be %s", f->wanted);
    *(float *)at = (float)v;
    return 0;
}

int proto_read_double(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                      const struct field *f)
{
    if (!number(o, at)) return proto_bad(where, "must be a number");
    return 0;
}

int proto_read_text(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                    const struct field *f)
{
    int r = 0;
    if (o->type != MSGPACK_OBJECT_STR) return proto_bad(where, "must be a string");
    size_t n = o->via.str.size;
    size_t valid = utf8_check(o->via.str.ptr, n);
    if (valid < n) return proto_bad(where, "invalid UTF-8 at byte %zu", valid);
    if (n < f->lo) return proto_bad(where, "is empty");
    if (f->hi && n > f->hi) return proto_bad(where, "has %zu bytes, the limit is %llu", n, (unsigned long long)f->hi);
    if (in->take_least && n >= in->take_least) {
        in->taken = at;
        *in->taken = (struct proto_text){(char *)o->via.str.ptr, n};
    } else {
        r = proto_text_set(at, o->via.str.ptr, n);
    }
    if (r == 0) in->bytes += n + 1;
    return r;
}

int proto_read_strings(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                       const struct field *f)
{
    if (o->type != MSGPACK_OBJECT_ARRAY) return proto_bad(where, "must be a list of strings");
    for (uint32_t i = 0; i < o->via.array.size; i++)
        if (o->via.array.ptr[i].type != MSGPACK_OBJECT_STR) return proto_bad(where, "must be a list of strings");
    return 0;
}
