/* SPDX-License-Identifier: MIT */
#include "client/embed/embed-call.h"
#include "client/embed/embed-command.h"
#include "client/embed/embed-input.h"
#include "client/exit-status.h"
#include "client/json.h"
#include "client/output.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scored {
    float score;
    size_t at;
};

struct ranking {
    struct scored *list; /* [n] */
    char method[16];
};

static int collect(void *ctx, const struct proto_vectors *v)
{
    struct ranking *r = ctx;
    for (uint32_t i = 0; i < v->n; i++) r->list[v->first + i] = (struct scored){v->values[i], v->first + i};
    snprintf(r->method, sizeof(r->method), "%s", v->method ? v->method : "other");
    return 0;
}

/* The best first; of equal ones that which was given first. */
static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    if (x->score != y->score && !isnan(x->score) && !isnan(y->score)) return x->score > y->score ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* One line of text, in which control characters are spaces. */
static int put_line(struct buf *out, const char *s, size_t n)
{
    const size_t from = out->len;
    int r = buf_append(out, s, n);
    for (size_t i = from; r == 0 && i < out->len; i++)
        if ((unsigned char)out->data[i] < ' ' || out->data[i] == 0x7f) out->data[i] = ' ';
    return r < 0 ? r : buf_puts(out, "\n");
}

static int put_json(struct buf *out, const struct embed_input *t, const struct ranking *all, const struct scored *x)
{
    const char *name = t->names[x->at];
    int r = buf_puts(out, "{\"score\":");
    if (r == 0) r = json_put_float(out, x->score);
    if (r == 0) r = buf_printf(out, ",\"index\":%zu,\"%s\":", x->at, name ? "name" : "text");
    if (r == 0)
        r = name ? json_put_string(out, name, strlen(name))
                 : json_put_string(out, t->texts[x->at].data, t->texts[x->at].len);
    return r < 0 ? r : buf_printf(out, ",\"method\":\"%s\"}\n", all->method);
}

static int print(const struct options *o, const struct embed_input *t, const struct ranking *all)
{
    struct buf out = BUF_INIT;
    int r = 0;
    for (size_t i = 0; r == 0 && i < t->n; i++) {
        const struct scored *x = &all->list[i];
        const char *name = t->names[x->at];
        if (o->jsonl) {
            r = put_json(&out, t, all, x);
            continue;
        }
        r = buf_printf(&out, "%.6f\t", (double)x->score);
        if (r == 0)
            r = name ? put_line(&out, name, strlen(name)) : put_line(&out, t->texts[x->at].data, t->texts[x->at].len);
    }
    if (r == 0) r = output_print(out.data, out.len);
    buf_fini(&out);
    return r < 0 ? exit_status_report(r) : 0;
}

int rank_check(const struct options *o)
{
    if (o->embed.npy || o->embed.dims)
        return error_say(-EINVAL, "--%s can be used only with 'embed'", o->embed.npy ? "npy" : "dims");
    if (!o->n_words || !*o->words[0])
        return error_say(-EINVAL,
                         "rank needs a question: hob rank \"question\" FILE…, or a text a line on standard input");
    return 0;
}

int rank_run(const struct options *o)
{
    struct embed_input texts;
    struct embed_client c;
    struct ranking all = {0};
    const struct proto_text question = {(char *)o->words[0], strlen(o->words[0])};
    int r = embed_input_read(&texts, o->words + 1, o->n_words - 1, true);
    if (r == 0) all.list = calloc(texts.n, sizeof(*all.list));
    if (r == 0 && !all.list) r = error_say(-ENOMEM, "no memory for %zu texts", texts.n);
    int status = r < 0 ? exit_status_before(r) : 0;
    embed_client_init(&c, o);
    const struct embed_ask ask = {.texts = texts.texts, .n = texts.n, .question = &question};
    if (status == 0) status = embed_stream(&c, &ask, collect, &all);
    if (status == 0) {
        qsort(all.list, texts.n, sizeof(*all.list), by_score);
        status = print(o, &texts, &all);
    }
    if (status == 0 && o->verbose)
        log_info("%zu texts, %" PRIu64 " tokens, %" PRIu64 " of them cached; scored by %s", texts.n, c.tokens, c.cached,
                 all.method);
    embed_client_fini(&c);
    embed_input_fini(&texts);
    free(all.list);
    return status;
}
