/* SPDX-License-Identifier: MIT */
/* Also tests formats.c. */
#include "tests/libcommon/check.h"
#include "tests/text/schema/schema-check.h"
#include <errno.h>

static void dates_and_times(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'string','format':'date'}",
         {"'2024-02-29'", "'2000-02-29'", "'2023-12-31'", "'0001-01-01'", "'2023-04-30'"},
         {"'2023-02-29'", "'1900-02-29'", "'2023-04-31'", "'2023-13-01'", "'2023-00-10'", "'2023-1-1'", "'0000-01-01'",
          "'2023-02-30'", "''"}},
        {"{'type':'string','format':'time'}",
         {"'08:30:06Z'", "'23:59:59.123+01:30'", "'23:59:60Z'", "'00:00:00z'"},
         {"'08:30:06'", "'24:00:00Z'", "'08:60:00Z'", "'08:30:60Z'", "'08:30:06+24:00'", "'8:30:06Z'"}},
        {"{'type':'string','format':'date-time'}",
         {"'2024-02-29T08:30:06Z'", "'1990-12-31t15:59:50.123-08:00'"},
         {"'2023-02-29T08:30:06Z'", "'2024-02-29 08:30:06Z'", "'2024-02-29'"}},
        {"{'type':'string','format':'duration'}",
         {"'P4DT12H30M5S'", "'P1Y2M3D'", "'PT0S'", "'P2W'", "'P1M'"},
         {"'P'", "'PT'", "'P1Y2W'", "'P2D1Y'", "'4D'", "'P1D2H'"}},
    };
    CHECK(cases);
}

static void names_and_addresses(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'string','format':'email'}",
         {"'joe@example.com'", "'a.b+c@x'", "'\\\"a b\\\"@x.org'", "'joe@[127.0.0.1]'"},
         {"'joe'", "'.a@x'", "'a..b@x'", "'a@'", "'a@-x'"}},
        {"{'type':'string','format':'hostname'}",
         {"'example.com'", "'a-b.c'", "'A1'", "'a--b'", "'abc-d'"},
         {"'-a'", "'a-'", "''", "'a..b'", "'a_b'", "'xn--x'", "'ab--c'"}},
        {"{'type':'string','format':'ipv4'}",
         {"'127.0.0.1'", "'255.255.255.255'"},
         {"'256.0.0.1'", "'1.2.3'", "'01.2.3.4'"}},
        {"{'type':'string','format':'ipv6'}",
         {"'::1'", "'::'", "'1:2:3:4:5:6:7:8'", "'fe80::a'", "'::ffff:1.2.3.4'", "'1::8'"},
         {"'1:2:3:4:5:6:7'", "'1::2::3'", "'12345::'", "':1'", "'::1%eth0'"}},
        {"{'type':'string','format':'uuid'}",
         {"'2EB8AA08-aa98-11ea-b4aa-73b441d16380'"},
         {"'2eb8aa08aa9811eab4aa73b441d16380'", "'2eb8aa08-aa98-11ea-b4aa-73b441d1638'"}},
    };
    CHECK(cases);
}

static void references(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'string','format':'uri'}",
         {"'http://a.b/c?d=e#f'", "'urn:x:y'", "'mailto:a@b'", "'http:\\/\\/a'", "'http://[::1]:80/'"},
         {"'/a'", "'a b:c'", "'http://a b'", "'http://a/%zz'", "'http://a/\xc3\xa9'"}},
        {"{'type':'string','format':'uri-reference'}",
         {"'/a/b'", "''", "'#x'", "'a/b:c'", "'http://a'"},
         {"'\\\\a'", "'1:b'", "'#a#b'"}},
        {"{'type':'string','format':'iri'}", {"'http://\xc3\xa9/\xe4\xb8\xad'"}, {"'\xc3\xa9'"}},
        {"{'type':'string','format':'uri-template'}", {"'/a/{b}{?c,d*}'", "''"}, {"'/a/{b'", "'{}'"}},
        {"{'type':'string','format':'json-pointer'}", {"''", "'/a~0b/0'", "'/'"}, {"'a'", "'/a~'", "'/a~2'"}},
        {"{'type':'string','format':'relative-json-pointer'}",
         {"'0'", "'1/a'", "'2#'", "'0+1#'"},
         {"'/a'", "'01'", "'-1'"}},
    };
    CHECK(cases);
}

static void other_formats(void **state)
{
    (void)state;
    static const struct schema_case cases[] = {
        {"{'type':'string','format':'color'}", {"'x'"}, {"1"}},
        {"{'format':'date'}", {"1", "'2024-01-01'"}, {"'x'"}},
        {"{'type':'string','format':'ipv4','maxLength':7}", {"'1.2.3.4'"}, {"'10.2.3.4'"}},
        {"{'type':'string','not':{'format':'date'}}", {"'x'"}, {"'2024-01-01'"}},
    };
    CHECK(cases);
    schema_check_refused("{'type':'string','format':'regex'}", -ENOTSUP,
                         "format cannot be enforced at #/format: the format \"regex\"");
    schema_check_refused("{'items':{'format':'idn-hostname'}}", -ENOTSUP, "#/items/format");
    schema_check_refused("{'not':{'format':'color'}}", -EINVAL, "no value");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_and_times),
        cmocka_unit_test(names_and_addresses),
        cmocka_unit_test(references),
        cmocka_unit_test(other_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
