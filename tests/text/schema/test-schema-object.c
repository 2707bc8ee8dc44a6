/* SPDX-License-Identifier: MIT */
/* Also tests object-order.c, object-any-order.c and schema-keys.c. */
#include "tests/libcommon/check.h"
#include "tests/text/schema/schema-check.h"
#include <errno.h>

static void properties_come_in_order(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'object','properties':{'a':{'type':'integer'},'b':{'type':'string'},'c':true},'required':['b']}",
         {"{'b':'x'}", "{'a':1,'b':'x'}", "{'b':'x','c':null}", "{'a':1,'b':'x','c':[],'d':1}", "{'a': 1, 'b': 'x'}",
          "{\n  'b': 'x',\n  'c': 1\n}"},
         {"{}", "{'a':1}", "{'a':'x','b':'x'}", "{'b':1}", "{'b':'x','a':1}", "{'b':'x','b':'x'}", "{'b':'x',}",
          "{'b'\n:'x'}", "{'d':1,'b':'x'}"}},
        {"{'type':'object','additionalProperties':false}", {"{}"}, {"{'a':1}"}},
        {"{'type':'object','properties':{'a':true},'additionalProperties':{'type':'integer'}}",
         {"{}", "{'a':'x','b':1}", "{'b':1,'cc':2}"},
         {"{'b':'x'}"}},
        {"{'type':'object','required':['a','b'],'additionalProperties':{'const':1}}",
         {"{'a':1,'b':1}", "{'a':1,'b':1,'c':1}"},
         {"{'a':1}", "{'a':2,'b':1}"}},
        {"{'type':'object','properties':{'a':false}}", {"{}", "{'b':1}"}, {"{'a':1}"}},
        {"{'type':'object','properties':{'\xc3\xa9\\n':{'const':1}},'required':['\xc3\xa9\\n']}",
         {"{'\xc3\xa9\\n':1}", "{'\\u00e9\\u000a':1}"},
         {"{'e':1}"}},
        {"{'type':'object','properties':{'a':true},'additionalProperties':false,'minProperties':1}",
         {"{'a':1}"},
         {"{}"}},
    };
    CHECK(cases);
}

static void properties_in_any_order(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'object','properties':{'a':true,'b':{'type':'string'},'c':true},'required':['b']}",
         {"{'b':'x','a':1}", "{'c':1,'d':2,'b':'x','a':1}", "{'b':'x'}"},
         {"{}", "{'c':1,'a':1}", "{'b':1}", "{'a':1,'b':'x','a':1}"}},
        {"{'type':'object','properties':{'a':true,'b':true},'maxProperties':2}",
         {"{'b':1,'a':1}", "{'z':1,'a':1}", "{}"},
         {"{'a':1,'b':1,'c':1}"}},
        {"{'type':'object','properties':{'a':true,'b':true,'c':true,'d':true,'e':true,'f':true,'g':true},'required':['"
         "g','a'],"
         "'additionalProperties':false}",
         {"{'g':1,'a':1}", "{'f':1,'a':1,'b':1,'g':1,'e':1}"},
         {"{'a':1}", "{'g':1,'b':1}", "{'a':1,'g':1,'h':1}"}},
        {"{'const':{'a':1,'b':[2]}}", {"{'b':[2],'a':1}", "{'a':1,'b':[2]}"}, {"{'a':1}", "{'a':1,'b':[2],'c':1}"}},
    };
    CHECK_WITH(cases, .any_order = true);
}

static void names(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'object','patternProperties':{'^x':{'type':'integer'},'y$':{'minimum':5}},'additionalProperties':"
         "false}",
         {"{}", "{'x':1}", "{'y':'a'}", "{'xy':5}"},
         {"{'x':'a'}", "{'y':4}", "{'xy':1}", "{'z':1}"}},
        {"{'type':'object','properties':{'xa':{'maximum':3}},'patternProperties':{'^x':{'type':'integer'}}}",
         {"{'xa':3}", "{'xb':9}", "{'c':'x'}"},
         {"{'xa':4}", "{'xa':1.5}", "{'xb':'x'}"}},
        {"{'type':'object','propertyNames':{'pattern':'^[a-z]+$','maxLength':2}}",
         {"{}", "{'a':1,'bc':2}"},
         {"{'A':1}", "{'abc':1}", "{'':1}"}},
        {"{'type':'object','propertyNames':{'enum':['a','b']}}", {"{'a':1}", "{'b':2}"}, {"{'c':1}"}},
        {"{'type':'object','properties':{'abc':true},'propertyNames':{'maxLength':2},'required':['a']}",
         {"{'a':1}"},
         {"{'a':1,'abc':1}", "{'abc':1}"}},
        {"{'type':'object','not':{'propertyNames':{'maxLength':2}}}",
         {"{'abc':1}", "{'a':1,'abc':1}"},
         {"{}", "{'a':1}"}},
        {"{'type':'object','not':{'additionalProperties':{'type':'string'}}}",
         {"{'a':1}", "{'b':'x','c':1}"},
         {"{}", "{'a':'x'}"}},
        {"{'type':'object','not':{'patternProperties':{'a':{'type':'string'}}}}",
         {"{'xa':1}", "{'b':1,'a':1}"},
         {"{'a':'x'}", "{'b':1}"}},
    };
    CHECK(cases);
}

static void numbers_of_properties(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'object','minProperties':1}", {"{'a':1}", "{'a':1,'b':1}"}, {"{}"}},
        {"{'type':'object','maxProperties':2}", {"{}", "{'a':1,'b':1}"}, {"{'a':1,'b':1,'c':1}"}},
        {"{'type':'object','properties':{'a':true,'b':true,'c':true},'additionalProperties':false,'minProperties':2,'"
         "maxProperties':2}",
         {"{'a':1,'b':1}", "{'a':1,'c':1}", "{'b':1,'c':1}"},
         {"{}", "{'c':1}", "{'a':1,'b':1,'c':1}"}},
        {"{'type':'object','required':['a','b'],'minProperties':2}", {"{'a':1,'b':1}"}, {"{'a':1}"}},
        {"{'type':'object','not':{'minProperties':2}}", {"{}", "{'a':1}"}, {"{'a':1,'b':1}"}},
        {"{'type':'object','properties':{'a':true},'not':{'maxProperties':0}}", {"{'a':1}", "{'b':1}"}, {"{}"}},
    };
    CHECK(cases);
    schema_check_refused("{'type':'object','minProperties':2}", -ENOTSUP,
                         "minProperties cannot be enforced at #/minProperties");
}

static void dependencies(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'object','properties':{'a':true,'b':true},'dependentRequired':{'a':['b']}}",
         {"{}", "{'b':1}", "{'a':1,'b':1}"},
         {"{'a':1}", "{'a':1,'c':1}"}},
        {"{'type':'object','properties':{'a':true,'b':{}},'dependencies':{'a':['b']}}",
         {"{}", "{'a':1,'b':1}"},
         {"{'a':1}"}},
        {"{'type':'object','properties':{'a':true,'b':{}},'dependentSchemas':{'a':{'properties':{'b':{'type':'null'}}}}"
         "}",
         {"{'b':1}", "{'a':1}", "{'a':1,'b':null}"},
         {"{'a':1,'b':1}"}},
        {"{'type':'object','properties':{'a':true,'b':{}},'not':{'dependentRequired':{'a':['b']}}}",
         {"{'a':1}"},
         {"{}", "{'b':1}", "{'a':1,'b':1}"}},
    };
    CHECK(cases);
}

static void unevaluated_properties(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'object','properties':{'a':true},'allOf':[{'properties':{'b':true}}],'unevaluatedProperties':false}",
         {"{}", "{'b':1}", "{'a':1}"},
         {"{'c':1}"}},
        {"{'type':'object','anyOf':[{'properties':{'a':{'const':1}},'required':['a']},{'properties':{'b':{'const':2}},'"
         "required':['b']}],"
         "'unevaluatedProperties':false}",
         {"{'a':1}", "{'b':2}", "{'a':1,'b':2}"},
         {"{}", "{'a':1,'c':1}", "{'a':1,'b':3}"}},
        {"{'type':'object','if':{'properties':{'a':{'const':1}},'required':['a']},'then':{'properties':{'b':true}},'"
         "else':{'properties':{'c':true}},"
         "'unevaluatedProperties':false}",
         {"{'a':1,'b':1}", "{'c':1}", "{}"},
         {"{'a':1,'c':1}", "{'b':1}", "{'a':2}"}},
        {"{'type':'object','$ref':'#/$defs/"
         "x','unevaluatedProperties':{'type':'integer'},'$defs':{'x':{'properties':{'a':{'type':'string'}}}}}",
         {"{'a':'x','b':1}"},
         {"{'a':1}", "{'b':'x'}"}},
        {"{'type':'object','not':{'not':{'properties':{'a':true}}},'unevaluatedProperties':false}",
         {"{}"},
         {"{'a':1}"}},
    };
    CHECK(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(properties_come_in_order),
        cmocka_unit_test(properties_in_any_order),
        cmocka_unit_test(names),
        cmocka_unit_test(numbers_of_properties),
        cmocka_unit_test(dependencies),
        cmocka_unit_test(unevaluated_properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
