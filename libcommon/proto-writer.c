/* SPDX-License-Identifier: MIT */
#include "libcommon/proto-writer.h"
#include "libcommon/error.h"
#include "libcommon/frame.h"
#include "libcommon/utf8.h"
#include <assert.h>
#include <math.h>
#include <string.h>

enum { HEADER = 4 };

static int write_bytes(void *ctx, const char *p, size_t n)
{
    struct writer *w = ctx;
    if (w->error < 0) return w->error;
    if (n > HEADER + FRAME_MAX - (w->out->len - w->start))
        w->error = error_say(-EMSGSIZE, "the message is over the limit of %u bytes", FRAME_MAX);
    else
        w->error = buf_append(w->out, p, n);
    return w->error;
}

void writer_init(struct writer *w, struct buf *out, size_t elems)
{
    *w = (struct writer){.out = out, .start = out->len};
    msgpack_packer_init(&w->pk, w, write_bytes);
    if (elems > PROTO_ELEMS_MAX)
        w->error = error_say(-EMSGSIZE, "the message has more elements than the limit of %u", PROTO_ELEMS_MAX);
    write_bytes(w, "\0\0\0\0", HEADER);
}

int writer_finish(struct writer *w)
{
    struct buf *out = w->out;
    if (w->error == 0) {
        frame_header((unsigned char *)out->data + w->start, (uint32_t)(out->len - w->start - HEADER));
        return 0;
    }
    out->len = w->start; /* the header is still 0 and ends what was there */
    return w->error;
}

/* The count is known only at the end. One byte is reserved for it; if it needs two more, they are inserted then. */
struct open_map writer_map_begin(struct writer *w)
{
    const struct open_map m = {w->out->len, w->keys};
    write_bytes(w, "\x80", 1);
    w->keys = 0;
    return m;
}

void writer_map_end(struct writer *w, struct open_map m)
{
    size_t n = w->keys;
    assert(n < 1u << 16);
    if (n > 15) write_bytes(w, "\0\0", 2);
    if (w->error < 0) return;
    if (n > 15) {
        char *p = w->out->data + m.at;

        memmove(p + 3, p + 1, w->out->len - m.at - 3);
        p[0] = (char)0xde;
        p[1] = (char)(n >> 8);
        p[2] = (char)n;
    } else {
        w->out->data[m.at] = (char)(0x80 | n);
    }
    w->keys = m.outer_keys;
}

void writer_string(struct writer *w, const char *s, size_t n)
{
    msgpack_pack_str(&w->pk, n); /* more than its 32 bits is more than a frame holds */
    if (n) msgpack_pack_str_body(&w->pk, s, n);
}

void writer_key(struct writer *w, const char *name)
{
    writer_string(w, name, strlen(name));
    w->keys++;
}

void writer_text(struct writer *w, const char *name, const struct proto_text *t)
{
    writer_key(w, name);
    writer_string(w, t->data, t->len);
}

void writer_clean(struct writer *w, const char *name, const struct proto_text *t)
{
    struct buf clean = BUF_INIT;
    size_t at = utf8_check(t->data, t->len), from = 0;
    if (at == t->len) {
        writer_text(w, name, t);
        return;
    }
    for (; at < t->len && w->error == 0; at = from + utf8_check(t->data + from, t->len - from)) {
        w->error = buf_append(&clean, t->data + from, at - from);
        if (w->error == 0) w->error = buf_puts(&clean, "\xef\xbf\xbd");
        from = at + 1;
    }
    if (w->error == 0) w->error = buf_append(&clean, t->data + from, t->len - from);
    writer_key(w, name);
    writer_string(w, clean.data, clean.len);
    buf_fini(&clean);
}

void writer_cstring(struct writer *w, const char *name, const char *s)
{
    writer_key(w, name);
    writer_string(w, s, strlen(s));
}

void writer_u64(struct writer *w, const char *name, uint64_t v)
{
    writer_key(w, name);
    msgpack_pack_uint64(&w->pk, v);
}

void writer_double(struct writer *w, const char *name, double v)
{
    writer_key(w, name);
    msgpack_pack_double(&w->pk, v);
}

void writer_true(struct writer *w, const char *name, bool v)
{
    if (!v) return;
    writer_key(w, name);
    msgpack_pack_true(&w->pk);
}

void writer_float_given(struct writer *w, const char *name, float v)
{
    if (isnan(v)) return;
    writer_key(w, name);
    msgpack_pack_float(&w->pk, v);
}

void writer_i64_given(struct writer *w, const char *name, int64_t v)
{
    if (v >= 0) writer_u64(w, name, (uint64_t)v);
}

void writer_hello(struct writer *w, uint32_t version, const char *software, const char *const *features)
{
    size_t n = 0;
    while (features[n]) n++;
    writer_u64(w, "version", version ? version : PROTO_VERSION);
    writer_key(w, "features");
    msgpack_pack_array(&w->pk, n);
    for (size_t i = 0; i < n; i++) writer_string(w, features[i], strlen(features[i]));
    writer_cstring(w, "software", software);
}
