/* SPDX-License-Identifier: MIT */
#include "daemon/request/adapters.h"
#include "daemon/request/request.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/units.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define NO_ADAPTER "none"

/* --- loading --- */

int adapters_open(struct adapters *a, const struct adapter_config *c, const struct gguf *base)
{
    int r = 0;
    if (c->n == 0) return 0;
    a->list = calloc(c->n, sizeof(*a->list));
    if (!a->list) return error_origin(-ENOMEM);
    for (size_t i = 0; r == 0 && i < c->n; i++) {
        struct named_adapter *x = &a->list[a->n++];
        x->name = c->list[i].name;
        r = adapter_open(&x->file, c->list[i].path, base);
        if (r < 0) error_in(r, "adapter '%s'", x->name);
        if (r < 0 && !c->list[i].required) {
            log_warning("the model is served without an adapter: %s", error_text(r));
            a->n--;
            r = 0;
        }
    }
    return r;
}

uint64_t adapters_bytes(const struct adapters *a)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < a->n; i++) sum += gguf_file_size(a->list[i].file->gguf);
    return sum;
}

static bool required(const struct adapter_config *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++)
        if (!strcmp(c->list[i].name, name)) return c->list[i].required;
    return true;
}

int adapters_load(struct adapters *a, const struct adapter_config *c, struct backend *b)
{
    char size[32];
    if (a->n && !b->ops->adapter_load) return error_say(-EOPNOTSUPP, "the backend has no adapters");
    for (size_t i = 0; i < a->n; i++) {
        struct named_adapter *x = &a->list[i];
        int r = b->ops->adapter_load(b, x->file, &x->number, &x->bytes);
        if (r < 0) error_in(r, "adapter '%s'", x->name);
        if (r < 0 && required(c, x->name)) return r;
        if (r < 0) {
            log_warning("the model is served without an adapter: %s", error_text(r));
            adapter_close(x->file);
            memmove(x, x + 1, (a->n - i - 1) * sizeof(*x));
            a->n--, i--;
            continue;
        }
        log_info("adapter %s: %zu matrices, %s%s", x->name, x->file->n_pairs, format_size(size, x->bytes),
                 x->file->n_invocation ? ", activated by its invocation" : "");
    }
    return 0;
}

void adapters_close(struct adapters *a)
{
    for (size_t i = 0; i < a->n; i++) adapter_close(a->list[i].file);
    free(a->list);
    *a = (struct adapters){0};
}

/* --- choosing --- */

static const struct named_adapter *find(const struct adapters *a, const char *name, size_t len)
{
    for (size_t i = 0; i < a->n; i++)
        if (strlen(a->list[i].name) == len && memcmp(a->list[i].name, name, len) == 0) return &a->list[i];
    return NULL;
}

/* -ENOENT, and the names that there are. */
static int unknown(const struct adapters *a, const char *name, size_t len)
{
    struct buf names = BUF_INIT;
    int r = -ENOENT;
    for (size_t i = 0; i < a->n && i < 16; i++)
        if (buf_printf(&names, "%s%s", i ? ", " : "", a->list[i].name) < 0) break;
    if (a->n)
        error_say(r, "no adapter '%.*s'; the model has: %s%s", (int)len, name, names.data ? names.data : "?",
                  a->n > 16 ? ", …" : "");
    else
        error_say(r, "no adapter '%.*s': the model has none", (int)len, name);
    buf_fini(&names);
    return r;
}

/* "NAME[=SCALE]": @len bytes of it are the name. */
static int read_scale(const struct proto_text *t, size_t *len, float *scale)
{
    const char *eq = memrchr(t->data, '=', t->len);
    char *end;
    *len = eq ? (size_t)(eq - t->data) : t->len;
    *scale = 1;
    if (!eq) return 0;
    *scale = strtof(eq + 1, &end);
    if (end != eq + 1 && end == t->data + t->len && isfinite(*scale)) return 0;
    return error_say(-EINVAL, "adapter '%.*s': the scale '%s' is not a finite number", (int)*len, t->data, eq + 1);
}

static bool is_none(const struct proto_text *t)
{
    return t->len == sizeof(NO_ADAPTER) - 1 && memcmp(t->data, NO_ADAPTER, t->len) == 0;
}

/* "NAME[=SCALE]" of the request, or of its session; len 0: none. */
static const struct proto_text *wanted(const struct request *r)
{
    static const struct proto_text none;
    const struct session_content *c = session_content(r->turn.session);
    const struct proto_text *t = r->proto.adapter.len ? &r->proto.adapter : c ? &c->adapter : &none;
    return is_none(t) ? &none : t;
}

static void make_digest(uint8_t out[16], const struct adapter *a, float scale)
{
    uint8_t bytes[13 + 16 + 4] = "hob adapter 1";
    XXH128_canonical_t digest;
    memcpy(bytes + 13, a->digest.bytes, 16);
    memcpy(bytes + 29, &scale, 4);
    XXH128_canonicalFromHash(&digest, XXH3_128bits(bytes, sizeof(bytes)));
    memcpy(out, digest.digest, 16);
}

int adapters_choose(struct request *r, struct seq *s)
{
    const struct adapters *all = &r->core->model.adapters;
    const struct proto_text *t = wanted(r);
    size_t len;
    float scale;
    if (t->len == 0) return 0;
    int result = read_scale(t, &len, &scale);
    if (result < 0) return result;
    const struct named_adapter *a = find(all, t->data, len);
    if (!a) {
        result = unknown(all, t->data, len);
        if (!r->proto.adapter.len) error_in(result, "the session's adapter (none: go on without it)");
        return result;
    }
    const struct prompt *p = &s->prompt;
    const uint32_t from = adapter_from(a->file, p->tokens.ids, (uint32_t)p->tokens.n);
    if (scale == 0 || from == p->tokens.n) return 0; /* the model alone computes the same */
    s->context.adapter.number = a->number;
    s->context.adapter.scale = scale;
    s->context.adapter.from = from;
    make_digest(s->context.adapter.digest, a->file, scale);
    return seq_adapted_follow(s);
}

int adapters_keep(const struct request *r)
{
    const struct proto_text *t = wanted(r);
    return session_set_adapter(r->turn.session, t->data, t->len);
}
