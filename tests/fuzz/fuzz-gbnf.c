/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/gbnf.h"
#include "tests/fuzz/fuzz.h"

const char *const fuzz_seeds[] = {
    "root ::= (\"a\\x41\" | [^a-z\\u1234]{2,3} x*)+ # c\nx ::= root? \"b\" . | y{2}\ny ::= \"\\n\" x?",
    "root ::= s\ns ::= \"\" | s s | \"(\" s \")\"",
    "root ::= a\na ::= b \"x\" | \"y\"\nb ::= a \"z\" | a",
    "root ::= <[97]> !<[98]>* [^\\]\\U0001F600-\\U0001F64F] \"\\\"\\\\\"{,2}",
    "root ::= \"ab\"{2} [c]{2,} (\"d\" | \"e\"){0,2}\n\n# end",
    NULL,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct grammar_builder *b;
    expr_t root;
    if (size > 4096 || grammar_builder_new(&b) < 0) return 0;
    int r = gbnf_parse(b, (const char *)data, size, NULL, &root);
    if (r == 0) {
        fuzz_grammar(b, root, data, size, NULL);
    } else {
        fuzz_refused(r);
        grammar_builder_free(b);
    }
    return 0;
}
