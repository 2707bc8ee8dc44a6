/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/regex-syntax.h"
#include "tests/fuzz/fuzz.h"

const char *const fuzz_seeds[] = {
    "^(?P<year>[0-9]{4})-(0[1-9]|1[0-2])(?i:t|Z)?$",
    "[[:alpha:]_][^\\d\\s\\x{1F600}-\\x{1F64F}]*?\\Q.*\\E(a|ab)(c|bcd)(d*)",
    "(?s).{2,5}|(?:\\w+\\.)+\\x41{3,}|\\*\\[\\]",
    "(((a{0,9}){0,9}){0,9})*b|.*a.{12}",
    "\\A[a-c&&[^b]]+\\z|\xc3\xa9+",
    NULL,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct grammar_builder *b;
    expr_t root;
    if (size > 1024 || grammar_builder_new(&b) < 0) return 0;
    int r = regex_parse(b, (const char *)data, size, &root);
    if (r == 0) {
        fuzz_grammar(b, root, data, size, NULL);
    } else {
        fuzz_refused(r);
        grammar_builder_free(b);
    }
    return 0;
}
