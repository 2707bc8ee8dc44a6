/* SPDX-License-Identifier: MIT */
#include "daemon/simulate/trace.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/file.h"
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#define TOKENS_MAX (1u << 24) /* limit of a prompt or an answer */

void trace_fini(struct trace *t)
{
    free(t->requests);
    free(t->ids);
    *t = (struct trace){0};
}

/* Makes room for one more element of @size bytes. */
static int grow(void *array, size_t n, size_t *cap, size_t size)
{
    void **at = array;
    if (n < *cap) return 0;
    size_t more = *cap ? *cap * 2 : 1024, bytes;
    if (__builtin_mul_overflow(more, size, &bytes)) return -ENOMEM;
    void *p = realloc(*at, bytes);
    if (!p) return -ENOMEM;
    *at = p;
    *cap = more;
    return 0;
}

struct reader {
    struct trace *t;
    const char *path;
    size_t line, cap, cap_ids;
};

static int bad(const struct reader *r, const char *cause)
{
    return error_say(-EBADMSG, "%s:%zu: %s", r->path, r->line, cause);
}

/* Reads an integer from @least to @most. */
static bool number(const json_t *o, const char *key, json_int_t least, json_int_t most, json_int_t *v)
{
    const json_t *j = json_object_get(o, key);
    *v = json_integer_value(j);
    return json_is_integer(j) && *v >= least && *v <= most;
}

static int read_ids(struct reader *r, const json_t *list, struct trace_request *q)
{
    struct trace *t = r->t;
    size_t n = json_array_size(list);
    if (n != (q->prompt + TRACE_BLOCK - 1) / TRACE_BLOCK)
        return bad(r, "hash_ids is not a list with one id for each 512 tokens");
    if (t->n_ids + n > UINT32_MAX) return error_say(-E2BIG, "%s: too many hash ids", r->path);
    q->first = (uint32_t)t->n_ids;
    q->n = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0) return bad(r, "a hash id is not a whole number >= 0");
        if (grow(&t->ids, t->n_ids, &r->cap_ids, sizeof(*t->ids)) < 0) return -ENOMEM;
        t->ids[t->n_ids++] = (uint64_t)json_integer_value(id);
    }
    return 0;
}

static int read_line(struct reader *r, const char *line)
{
    struct trace *t = r->t;
    struct trace_request q = {0};
    json_error_t why;
    json_int_t ms, prompt, answer;
    _cleanup_(json_decrefp) json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, &why);
    if (!o) return bad(r, why.text);
    if (!number(o, "timestamp", 0, INT64_MAX / 2, &ms)) return bad(r, "timestamp is not a number of milliseconds");
    if (!number(o, "input_length", 1, TOKENS_MAX, &prompt)) return bad(r, "input_length is not a number of tokens");
    if (!number(o, "output_length", 0, TOKENS_MAX, &answer)) return bad(r, "output_length is not a number of tokens");
    q.ms = (double)ms;
    if (t->n && q.ms < t->requests[t->n - 1].ms) return bad(r, "timestamp is before that of the previous line");
    q.prompt = (uint32_t)prompt;
    q.answer = answer ? (uint32_t)answer : 1; /* an answer has at least its end token */
    int e = read_ids(r, json_object_get(o, "hash_ids"), &q);
    if (e == 0) e = grow(&t->requests, t->n, &r->cap, sizeof(*t->requests));
    if (e == 0) t->requests[t->n++] = q;
    return e;
}

/* --- sums: the hits of an infinite cache --- */

/* Open addressing. An id is stored plus 1. */
struct set {
    uint64_t *slots, mask;
};

/* True: the id is new. */
static bool set_add(struct set *s, uint64_t id)
{
    uint64_t i = (id + 1) * 0x9e3779b97f4a7c15u;
    for (i ^= i >> 29;; i++) {
        uint64_t *slot = &s->slots[i & s->mask];
        if (*slot == id + 1) return false;
        if (*slot) continue;
        *slot = id + 1;
        return true;
    }
}

static int sum_up(struct trace *t)
{
    uint64_t size = 1024;
    while (size < 2 * t->n_ids) size *= 2;
    _cleanup_(freep) uint64_t *slots = calloc(size, sizeof(*slots));
    struct set seen = {slots, size - 1};
    if (!slots) return -ENOMEM;
    for (size_t i = 0; i < t->n; i++) {
        const struct trace_request *q = &t->requests[i];
        uint64_t hit = 0;
        bool missed = false;
        for (uint32_t k = 0; k < q->n; k++) {
            bool new = set_add(&seen, t->ids[q->first + k]);
            t->distinct += new;
            missed |= new;
            hit += missed ? 0 : TRACE_BLOCK;
        }
        t->prompt_tokens += q->prompt;
        t->infinite_tokens += hit < q->prompt ? hit : q->prompt;
    }
    return 0;
}

int trace_read(struct trace *out, const char *path, size_t most)
{
    struct trace t = {0};
    struct reader r = {.t = &t, .path = path};
    int fd = file_open_once(path);
    if (fd < 0) return fd;
    _cleanup_(fclosep) FILE *f = fdopen(fd, "r");
    _cleanup_(freep) char *line = NULL;
    size_t cap = 0;
    int e = 0;
    if (!f) {
        close(fd);
        return error_origin(-ENOMEM);
    }
    while (e == 0 && (!most || t.n < most) && getline(&line, &cap, f) >= 0) {
        r.line++;
        if (line[strspn(line, " \t\r\n")]) e = read_line(&r, line);
    }
    if (e == 0 && ferror(f)) e = error_say(-EIO, "%s: read error", path);
    if (e == 0 && t.n == 0) e = error_say(-EBADMSG, "%s: no requests", path);
    if (e == 0) e = sum_up(&t);
    if (e < 0) {
        trace_fini(&t);
        return e;
    }
    *out = t;
    return 0;
}

void trace_deal(struct trace *t, uint32_t users)
{
    double all = 0;
    for (uint32_t k = 1; k <= users; k++) all += 1.0 / k;
    for (size_t i = 0; i < t->n; i++) {
        struct trace_request *q = &t->requests[i];
        uint64_t x = (t->ids[q->first + (q->n > 1)] + 1) * 0x9e3779b97f4a7c15u;
        double u = (double)((x ^ x >> 32) & 0xffffffff) / 4294967296.0 * all;
        q->user = 0;
        while (q->user + 1 < users && (u -= 1.0 / (q->user + 1)) >= 0) q->user++;
    }
}
