/* SPDX-License-Identifier: MIT */
/* allOf, anyOf, oneOf, not, if; type, enum, const. Also tests schema-expand.c, schema-hold.c, schema-negate.c,
 * schema-limits.c, schema-one-of.c, schema-proof.c, schema-values.c, schema-value.c and schema-compile.c. */
#include "tests/libcommon/check.h"
#include "tests/text/schema/schema-check.h"
#include <errno.h>

static void types_and_values(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{}", {"null", "true", "[{'a':[1,'x',{}]}]", "-1.5e3", "'a'"}, {"", "nul", "{a:1}", "tru", " 1"}},
        {"true", {"1"}, {""}},
        {"{'type':['null','boolean']}", {"null", "true", "false"}, {"0", "''"}},
        {"{'enum':['a\\n','\xc3\xa9',null,[1,{'b':2}],true]}",
         {"'a\\n'", "'\xc3\xa9'", "'\\u00E9'", "null", "[1,{'b':2}]", "[1, {'b': 2}]", "true"},
         {"'a'", "[1]", "false", "[1,{}]"}},
        {"{'enum':['a','bb','ccc'],'minLength':2,'not':{'const':'bb'}}", {"'ccc'"}, {"'a'", "'bb'"}},
        {"{'enum':[{'a':1},{'a':2},{'b':1}],'required':['a'],'properties':{'a':{'maximum':1}}}",
         {"{'a':1}"},
         {"{'a':2}", "{'b':1}"}},
        {"{'enum':[[1,2],[1],[]],'minItems':1,'items':{'maximum':1}}", {"[1]"}, {"[]", "[1,2]"}},
        {"{'type':'boolean','not':{'const':true}}", {"false"}, {"true"}},
        {"{'not':{'type':['string','object','array','null']}}", {"1", "true"}, {"''", "null", "{}"}},
    };
    CHECK(cases);
}

static void all_any_one(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'allOf':[{'type':['string','integer']},{'type':['integer','null']},{'minimum':3}]}",
         {"3", "9"},
         {"2", "null", "''"}},
        {"{'anyOf':[{'type':'string','maxLength':1},{'const':5},false]}", {"'a'", "5"}, {"'ab'", "6", "null"}},
        {"{'oneOf':[{'type':'integer'},{'type':'string'}]}", {"1", "'a'"}, {"null", "1.5"}},
        {"{'oneOf':[{'type':'integer','minimum':5},{'type':'integer','maximum':7}]}",
         {"4", "8", "-1"},
         {"5", "6", "7"}},
        {"{'oneOf':[{'type':'string','pattern':'^a'},{'type':'string','pattern':'b$'},{'type':'null'}]}",
         {"'a'", "'b'", "'xb'", "null"},
         {"'ab'", "'axb'", "'c'"}},
        {"{'oneOf':[{'required':['a'],'properties':{'a':{'const':1}}},{'required':['b']}],'type':'object','properties':"
         "{'a':true,'b':true}}",
         {"{'a':1}", "{'b':1}", "{'a':2,'b':1}"},
         {"{}", "{'a':1,'b':1}", "{'a':2}"}},
        {"{'anyOf':[{'properties':{'t':{'const':'x'},'v':{'type':'integer'}},'required':['t','v'],'"
         "additionalProperties':false},"
         "{'properties':{'t':{'const':'y'}},'required':['t']}],'type':'object'}",
         {"{'t':'x','v':1}", "{'t':'y'}", "{'t':'y','v':'a'}"},
         {"{'t':'x'}", "{'t':'z'}"}},
    };
    CHECK(cases);
}

static void not_and_if(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'object','properties':{'a':true},'not':{'required':['a']}}", {"{}", "{'b':1}"}, {"{'a':1}"}},
        {"{'type':'string','not':{'anyOf':[{'pattern':'a'},{'minLength':3}]}}", {"''", "'bb'"}, {"'a'", "'bbb'"}},
        {"{'type':'string','not':{'allOf':[{'pattern':'a'},{'minLength':3}]}}", {"'a'", "'bbbb'"}, {"'abc'"}},
        {"{'not':{'not':{'type':'null'}}}", {"null"}, {"1"}},
        {"{'type':'integer','not':{'oneOf':[{'minimum':5},{'maximum':7}]}}", {"5", "7"}, {"4", "8"}},
        {"{'type':['integer','string'],'not':{'minimum':5,'maximum':7}}", {"4", "8"}, {"5", "'a'"}},
        {"{'type':'object','properties':{'k':{'enum':['x','y']},'v':{}},'required':['k'],'if':{'properties':{'k':{'"
         "const':'x'}}},"
         "'then':{'properties':{'v':{'type':'integer'}},'required':['v']},'else':{'properties':{'v':false}}}",
         {"{'k':'x','v':1}", "{'k':'y'}"},
         {"{'k':'x'}", "{'k':'x','v':'a'}", "{'k':'y','v':1}"}},
        {"{'if':{'type':'string'},'then':{'maxLength':1}}", {"'a'", "5", "[1]"}, {"'ab'"}},
        {"{'type':'array','not':{'minItems':2}}", {"[]", "[1]"}, {"[1,2]"}},
        {"{'type':'object','properties':{'a':{'type':'integer'},'b':{'type':'integer'}},'not':{'properties':{'a':{'"
         "minimum':5}}}}",
         {"{'a':4}", "{'a':1,'b':1}"},
         {"{}", "{'a':5}"}},
    };
    CHECK(cases);
}

static void contradictions_have_no_value(void **state)
{
    (void)state;
    static const char *const none[] = {"false",
                                       "{'not':{}}",
                                       "{'allOf':[{'type':'null'},{'type':'string'}]}",
                                       "{'enum':[]}",
                                       "{'type':'integer','minimum':5,'maximum':4}",
                                       "{'type':'string','minLength':2,'maxLength':1}",
                                       "{'type':'object','required':['a'],'properties':{'a':false}}",
                                       "{'const':1,'type':'string'}",
                                       "{'type':'string','allOf':[{'pattern':'^a'},{'pattern':'^b'}]}",
                                       "{'oneOf':[true,true]}"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) schema_check_refused(none[i], -EINVAL, "no value");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_and_values),
        cmocka_unit_test(all_any_one),
        cmocka_unit_test(not_and_if),
        cmocka_unit_test(contradictions_have_no_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
