/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/utf8-ranges.h"
#include "libcommon/utf8.h"

/* @first and @last have encodings of @n bytes. Splits where the bytes behind the first different one do not cover all
 * continuations. */
static size_t split(uint32_t first, uint32_t last, unsigned n, struct utf8_sequence *out)
{
    for (unsigned i = 1; i < n; i++) {
        uint32_t m = (1u << 6 * i) - 1;
        if ((first & ~m) == (last & ~m)) continue;
        uint32_t middle = (first & m) != 0 ? first | m : (last & m) != m ? (last & ~m) - 1 : last;
        if (middle == last) continue;
        size_t k = split(first, middle, n, out);
        return k + split(middle + 1, last, n, out + k);
    }
    utf8_encode((char *)out->first, first);
    utf8_encode((char *)out->last, last);
    out->n = n;
    return 1;
}

size_t utf8_ranges(uint32_t first, uint32_t last, struct utf8_sequence out[UTF8_SEQUENCES_MAX])
{
    static const struct {
        uint32_t first, last;
        unsigned n;
    } blocks[] = {{0, 0x7f, 1}, {0x80, 0x7ff, 2}, {0x800, 0xd7ff, 3}, {0xe000, 0xffff, 3}, {0x10000, 0x10ffff, 4}};
    size_t n = 0;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        uint32_t a = first > blocks[i].first ? first : blocks[i].first,
                 b = last < blocks[i].last ? last : blocks[i].last;
        if (a <= b) n += split(a, b, blocks[i].n, out + n);
    }
    return n;
}
