/* SPDX-License-Identifier: MIT */
#include "tests/libcommon/check.h"
#include "tests/text/schema/schema-check.h"
#include <errno.h>

static void items_and_their_number(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'array'}", {"[]", "[1,'a',[null],{}]", "[\n 1]"}, {"", "[", "[1,]", "{}", "[,1]"}},
        {"{'type':'array','items':{'type':'integer'}}",
         {"[]", "[1]", "[1,2,3]", "[1, 2]"},
         {"['a']", "[1,null]", "[1  ,2]"}},
        {"{'type':'array','items':false}", {"[]"}, {"[1]"}},
        {"{'type':'array','minItems':2,'maxItems':3,'items':{'type':'null'}}",
         {"[null,null]", "[null,null,null]"},
         {"[]", "[null]", "[null,null,null,null]"}},
        {"{'type':'array','maxItems':0}", {"[]"}, {"[1]"}},
        {"{'prefixItems':[{'type':'integer'},{'type':'string'}]}",
         {"[]", "[1]", "[1,'a']", "[1,'a',null]", "'x'"},
         {"['a']", "[1,2]"}},
        {"{'type':'array','prefixItems':[{'const':1},{'const':2}],'items':{'const':3},'minItems':2}",
         {"[1,2]", "[1,2,3,3]"},
         {"[1]", "[1,2,4]", "[]"}},
        {"{'type':'array','items':[{'const':1}],'additionalItems':false}", {"[]", "[1]"}, {"[2]", "[1,1]"}},
        {"{'type':'array','prefixItems':[{'const':1},false]}", {"[]", "[1]"}, {"[1,2]"}},
        {"{'type':'array','allOf':[{'prefixItems':[{'minimum':2}]},{'items':{'type':'integer'}}]}",
         {"[2,1]", "[]"},
         {"[1]", "[2,'a']"}},
        {"{'type':'array','not':{'items':{'type':'integer'}}}",
         {"['a']", "[1,'a']", "[null,1]"},
         {"[]", "[1]", "[1,2]"}},
    };
    CHECK(cases);
}

static void contains(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'array','contains':{'type':'string'}}", {"['a']", "[1,'a']", "['a',1,'b']"}, {"[]", "[1]"}},
        {"{'type':'array','contains':{'const':1},'minContains':2}", {"[1,1]", "[1,2,1,3]"}, {"[1]", "[2,1]"}},
        {"{'type':'array','contains':{'const':1},'maxContains':1}", {"[1]", "[2,1,3]"}, {"[]", "[1,1]", "[1,2,1]"}},
        {"{'type':'array','contains':{'const':1},'minContains':0}", {"[]", "[2]", "[1]"}, {NULL}},
        {"{'type':'array','contains':{'const':1},'maxItems':3,'minItems':2}",
         {"[1,2]", "[2,3,1]"},
         {"[1]", "[2,3]", "[1,1,1,1]"}},
        {"{'type':'array','prefixItems':[{'type':'integer'}],'maxItems':2,'contains':{'type':'string'}}",
         {"[1,'a']"},
         {"[1]", "['a']", "[]"}},
        {"{'type':'array','not':{'contains':{'const':1}}}", {"[]", "[2]"}, {"[1]", "[2,1]"}},
    };
    CHECK(cases);
}

static void different_elements(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'array','uniqueItems':true,'items':{'enum':['a','b',1]}}",
         {"[]", "['b']", "['a',1,'b']"},
         {"['a','a']", "['b','a','b']", "['c']"}},
        {"{'type':'array','uniqueItems':true,'items':{'enum':[1,2,3]},'minItems':2,'maxItems':2}",
         {"[1,2]", "[3,1]"},
         {"[1]", "[1,2,3]", "[2,2]"}},
        {"{'type':'array','uniqueItems':true,'maxItems':1}", {"[]", "['x']"}, {"[1,2]"}},
        {"{'type':'array','uniqueItems':false}", {"[1,1]"}, {NULL}},
    };
    CHECK(cases);
    schema_check_refused("{'type':'array','items':{'type':'string'},'uniqueItems':true}", -ENOTSUP,
                         "uniqueItems cannot be enforced at #/uniqueItems");
}

static void unevaluated_items(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'array','prefixItems':[{'const':1}],'unevaluatedItems':false}", {"[]", "[1]"}, {"[1,2]"}},
        {"{'type':'array','allOf':[{'prefixItems':[true,{'const':2}]}],'unevaluatedItems':{'type':'string'}}",
         {"[1,2]", "[1,2,'a']"},
         {"[1,2,3]"}},
        {"{'type':'array','items':{'type':'integer'},'unevaluatedItems':false}", {"[1,2,3]"}, {"['a']"}},
        {"{'type':'array','prefixItems':[true],'anyOf':[{'prefixItems':[true,{'const':2}]},{'prefixItems':[true,true,{'"
         "const':3}]}],"
         "'unevaluatedItems':false}",
         {"[1]", "[1,2]", "[1,2,3]", "[1,5,3]"},
         {"[1,5,4]", "[1,2,3,4]"}},
    };
    CHECK(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_and_their_number),
        cmocka_unit_test(contains),
        cmocka_unit_test(different_elements),
        cmocka_unit_test(unevaluated_items),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
