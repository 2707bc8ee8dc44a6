/* SPDX-License-Identifier: MIT */
#include "client/batch/batch-done.h"
#include "client/batch/batch-lines.h"
#include "client/batch/json-members.h"
#include "client/json.h"
#include "libcommon/buf.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define DONE_NUMBER_MAX (UINT64_C(1) << 40)

/* FNV-1a (G. Fowler, L. C. Noll, K. Vo, 1991) of the id, never 0. */
static uint32_t check_of(const char *id, size_t len)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < len; i++) h = (h ^ (unsigned char)id[i]) * 16777619u;
    return h ? h : 1;
}

/* The members of a line of output. */
struct found {
    uint64_t number;
    struct buf id;
    bool custom;
};

static int on_member(void *ctx, const struct json_member *m)
{
    static const char prefix[] = "batch_req_";
    struct found *f = ctx;
    if (!m->key) return error_say(-EBADMSG, "a list");
    if (strcmp(m->key, "line") == 0 && m->kind == MEMBER_SCALAR)
        return parse_u64(m->text, 1, DONE_NUMBER_MAX, &f->number);
    if (strcmp(m->key, "id") == 0 && m->kind == MEMBER_STRING && strncmp(m->text, prefix, strlen(prefix)) == 0 &&
        parse_u64(m->text + strlen(prefix), 1, DONE_NUMBER_MAX, &f->number) < 0)
        f->number = 0; /* an id of the user's that looks like one of OpenAI's */
    bool custom = strcmp(m->key, "custom_id") == 0;
    if (!custom && (f->custom || strcmp(m->key, "id") != 0)) return 0;
    f->custom = custom;
    buf_clear(&f->id);
    return m->kind == MEMBER_STRING ? json_put_string(&f->id, m->text, m->len) : buf_append(&f->id, m->text, m->len);
}

static int note(struct batch_done *d, const struct found *f)
{
    size_t at = (size_t)f->number - 1;
    if (at >= d->n) {
        size_t n = at < 1024 ? 1024 : 2 * at;
        uint32_t *more = reallocarray(d->checks, n, sizeof(*more));
        if (!more) return error_say(-ENOMEM, "no memory for the numbers of %zu lines", n);
        memset(more + d->n, 0, (n - d->n) * sizeof(*more));
        d->checks = more;
        d->n = n;
    }
    d->lines += d->checks[at] == 0;
    d->checks[at] = check_of(f->id.data, f->id.len);
    return 0;
}

static int add_line(struct batch_done *d, const char *s, size_t len)
{
    struct found f = {0};
    int r = json_members(s, len, on_member, &f);
    if (r == 0 && (!f.number || !f.id.len)) r = error_say(-EBADMSG, "no 'line' or no 'id'");
    if (r == 0) r = note(d, &f);
    buf_fini(&f.id);
    return r;
}

/* Is it the beginning of a line of a result? */
static bool is_beginning(const struct buf *line)
{
    static const char start[] = "{\"id\":";
    return line->len && memcmp(line->data, start, line->len < strlen(start) ? line->len : strlen(start)) == 0;
}

int batch_done_read(struct batch_done *d, int fd, const char *name, uint64_t *end)
{
    struct batch_lines in = {.fd = fd, .name = name};
    int r;
    *d = (struct batch_done){0};
    *end = 0;
    while ((r = batch_lines_next(&in)) == BATCH_LINE_WHOLE) {
        if (in.torn && is_beginning(&in.line)) break;
        if (in.torn) r = error_say(-EBADMSG, "it has no end");
        if (r == BATCH_LINE_WHOLE && in.too_long) r = error_say(-EBADMSG, "it is too long");
        if (r == BATCH_LINE_WHOLE) r = add_line(d, in.line.data, in.line.len);
        if (r == -EBADMSG || r == -EINVAL)
            r = error_say(-EINVAL, "%s: line %" PRIu64 " is not one of hob batch: %s", name, in.number, error_text(r));
        if (r < 0) break;
        *end += in.bytes;
    }
    batch_lines_fini(&in);
    return r < 0 ? r : 0;
}

int batch_done_has(const struct batch_done *d, uint64_t number, const char *id, size_t len)
{
    uint32_t check = number <= d->n ? d->checks[number - 1] : 0;
    if (!check) return 0;
    if (check == check_of(id, len)) return 1;
    return error_say(-EINVAL, "line %" PRIu64 " has another id than in the output: the output is of another input",
                     number);
}

void batch_done_fini(struct batch_done *d)
{
    free(d->checks);
    *d = (struct batch_done){0};
}
