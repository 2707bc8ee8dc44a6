/* SPDX-License-Identifier: MIT */
/* Short texts that people write, and texts that are made fit for people: sizes, times, numbers, UTF-8, hexadecimal
 * digits. */
#include "libcommon/conf.h"
#include "libcommon/error.h"
#include "libcommon/hex.h"
#include "libcommon/model-parts.h"
#include "libcommon/plain.h"
#include "libcommon/units.h"
#include "libcommon/utf8.h"
#include "tests/fuzz/fuzz.h"
#include <string.h>

const char *const fuzz_seeds[] = {
    "512M",
    "1.5G",
    "500ms",
    "15min",
    "18446744073709551615",
    "-1e-3",
    "0x1p3",
    "nan",
    "model-00001-of-00003.gguf",
    "0123abcdef",
    "\xc3\xa9\xe2\x80\xae\xf0\x9f\x98\x80\xc2\x85\r\n\t\x1b[0m\xff",
    NULL,
};

static void read_values(const char *s)
{
    uint64_t v;
    float f;
    size_t stem;
    uint32_t no, count;
    char text[16];
    if (parse_size(s, &v) == 0) FUZZ_CHECK(strlen(format_size(text, v)) < sizeof(text));
    if (parse_time(s, &v) < 0) FUZZ_CHECK(strlen(error_text(-22)) > 4);
    if (parse_u64(s, 3, 1000, &v) == 0) FUZZ_CHECK(v >= 3 && v <= 1000);
    if (parse_float(s, -2, 2, &f) == 0) FUZZ_CHECK(f >= -2 && f <= 2);
    if (model_part_named(s, &stem, &no, &count)) FUZZ_CHECK(stem + 20 == strlen(s) && no < 100000 && count < 100000);
    static const char *const keys[] = {"temperature", "threads", "top-k", NULL};
    conf_nearest(s, keys);
}

static void read_utf8(const char *s, size_t n)
{
    size_t good = utf8_check(s, n), at = 0, whole = utf8_whole(s, n);
    FUZZ_CHECK(good <= n && whole <= n && n - whole < 4);
    while (at < n) {
        uint32_t cp;
        char back[4];
        size_t len = utf8_decode(s + at, n - at, &cp);
        if (!len) break;
        FUZZ_CHECK(utf8_encode(back, cp) == len && memcmp(back, s + at, len) == 0);
        at += len;
    }
    FUZZ_CHECK(at == good);
}

/* What is printed has no character that a terminal interprets. */
static void print(const char *s, size_t n)
{
    struct buf out = BUF_INIT;
    char small[32];
    FUZZ_CHECK(plain_line(&out, s, n) == 0);
    FUZZ_CHECK(utf8_check(out.data ? out.data : "", out.len) == out.len);
    for (size_t at = 0; at < out.len;) {
        uint32_t cp;
        at += utf8_decode(out.data + at, out.len - at, &cp);
        FUZZ_CHECK(!plain_commands(cp) && cp >= ' ');
    }
    size_t len = plain_into(small, sizeof(small), s, n);
    FUZZ_CHECK(len <= sizeof(small) && len <= out.len && memcmp(small, out.data ? out.data : "", len) == 0);
    buf_clear(&out);
    FUZZ_CHECK(plain_text(&out, s, n) == 0);
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[256], hex[257];
    uint8_t back[128];
    if (size >= sizeof(text)) return 0;
    if (size) memcpy(text, data, size);
    text[size] = 0;
    read_values(text);
    read_utf8(text, size);
    print(text, size);
    if (size > sizeof(back)) return 0;
    hex_write(hex, data, size);
    FUZZ_CHECK(hex_read(back, hex, size) && (!size || memcmp(back, data, size) == 0));
    hex_read(back, text, size / 2);
    return 0;
}
