/* SPDX-License-Identifier: MIT */
#include "client/tool-describe.h"
#include "client/json.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

struct describe {
    struct tool_description *to;
    struct json_copy copy;
    unsigned base;          /* depth of the function object: 1 if it is the member "function" */
    bool inside;            /* in the function object */
    bool parameters, found; /* it has parameters; it was seen */
};

int tool_describe_name(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
    if (!*name) return error_say(-EBADMSG, "the tool has no name");
    if (name[n]) return error_say(-EBADMSG, "the tool's name has a character other than letters, digits, _ - and .");
    return n > TOOL_NAME_MAX ? error_say(-EBADMSG, "the tool's name is longer than %d bytes", TOOL_NAME_MAX) : 0;
}

/* Check a member of the function object. */
static int describe_member(struct describe *d, const struct json_item *item)
{
    bool object = item->kind == JSON_OPEN && *item->text == '{';
    if (strcmp(item->key, "description") == 0 && item->kind != JSON_STRING)
        return error_say(-EBADMSG, "\"description\" is not a string");
    if (strcmp(item->key, "parameters") == 0) {
        d->parameters = true;
        return object ? 0 : error_say(-EBADMSG, "\"parameters\" is not an object");
    }
    if (strcmp(item->key, "name") != 0) return 0;
    if (item->kind != JSON_STRING) return error_say(-EBADMSG, "\"name\" is not a string");
    if (d->to->name) return error_say(-EBADMSG, "two names");
    int r = tool_describe_name(item->text);
    if (r < 0) return r;
    d->to->name = strdup(item->text);
    return d->to->name ? 0 : -ENOMEM;
}

static int describe_item(void *ctx, const struct json_item *item)
{
    struct describe *d = ctx;
    struct json_item plain = *item;
    int r = 0;
    if (item->depth == d->base && item->kind == JSON_OPEN && *item->text == '{' &&
        (d->base == 0 || (item->key && strcmp(item->key, "function") == 0))) {
        if (d->found) return error_say(-EBADMSG, "two functions");
        d->inside = d->found = true;
        plain.key = NULL;
    }
    if (!d->inside) return 0;
    if (item->depth == d->base + 1 && item->kind != JSON_CLOSE) r = describe_member(d, item);
    if (item->depth == d->base && item->kind == JSON_CLOSE) {
        d->inside = false;
        if (!d->parameters)
            r = buf_printf(d->copy.out,
                           "%s\"parameters\": {\"type\": \"object\", \"properties\": {}, "
                           "\"additionalProperties\": false}",
                           d->copy.more ? ", " : "");
    }
    return r == 0 ? json_copy_item(&d->copy, &plain) : r;
}

/* Whether the object at depth 0 has an object "function". */
static int find_function(void *ctx, const struct json_item *item)
{
    if (item->depth == 1 && item->kind == JSON_OPEN && item->key && strcmp(item->key, "function") == 0)
        *(unsigned *)ctx = 1;
    return 0;
}

int tool_describe_read(struct tool_description *to, const char *text, size_t len)
{
    struct describe d = {.to = to, .copy = {.out = &to->json}};
    int r = json_walk(text, len, find_function, &d.base);
    if (r == 0) r = json_walk(text, len, describe_item, &d);
    if (r < 0) return r;
    if (!d.found) return error_say(-EBADMSG, "not an object");
    return to->name ? 0 : error_say(-EBADMSG, "no \"name\"");
}

void tool_description_fini(struct tool_description *d)
{
    free(d->name);
    buf_fini(&d->json);
    *d = (struct tool_description){0};
}
