/* SPDX-License-Identifier: MIT */
#include "client/http/json-body.h"
#include "libcommon/error.h"
#include "libcommon/json-whole.h"
#include <errno.h>
#include <stdbool.h>

/* 0; negative with *f. The text may be malformed: the parser finds that later. */
static int scan(const struct buf *body, struct fault *f)
{
    unsigned depth = 0, values = 0;
    bool quoted = false;
    for (size_t i = 0; i < body->len; i++) {
        char c = body->data[i];
        if (quoted) {
            if (c == '\\') i++;
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            depth++;
            values++;
        } else if (c == '}' || c == ']') {
            if (depth > 0) depth--;
        } else if (c == ',') {
            values++;
        }
        if (depth > JSON_BODY_DEPTH) return fault_set(f, 400, NULL, "JSON is nested deeper than %d", JSON_BODY_DEPTH);
        if (values > JSON_BODY_VALUES)
            return fault_set(f, 413, NULL, "the request has more than %d values", JSON_BODY_VALUES);
    }
    return 0;
}

int json_body_read(json_t **out, struct buf *body, struct fault *f)
{
    json_error_t e;
    int r = scan(body, f);
    *out = NULL;
    if (r == 0) {
        r = json_whole_load(out, body->data ? body->data : "", body->len, JSON_REJECT_DUPLICATES, &e);
        if (r == -EBADMSG)
            r = fault_set(f, 400, NULL, "invalid JSON, line %d, column %d: %s", e.line, e.column, e.text);
        else if (r < 0)
            r = fault_of_error(f, error_origin(r));
    }
    if (r == 0 && !json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
        r = fault_set(f, 400, NULL, "the request is not a JSON object");
    }
    buf_fini(body);
    return r;
}
