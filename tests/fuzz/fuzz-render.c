/* SPDX-License-Identifier: MIT */
/* Markdown for a terminal: every byte stays in its order, whole and in pieces. Byte 0: the size of the pieces. */
#include "client/render.h"
#include "client/width.h"
#include "tests/fuzz/fuzz.h"
#include <string.h>

const char *const fuzz_seeds[] = {
    "3# A *title* with `code`\n\n- **bold** and __bold__ _it_\n\n```c\nint x;\n```\n",
    "1~~~~\n``` ~~~ \n~~~~\n\\*no\\* ***both*** a_b_c `` ` ``",
    "7    indented **x\n* * *\n1. one\n> quote `open\nnext",
    NULL,
};

static void check_same(const char *text, size_t n, const struct buf *out)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++, at++) {
        while (at + 1 < out->len && out->data[at] == 27 && out->data[at + 1] == '[' && text[i] != 27) {
            const char *end = memchr(out->data + at, 'm', out->len - at);
            FUZZ_CHECK(end);
            at = (size_t)(end - out->data) + 1;
        }
        FUZZ_CHECK(at < out->len && out->data[at] == text[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct render whole = {0}, r = {0};
    struct buf a = BUF_INIT, b = BUF_INIT;
    if (size < 2) return 0;
    const char *text = (const char *)data + 1;
    size_t n = size - 1, piece = 1 + data[0] % 16, len;
    FUZZ_CHECK(render_text(&whole, &a, text, n) == 0 && render_end(&whole, &a) == 0);
    for (size_t at = 0; at < n; at += piece)
        FUZZ_CHECK(render_text(&r, &b, text + at, n - at < piece ? n - at : piece) == 0);
    FUZZ_CHECK(render_end(&r, &b) == 0);
    FUZZ_CHECK(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
    if (!memchr(text, 27, n)) check_same(text, n, &a);
    if (size < 256 && !memchr(text, 0, n)) { /* the columns of a line */
        char line[256];
        memcpy(line, text, n);
        line[n] = 0;
        unsigned used, all = width_columns(line);
        FUZZ_CHECK(width_fit(line, 20, &used) <= n && used <= 20 && used <= all);
        if (n) FUZZ_CHECK(width_first(line, &len) <= 2 && len >= 1);
    }
    buf_fini(&a);
    buf_fini(&b);
    return 0;
}
