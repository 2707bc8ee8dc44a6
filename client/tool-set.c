/* SPDX-License-Identifier: MIT */
#include "client/tool-set.h"
#include "client/child.h"
#include "client/input.h"
#include "client/json.h"
#include "libcommon/error.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static const struct child_limits describe_limits = {.ms = 10000, .bytes = 256 << 10};

/* The output of "PATH --describe". */
static int describe(struct tool *t)
{
    char *argv[] = {t->path, (char *)"--describe", NULL};
    struct child_result c = {0};
    int r = child_run(&c, argv, "", 0, &describe_limits);
    if (r == 0 && c.late) r = error_say(-ETIMEDOUT, "no description within %" PRId64 " s", describe_limits.ms / 1000);
    if (r == 0 && c.cut) r = error_say(-EMSGSIZE, "the description is longer than %zu bytes", describe_limits.bytes);
    if (r == 0 && WIFSIGNALED(c.status)) r = error_say(-EBADMSG, "--describe ended with signal %d", WTERMSIG(c.status));
    if (r == 0 && WEXITSTATUS(c.status)) r = error_say(-EBADMSG, "--describe exited with %d", WEXITSTATUS(c.status));
    if (r == 0) {
        r = tool_describe_read(&t->about, c.out.data, c.out.len);
        if (r < 0) r = error_in(r, "the output of --describe");
    }
    child_result_fini(&c);
    return r;
}

static void tool_fini(struct tool *t)
{
    free(t->path);
    tool_description_fini(&t->about);
}

int tool_set_add(struct tool_set *s, const char *path)
{
    struct tool t = {.path = strdup(path)}, *more;
    int r = t.path ? 0 : error_say(-ENOMEM, "no memory for the tool");
    if (s->n == TOOL_SET_MAX) r = error_say(-EINVAL, "more than %d tools", TOOL_SET_MAX);
    if (r == 0) r = describe(&t);
    if (r == 0 && tool_set_find(s, t.about.name)) r = error_say(-EEXIST, "another tool has the name %s", t.about.name);
    if (r == 0) {
        more = reallocarray(s->tools, s->n + 1, sizeof(*more));
        if (!more) r = error_say(-ENOMEM, "no memory for the tool");
        if (more) s->tools = more;
        if (more) more[s->n++] = t;
    }
    if (r == 0) return 0;
    tool_fini(&t);
    return r == -EINTR ? r : error_in(r, "%s", path);
}

struct tool *tool_set_find(const struct tool_set *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->tools[i].about.name, name) == 0) return &s->tools[i];
    return NULL;
}

int tool_set_json(const struct tool_set *s, struct buf *out)
{
    int r = buf_puts(out, "[");
    for (size_t i = 0; r == 0 && i < s->n; i++) {
        r = buf_printf(out, "%s{\"type\": \"function\", \"function\": ", i ? ", " : "");
        if (r == 0) r = buf_puts(out, s->tools[i].about.json.data);
        if (r == 0) r = buf_puts(out, "}");
    }
    return r == 0 ? buf_puts(out, "]") : r;
}

void tool_set_fini(struct tool_set *s)
{
    for (size_t i = 0; i < s->n; i++) tool_fini(&s->tools[i]);
    free(s->tools);
    *s = (struct tool_set){0};
}

/* --- a list in a file --- */

struct tools_file {
    struct json_copy copy;
    const char *choice;
    bool chosen; /* a tool has its name */
    size_t n;
};

static int file_item(void *ctx, const struct json_item *item)
{
    struct tools_file *f = ctx;
    bool object = item->kind == JSON_OPEN && *item->text == '{';
    if (item->depth == 0 && (item->kind == JSON_SCALAR || item->kind == JSON_STRING || *item->text != '['))
        return error_say(-EBADMSG, "not a list of tools");
    if (item->depth == 1 && item->kind != JSON_CLOSE) {
        f->n++;
        if (!object) return error_say(-EBADMSG, "tool %zu is not an object", f->n);
    }
    /* The name is a member of the object, or of its member "function". */
    if ((item->depth == 2 || item->depth == 3) && item->kind == JSON_STRING && item->key && f->choice &&
        strcmp(item->key, "name") == 0 && strcmp(item->text, f->choice) == 0)
        f->chosen = true;
    return json_copy_item(&f->copy, item);
}

int tool_set_file(struct buf *out, const char *path, const char *choice)
{
    struct tools_file f = {.copy = {.out = out}, .choice = choice};
    struct buf text = BUF_INIT;
    int r = input_whole(&text, path, -1);
    if (r == 0) {
        r = json_walk(text.data, text.len, file_item, &f);
        if (r == 0 && f.n == 0) r = error_say(-EBADMSG, "the list has no tool");
        if (r == 0 && choice && !f.chosen) r = error_say(-EBADMSG, "no tool has the name %s", choice);
        if (r == -EBADMSG) r = error_say(-EINVAL, "%s", error_text(r));
        if (r == -EINVAL) error_in(r, "%s", path);
    }
    buf_fini(&text);
    return r;
}
