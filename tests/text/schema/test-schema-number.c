/* SPDX-License-Identifier: MIT */
#include "tests/libcommon/check.h"
#include "tests/text/schema/schema-check.h"
#include <errno.h>

static void integers_are_plain_digits(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'integer'}",
         {"0", "7", "-12", "100000000000000000000"},
         {"", "-", "-0", "01", "1.0", "1e2", "+1", "true", "'1'"}},
        {"{'type':'integer','minimum':-3,'maximum':12}",
         {"-3", "-1", "0", "9", "10", "12"},
         {"-4", "-10", "13", "20", "100", "1."}},
        {"{'type':'integer','exclusiveMinimum':9,'exclusiveMaximum':100}",
         {"10", "50", "99"},
         {"9", "100", "-10", "1"}},
        {"{'type':'integer','minimum':2.5,'maximum':4.5}", {"3", "4"}, {"2", "5"}},
        {"{'type':'integer','minimum':5,'exclusiveMinimum':true}", {"6"}, {"5"}},
        {"{'type':'integer','minimum':5,'exclusiveMinimum':false}", {"5"}, {"4"}},
        {"{'type':'integer','minimum':-20,'maximum':-10}", {"-20", "-11", "-10"}, {"-21", "-9", "10", "-1", "-100"}},
        {"{'type':'integer','minimum':1e3,'maximum':1.2E+3}", {"1000", "1200"}, {"999", "1201"}},
        {"{'type':'integer','minimum':18446744073709551616}",
         {"18446744073709551616", "20000000000000000000"},
         {"18446744073709551615"}},
    };
    CHECK(cases);
}

static void numbers_have_points_and_exponents(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'number'}",
         {"0", "-0", "1.5", "-2.25e10", "1E-7", "1e+299"},
         {".5", "1.", "01.5", "1e", "NaN", "1e999", "--1"}},
        {"{'type':'number','minimum':0}", {"0", "0.0", "1.5e3", "3"}, {"-1", "-0.5"}},
        {"{'type':'number','exclusiveMinimum':0}", {"0.001", "2"}, {"0", "0.0", "0.00", "-1"}},
        {"{'type':'number','minimum':-2.5,'maximum':1.25}",
         {"-2.5", "-2.50", "-2.49", "0", "1.25", "1.2", "1.250"},
         {"-2.51", "-3", "1.26", "1.2501", "2", "10"}},
        {"{'type':'number','exclusiveMaximum':1.25}", {"1.24999", "-7.5", "1"}, {"1.25", "1.250", "1.3"}},
        {"{'type':'number','minimum':0.05}", {"0.05", "0.1", "1"}, {"0.0499", "0", "0.0"}},
        {"{'type':'number','maximum':-100}", {"-100", "-100.0", "-100.5", "-1000"}, {"-99.9", "0", "100"}},
        {"{'type':'number','not':{'type':'integer'}}", {"1.5", "-0.25"}, {"1", "1.0", "2.00"}},
    };
    CHECK(cases);
}

static void multiples(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'integer','multipleOf':5}", {"0", "5", "-10", "125"}, {"1", "51"}},
        {"{'type':'integer','multipleOf':25}", {"0", "25", "50", "100", "1075"}, {"5", "10", "1020"}},
        {"{'type':'integer','multipleOf':7}", {"0", "7", "-14", "700", "7777777"}, {"1", "6", "71", "07"}},
        {"{'type':'integer','multipleOf':1000}", {"0", "1000", "-25000"}, {"100", "1500"}},
        {"{'type':'integer','multipleOf':30,'minimum':0}", {"0", "30", "300"}, {"-30", "3", "10"}},
        {"{'type':'integer','multipleOf':7,'maximum':0}", {"0", "-7", "-14"}, {"7", "14", "-1"}},
        {"{'type':'number','multipleOf':7,'maximum':0}", {"0", "0.0", "-7.0"}, {"7", "14.0", "-1"}},
        {"{'type':'number','multipleOf':7,'minimum':0,'maximum':0}", {"0", "0.0"}, {"7", "-7"}},
        {"{'type':'integer','multipleOf':7,'exclusiveMaximum':0}", {"-7", "-14", "-70"}, {"0", "-0", "7", "-1"}},
        {"{'type':'integer','multipleOf':7,'exclusiveMinimum':0}", {"7", "14", "105"}, {"0", "-7", "-0", "1"}},
        {"{'type':'number','multipleOf':7,'exclusiveMaximum':0}",
         {"-7", "-7.0", "-70"},
         {"0", "-0.0", "-0", "7", "-1"}},
        {"{'type':'number','multipleOf':0.03,'exclusiveMinimum':0}",
         {"0.03", "0.3", "0.30", "0.060", "3", "1.02", "12.000"},
         {"0", "0.0", "0.00", "0.01", "-0.03", "0.1"}},
        {"{'type':'integer','multipleOf':3,'minimum':5,'maximum':12}", {"6", "9", "12"}, {"3", "5", "15"}},
        {"{'type':'integer','multipleOf':7,'minimum':0.001,'maximum':20.05}", {"7", "14"}, {"0", "21", "-7", "8"}},
        {"{'type':'number','multipleOf':0.01}", {"1", "1.5", "1.25", "1.250", "-3.00"}, {"1.255", "0.001"}},
        {"{'type':'number','multipleOf':2.5}",
         {"0", "2.5", "5", "7.50", "-10.0", "12.5"},
         {"1", "2", "2.55", "7.05", "1.5"}},
        {"{'type':'number','multipleOf':0.125}", {"0.125", "0.25", "1", "3.375"}, {"0.1", "0.12", "3.37"}},
        {"{'type':'number','multipleOf':1.5}", {"0", "0.0", "1.5", "3", "4.50", "-1.5"}, {"1", "1.55", "2.5", "0.15"}},
        {"{'type':'number','multipleOf':3}", {"3", "3.0", "6.00"}, {"3.5", "1"}},
        {"{'type':'integer','allOf':[{'multipleOf':2},{'multipleOf':3}]}", {"6", "12"}, {"2", "3", "4"}},
        {"{'type':'integer','not':{'multipleOf':2}}", {"1", "-3"}, {"2", "0"}},
    };
    CHECK(cases);
}

static void values(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'const':1.5}", {"1.5", "1.50"}, {"1.51", "15", "-1.5"}},
        {"{'enum':[1,2.0,-3]}", {"1", "1.0", "2", "2.0", "-3"}, {"3", "-1"}},
        {"{'type':'integer','enum':[1,2.5,300]}", {"1", "300"}, {"2.5", "1.0"}},
        {"{'type':'number','not':{'enum':[1,2]}}", {"0", "3", "1.5"}, {"1", "1.0", "2.00"}},
        {"{'enum':[1,2,3,40],'minimum':2,'multipleOf':2}", {"2", "40"}, {"1", "3"}},
        {"{'const':1e400}", {"1e400"}, {"1"}},
    };
    CHECK(cases);
    schema_check_refused("{'enum':[2469135780246913578024],'multipleOf':1234567890123456789012}", -ENOTSUP,
                         "multipleOf cannot be enforced at #/multipleOf: of more than 18 digits");
    schema_check_refused("{'exclusiveMinimum':true}", -EBADMSG, "a limit is missing beside it at #/exclusiveMinimum");
    schema_check_refused("{'minimum':1,'exclusiveMaximum':true}", -EBADMSG, "a limit is missing beside it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_plain_digits),
        cmocka_unit_test(numbers_have_points_and_exponents),
        cmocka_unit_test(multiples),
        cmocka_unit_test(values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
