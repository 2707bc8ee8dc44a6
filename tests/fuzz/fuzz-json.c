/* SPDX-License-Identifier: MIT */
/* The client's JSON reader and writer: a line of what it reads is read again, and a text
 * that it writes is read. */
#include "client/json.h"
#include "tests/fuzz/fuzz.h"
#include <errno.h>
#include <string.h>

const char *const fuzz_seeds[] = {
    "{\"a\": [1, -2.5e3, true, null, \"x\\u00e9\\ud83d\\ude00\\n\"], \"b\": {\"c\": {}}, \"d\": []}",
    "[[[[\"\\\"\"]]], 0, 1e5, {\"\": \"\"}]",
    " \"text\" ",
    NULL,
};

struct seen {
    unsigned open, items;
};

static int look(void *ctx, const struct json_item *item)
{
    struct seen *s = ctx;
    FUZZ_CHECK(item->depth <= JSON_DEPTH_MAX && item->text[item->len] == 0);
    s->items++;
    s->open += item->kind == JSON_OPEN;
    s->open -= item->kind == JSON_CLOSE;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf out = BUF_INIT, again = BUF_INIT;
    struct seen seen = {0};
    const char *s = (const char *)data;
    int r = json_walk(s, size, look, &seen);
    if (r < 0) fuzz_refused(r);
    if (r == 0) FUZZ_CHECK(seen.items > 0 && seen.open == 0);
    if (json_one_line(&out, s, size) == 0) {
        FUZZ_CHECK(r == 0 && !memchr(out.data, '\n', out.len));
        FUZZ_CHECK(json_one_line(&again, out.data, out.len) == 0);
        FUZZ_CHECK(again.len == out.len && memcmp(again.data, out.data, out.len) == 0);
    }
    buf_clear(&out);
    FUZZ_CHECK(json_put_string(&out, s, size) == 0);
    FUZZ_CHECK(json_walk(out.data, out.len, look, &seen) == 0);
    buf_fini(&out);
    buf_fini(&again);
    return 0;
}
