/* SPDX-License-Identifier: MIT */
#include "libcommon/proto-writer.h"
#include <endian.h>
#include <string.h>

void writer_embed(struct writer *w, const struct proto_request *r)
{
    const struct proto_embed *e = &r->embed;
    if (e->question) writer_text(w, "question", e->question);
    writer_key(w, "texts");
    msgpack_pack_array(&w->pk, e->n_texts);
    for (size_t i = 0; i < e->n_texts; i++) writer_string(w, e->texts[i].data, e->texts[i].len);
    if (e->pooling) writer_cstring(w, "pooling", proto_pooling_name(e->pooling));
    if (e->dims) writer_u64(w, "dims", e->dims);
    if (e->unscaled) {
        writer_key(w, "normalize");
        msgpack_pack_false(&w->pk);
    }
    if (r->gen.salt.len) writer_text(w, "salt", &r->gen.salt);
    if (r->gen.priority) writer_cstring(w, "priority", proto_priority_name(r->gen.priority));
    writer_i64_given(w, "timeout_ms", r->gen.timeout_ms);
}

static void put_values(struct writer *w, const struct proto_vectors *v)
{
    const size_t n = (size_t)v->n * v->dim;
    msgpack_pack_bin(&w->pk, n * sizeof(float));
    for (size_t i = 0; i < n;) {
        uint32_t piece[256];
        size_t k = 0;
        for (; k < sizeof(piece) / sizeof(*piece) && i < n; k++, i++) {
            memcpy(&piece[k], &v->values[i], sizeof(*piece));
            piece[k] = htole32(piece[k]);
        }
        msgpack_pack_bin_body(&w->pk, piece, k * sizeof(*piece));
    }
}

void writer_vectors(struct writer *w, const struct proto_event *e)
{
    const struct proto_vectors *v = &e->vectors;
    writer_u64(w, "first", v->first);
    writer_key(w, e->type == PROTO_EV_SCORES ? "scores" : "vectors");
    put_values(w, v);
    writer_key(w, "tokens");
    msgpack_pack_array(&w->pk, v->n);
    for (uint32_t i = 0; i < v->n; i++) msgpack_pack_uint32(&w->pk, v->tokens[i]);
    writer_u64(w, "cached", v->cached);
    if (v->method) writer_cstring(w, "method", v->method);
}
