/* SPDX-License-Identifier: MIT */
#include "client/embed/embed-command.h"
#include "client/embed/embed-call.h"
#include "client/embed/embed-input.h"
#include "client/exit-status.h"
#include "client/json.h"
#include "client/output.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { READER_CLOSED = -2 }; /* no exit status: nobody reads the rest */

struct printing {
    const struct options *o;
    const struct embed_input *texts;
    struct output out;
    struct buf piece;
    bool begun; /* the header of --npy is written */
};

/* --- forms --- */

/* The header of NumPy's format 1.0 (numpy.lib.format): magic, version, length, and a Python literal, padded so that the
 * values begin at a multiple of 64 bytes. */
static int put_header(struct buf *out, size_t n, uint32_t dim)
{
    char text[128];
    int len =
        snprintf(text, sizeof(text), "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %" PRIu32 "), }", n, dim);
    const size_t fixed = 10, total = (fixed + (size_t)len + 1 + 63) / 64 * 64;
    const uint16_t rest = htole16((uint16_t)(total - fixed));
    int r = buf_append(out, "\x93NUMPY\x01\x00", 8);
    if (r == 0) r = buf_append(out, (const char *)&rest, sizeof(rest));
    return r < 0 ? r : buf_printf(out, "%-*s\n", (int)(total - fixed - 1), text);
}

static int put_raw(struct buf *out, const float *v, uint32_t dim)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < dim; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i], sizeof(bits));
        bits = htole32(bits);
        r = buf_append(out, (const char *)&bits, sizeof(bits));
    }
    return r;
}

static int put_values(struct buf *out, const float *v, uint32_t dim, const char *between)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < dim; i++) {
        if (i) r = buf_puts(out, between);
        if (r == 0) r = json_put_float(out, v[i]);
    }
    return r;
}

static int put_json(struct buf *out, const struct printing *p, size_t at, const struct proto_vectors *v, uint32_t i)
{
    int r = buf_printf(out, "{\"index\":%zu,", at);
    if (r == 0 && p->texts->names[at]) {
        r = buf_puts(out, "\"name\":");
        if (r == 0) r = json_put_string(out, p->texts->names[at], strlen(p->texts->names[at]));
        if (r == 0) r = buf_puts(out, ",");
    }
    if (r == 0) r = buf_printf(out, "\"tokens\":%" PRIu32 ",\"embedding\":[", v->tokens[i]);
    if (r == 0) r = put_values(out, v->values + (size_t)i * v->dim, v->dim, ",");
    return r < 0 ? r : buf_puts(out, "]}\n");
}

static int put_one(struct printing *p, size_t at, const struct proto_vectors *v, uint32_t i)
{
    const float *values = v->values + (size_t)i * v->dim;
    if (p->o->embed.npy) return put_raw(&p->piece, values, v->dim);
    if (p->o->jsonl) return put_json(&p->piece, p, at, v, i);
    int r = put_values(&p->piece, values, v->dim, " ");
    return r < 0 ? r : buf_puts(&p->piece, "\n");
}

static int print(void *ctx, const struct proto_vectors *v)
{
    struct printing *p = ctx;
    int r = 0;
    buf_clear(&p->piece);
    if (p->o->embed.npy && !p->begun) r = put_header(&p->piece, p->texts->n, v->dim);
    p->begun = true;
    for (uint32_t i = 0; r == 0 && i < v->n; i++) r = put_one(p, v->first + i, v, i);
    if (r == 0) r = output_write(&p->out, p->piece.data, p->piece.len);
    if (r == -EPIPE) return READER_CLOSED;
    return r < 0 ? exit_status_report(r) : 0;
}

/* --- the command --- */

int embed_check(const struct options *o)
{
    if (o->embed.npy && o->jsonl) return error_say(-EINVAL, "--npy and --jsonl cannot be used together");
    if (o->embed.npy && isatty(STDOUT_FILENO))
        return error_say(-EINVAL, "--npy writes bytes that are no text: send standard output to a file");
    return 0;
}

int embed_run(const struct options *o)
{
    struct embed_input texts;
    struct embed_client c;
    struct printing p = {.o = o, .texts = &texts, .piece = BUF_INIT};
    int r = embed_input_read(&texts, o->words, o->n_words, false), status = r < 0 ? exit_status_before(r) : 0;
    embed_client_init(&c, o);
    output_init(&p.out, STDOUT_FILENO, false);
    if (status == 0) {
        const struct embed_ask ask = {
            .texts = texts.texts, .n = texts.n, .dims = (uint32_t)o->embed.dims, .pooling = o->embed.pooling};
        status = embed_stream(&c, &ask, print, &p);
        if (status == READER_CLOSED) status = EXIT_ANSWERED;
    }
    if (status == 0 && o->verbose)
        log_info("%zu texts, %" PRIu64 " tokens, %" PRIu64 " of them cached", texts.n, c.tokens, c.cached);
    embed_client_fini(&c);
    output_fini(&p.out);
    buf_fini(&p.piece);
    embed_input_fini(&texts);
    return status;
}
