/* SPDX-License-Identifier: MIT */
#include "client/json.h"
#include "libcommon/error.h"
#include <string.h>

static const char *digits(const char *p)
{
    return p + strspn(p, "0123456789");
}

/* RFC 8259, number. */
static bool is_number(const char *p)
{
    if (*p == '-') p++;
    const char *end = *p == '0' ? p + 1 : digits(p);
    if (end == p) return false;
    if (*end == '.') {
        p = end + 1;
        end = digits(p);
        if (end == p) return false;
    }
    if (*end == 'e' || *end == 'E') {
        p = end + 1;
        if (*p == '+' || *p == '-') p++;
        end = digits(p);
        if (end == p) return false;
    }
    return *end == 0;
}

static int copy_scalar(struct buf *out, const char *text)
{
    bool word = strcmp(text, "true") == 0 || strcmp(text, "false") == 0 || strcmp(text, "null") == 0;
    if (!word && !is_number(text)) return error_say(-EBADMSG, "not JSON: %.40s is no value", text);
    return buf_puts(out, text);
}

int json_copy_item(struct json_copy *c, const struct json_item *item)
{
    int r = 0;
    if (item->kind == JSON_CLOSE) {
        c->more = true;
        return buf_puts(c->out, *item->text == '{' ? "}" : "]");
    }
    if (c->more) r = buf_puts(c->out, ", ");
    c->more = item->kind != JSON_OPEN;
    if (r == 0 && item->key) r = json_put_string(c->out, item->key, strlen(item->key));
    if (r == 0 && item->key) r = buf_puts(c->out, ": ");
    if (r < 0) return r;
    if (item->kind == JSON_STRING) return json_put_string(c->out, item->text, item->len);
    return item->kind == JSON_OPEN ? buf_puts(c->out, item->text) : copy_scalar(c->out, item->text);
}

static int copy_item(void *ctx, const struct json_item *item)
{
    return json_copy_item(ctx, item);
}

int json_one_line(struct buf *out, const char *s, size_t len)
{
    struct json_copy c = {.out = out};
    return json_walk(s, len, copy_item, &c);
}
