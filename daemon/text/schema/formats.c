/* SPDX-License-Identifier: MIT */
/* The formats of JSON Schema 2020-12, section 7.3, as regular expressions. */
#include "daemon/text/schema/formats.h"
#include <string.h>

/* RFC 3339, section 5.6. Year 0 is left out, since many libraries have none. */
#define LEAP_YEAR "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define DATE                                                                                                           \
    "(?!0000)(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|"            \
    "02-(?:0[1-9]|1\\d|2[0-8]))|" LEAP_YEAR "-02-29)"
#define HOUR_MINUTE "(?:[01]\\d|2[0-3]):[0-5]\\d"
/* A leap second is 23:59:60 of UTC. */
#define TIME                                                                                                           \
    "(?:" HOUR_MINUTE ":[0-5]\\d(?:\\.\\d+)?(?:[Zz]|[+\\-]" HOUR_MINUTE ")|23:59:60(?:\\.\\d+)?(?:[Zz]|[+\\-]00:00))"

/* RFC 3339, appendix A. */
#define DURATION_TIME "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)"
#define DURATION                                                                                                       \
    "P(?:(?:\\d+D|\\d+M(?:\\d+D)?|\\d+Y(?:\\d+M(?:\\d+D)?)?)(?:" DURATION_TIME ")?|" DURATION_TIME "|\\d+W)"

#define OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4  OCTET "(?:\\." OCTET "){3}"
#define H16   "[0-9A-Fa-f]{1,4}"
#define LS32  "(?:" H16 ":" H16 "|" IPV4 ")"
/* RFC 3986, appendix A. */
#define IPV6                                                                                                           \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32 "|(?:(?:" H16            \
    ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16 ")?::(?:" H16 ":){2}" LS32 "|(?:(?:" H16      \
    ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16 ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16   \
    "|(?:(?:" H16 ":){0,6}" H16 ")?::)"

/* RFC 3986 with the characters @U of unreserved; RFC 3987 adds those of other scripts. */
#define PERCENT    "%[0-9A-Fa-f]{2}"
#define UNRESERVED "A-Za-z0-9\\-._~"
#define OTHER                                                                                                          \
    "\\u{A0}-\\u{D7FF}\\u{F900}-\\u{FDCF}\\u{FDF0}-\\u{FFEF}\\u{10000}-\\u{1FFFD}\\u{20000}-\\u{2FFFD}\\u{30000}-\\u{" \
    "3FFFD}"
#define PRIVATE        "\\u{E000}-\\u{F8FF}"
#define CHARS(U, more) "(?:[" U "!$&'()*+,;=" more "]|" PERCENT ")"
#define PCHAR(U)       CHARS(U, ":@")
#define AUTHORITY(U)                                                                                                   \
    "//(?:" CHARS(U, ":") "*@)?(?:\\[(?:" IPV6 "|[vV][0-9A-Fa-f]+\\.[" UNRESERVED                                      \
                          "!$&'()*+,;=:]+)\\]|" CHARS(U, "") "*)(?::\\d*)?"
#define ROOTED(U)      AUTHORITY(U) "(?:/" PCHAR(U) "*)*|/(?:" PCHAR(U) "+(?:/" PCHAR(U) "*)*)?"
#define TAIL(U, Q)     "(?:\\?" CHARS(U Q, ":@/?") "*)?(?:#" CHARS(U, ":@/?") "*)?"
#define ABSOLUTE(U, Q) "[A-Za-z][A-Za-z0-9+\\-.]*:(?:" ROOTED(U) "|" PCHAR(U) "+(?:/" PCHAR(U) "*)*|)" TAIL(U, Q)
#define RELATIVE(U, Q) "(?:" ROOTED(U) "|" CHARS(U, "@") "+(?:/" PCHAR(U) "*)*|)" TAIL(U, Q)

/* RFC 1123, without labels whose third and fourth characters are hyphens (RFC 5891 reserves them). */
#define ALNUM  "[A-Za-z0-9]"
#define HYPHEN "[A-Za-z0-9\\-]"
#define LABEL  ALNUM "(?:" HYPHEN "{0,2}" ALNUM "|" HYPHEN "(?:" ALNUM HYPHEN "|-" ALNUM ")" HYPHEN "{0,58}" ALNUM ")?"
#define LABELS LABEL "(?:\\." LABEL ")*"
/* RFC 5321, section 4.1.2. */
#define ATOM   "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\-]+"
#define QUOTED "\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\""
#define EMAIL                                                                                                          \
    "(?:" ATOM "(?:\\." ATOM ")*|" QUOTED ")@(?:[A-Za-z0-9](?:[A-Za-z0-9\\-]{0,61}[A-Za-z0-9])?"                       \
    "(?:\\.[A-Za-z0-9](?:[A-Za-z0-9\\-]{0,61}[A-Za-z0-9])?)*|\\[(?:" IPV4 "|IPv6:" IPV6 ")\\])"

#define POINTER "(?:/(?:[^~/]|~[01])*)*"

/* RFC 6570, section 2. */
#define VARNAME "(?:[A-Za-z0-9_]|" PERCENT ")(?:\\.?(?:[A-Za-z0-9_]|" PERCENT "))*"
#define VARSPEC VARNAME "(?::[1-9]\\d{0,3}|\\*)?"
#define TEMPLATE                                                                                                       \
    "(?:[^\\x00-\\x20\"'%<>\\\\^`{|}\\x7f-\\x9f]|" PERCENT "|\\{[+#./;?&=,!@|]?" VARSPEC "(?:," VARSPEC ")*\\})*"

const struct format *format_find(const char *name, size_t n)
{
    static const struct format all[] = {
        {"date", DATE, NULL},
        {"time", TIME, NULL},
        {"date-time", DATE "[Tt]" TIME, NULL},
        {"duration", DURATION, NULL},
        {"email", EMAIL, NULL},
        {"idn-email", NULL, NULL},
        {"hostname", "(?=.{1,253}$)" LABELS, NULL},
        {"idn-hostname", NULL, NULL},
        {"ipv4", IPV4, NULL},
        {"ipv6", IPV6, NULL},
        {"uri", ABSOLUTE(UNRESERVED, ""), NULL},
        {"uri-reference", ABSOLUTE(UNRESERVED, ""), RELATIVE(UNRESERVED, "")},
        {"iri", ABSOLUTE(UNRESERVED OTHER, PRIVATE), NULL},
        {"iri-reference", ABSOLUTE(UNRESERVED OTHER, PRIVATE), RELATIVE(UNRESERVED OTHER, PRIVATE)},
        {"uuid", "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", NULL},
        {"uri-template", TEMPLATE, NULL},
        {"json-pointer", POINTER, NULL},
        {"relative-json-pointer", "(?:0|[1-9]\\d*)(?:[+\\-][1-9]\\d*)?(?:#|" POINTER ")", NULL},
        {"regex", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strlen(all[i].name) == n && memcmp(all[i].name, name, n) == 0) return &all[i];
    return NULL;
}
