/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/json-tree.h"
#include "daemon/text/schema/schema.h"
#include "libcommon/error.h"
#include "tests/fuzz/fuzz.h"
#include <errno.h>
#include <string.h>

/* The first byte has the options. */
const char *const fuzz_seeds[] = {
    "0{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":3,\"multipleOf\":2},\"b\":{\"$ref\":"
    "\"#/"
    "$defs/"
    "x\"}},\"required\":[\"a\"],\"$defs\":{\"x\":{\"type\":[\"string\",\"null\"],\"minLength\":2,\"pattern\":\"^[a-z]+"
    "\"}}}",
    "1{\"anyOf\":[{\"const\":[1,{\"x\":\"\\u00e9\"}]},{\"enum\":[1,\"a\",null]},{\"items\":{\"$ref\":\"#\"},\"type\":"
    "\"array\","
    "\"maxItems\":3,\"prefixItems\":[true]}]}",
    "2{\"not\":{\"type\":\"string\"},\"oneOf\":[{\"exclusiveMinimum\":0,\"type\":\"number\"},{\"required\":[\"k\"],"
    "\"type\":"
    "\"object\",\"additionalProperties\":false,\"patternProperties\":{\"^k\":{\"format\":\"date\"}}}]}",
    "3{\"if\":{\"properties\":{\"a\":{\"const\":1}}},\"then\":{\"required\":[\"b\"]},\"else\":{\"propertyNames\":{"
    "\"maxLength\":3}},"
    "\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2}",
    "0{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[1,2,3]},\"contains\":{\"const\":2},\"minItems\":2}",
    "4{\"allOf\":[{\"type\":\"string\",\"format\":\"ipv4\"},{\"maxLength\":9},{\"pattern\":\"(?=1)\\\\d+\"}],\"$"
    "schema\":"
    "\"http://json-schema.org/draft-07/schema#\"}",
    NULL,
};

/* An answer is JSON. In any order, a property may come twice (schema.h). */
static void check_json(const char *s, size_t n)
{
    struct jj_budget budget = {.left = 64 << 20};
    struct jj_arena arena = {.budget = &budget};
    struct tree *t;
    int r = tree_parse(&arena, s, n, &t);
    if (r < 0 && r != -E2BIG && !strstr(error_text(r), "stands twice")) fuzz_fail(error_text(r), s);
    jj_arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct grammar_builder *b;
    struct buf ignored = BUF_INIT;
    expr_t root;
    if (size < 2 || size > 4096 || grammar_builder_new(&b) < 0) return 0;
    struct schema_options o = {.any_order = data[0] & 1, .compact = data[0] & 2, .lenient = data[0] & 4};
    int r = schema_expr(b, (const char *)data + 1, size - 1, &o, &ignored, &root);
    if (r == 0) {
        fuzz_grammar(b, root, data, size, check_json);
    } else {
        fuzz_refused(r);
        grammar_builder_free(b);
    }
    buf_fini(&ignored);
    return 0;
}
