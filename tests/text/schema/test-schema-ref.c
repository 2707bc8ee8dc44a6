/* SPDX-License-Identifier: MIT */
#include "tests/libcommon/check.h"
#include "tests/text/schema/schema-check.h"
#include <errno.h>

static void references_inside_the_document(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'$ref':'#/$defs/a','$defs':{'a':{'type':'integer'}}}", {"1"}, {"'x'"}},
        {"{'$ref':'#/definitions/a~1b%25','definitions':{'a/b%':{'type':'integer'}}}", {"1"}, {"'x'"}},
        {"{'$ref':'#x','$defs':{'q':{'$anchor':'x','const':1}}}", {"1"}, {"2"}},
        {"{'$id':'http://a/b/root.json','$ref':'item.json','$defs':{'i':{'$id':'item.json','$ref':'#/$defs/"
         "n','$defs':{'n':{'const':7}}}}}",
         {"7"},
         {"8"}},
        {"{'allOf':[{'$ref':'#/$defs/a'}],'$ref':'#/$defs/b','$defs':{'a':{'minimum':2},'b':{'type':'integer'}}}",
         {"2"},
         {"1", "'x'"}},
        {"{'$schema':'http://json-schema.org/draft-07/schema#','$ref':'#/definitions/"
         "a','type':'string','definitions':{'a':{'const':1}}}",
         {"1"},
         {"'x'"}},
        {"{'$dynamicRef':'#x','$defs':{'q':{'$dynamicAnchor':'x','const':1}}}", {"1"}, {"2"}},
        {"{'properties':{'enum':{'$id':'x','const':1}},'$defs':{'q':{'$ref':'x'}},'$ref':'#/$defs/q'}", {"1"}, {"2"}},
    };
    CHECK(cases);
}

static void recursion(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'object','properties':{'v':{'type':'integer'},'next':{'$ref':'#'}},'required':['v'],'"
         "additionalProperties':false}",
         {"{'v':1}", "{'v':1,'next':{'v':2,'next':{'v':3}}}"},
         {"{}", "{'v':1,'next':{}}", "{'v':1,'next':1}"}},
        {"{'$ref':'#/$defs/t','$defs':{'t':{'anyOf':[{'type':'null'},{'type':'array','items':{'$ref':'#/$defs/t'}}]}}}",
         {"null", "[[],[null,[]]]"},
         {"1", "[1]"}},
        {"{'type':'object','properties':{'a':{'$ref':'#/$defs/"
         "b'}},'$defs':{'b':{'type':'array','items':{'$ref':'#'}}}}",
         {"{'a':[{'a':[]}]}"},
         {"{'a':[{'a':1}]}"}},
    };
    CHECK(cases);
}

static void what_cannot_be_resolved_is_refused(void **state)
{
    (void)state;
    schema_check_refused("{'$ref':'#/$defs/x'}", -ENOTSUP,
                         "$ref cannot be enforced at #/$ref: \"#/$defs/x\" is not in this document");
    schema_check_refused("{'$ref':'http://example.com/s'}", -ENOTSUP, "not in this document");
    schema_check_refused("{'$ref':'#'}", -EBADMSG, "refers to itself");
    schema_check_refused("{'anyOf':[{'$ref':'#'},{'type':'null'}]}", -EBADMSG, "refers to itself");
    schema_check_refused("{'$ref':1}", -EBADMSG, "reference");
    schema_check_refused("{'type':'object','properties':{'n':{'$ref':'#'}},'required':['n']}", -EDOM, "no text");
    schema_check_refused("{'$defs':{'a':{'$id':'a','$dynamicAnchor':'x'},'b':{'$id':'b','$dynamicAnchor':'x','items':{'"
                         "$dynamicRef':'#x'}}},'$ref':'b'}",
                         -ENOTSUP, "$dynamicRef cannot be enforced");
    schema_check_refused("{'$schema':'http://example.com/mine'}", -ENOTSUP, "$schema");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(references_inside_the_document),
        cmocka_unit_test(recursion),
        cmocka_unit_test(what_cannot_be_resolved_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
