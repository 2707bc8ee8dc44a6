/* SPDX-License-Identifier: MIT */
/* Answers with calls, for each form of markup: whole and in pieces they give the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "libcommon/utf8.h"
#include "tests/fuzz/fuzz.h"
#include "tests/output/parsed.h"
#include "tests/text/markup/own-templates.h"
#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define N_TEMPLATES (sizeof(own_templates) / sizeof(*own_templates))

/* The first byte chooses the template, the second where the answer begins and how long the pieces are. */
const char *const fuzz_seeds[] = {
    "Ba<think>\nwhy\n</think>\n\ntext\n<call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"x\\n\", \"n\": [1, "
    "{}]}}\n</call>",
    "Cc[MUSE]m[/MUSE][CALLS][{\"name\": \"f\", \"arguments\": {}, \"id\": \"1\"}, {\"name\": \"f\", "
    "\"arguments\": {\"b\": 2}}]",
    "De{\"name\": \"f\", \"arguments\": {\"s\": \"\\u00e9\"}}",
    "Eg<|calls|>[{\"f\": {\"n\": 1e5}}, {\"f\": {}}]<|end calls|>",
    "Fb<fn>{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {}}}</fn>tail",
    "Gc[CALL]f[ID]a1[ARGS]{\"s\": \"x\"}",
    "Hi<f><s>x</s><n>3</n></f>",
    "If[f(s='a', n=1, b=True), f()]",
    NULL,
};

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},\"b\":{\"type\":[\"string\",\"integer\"]}}}}}]";

/* Whether the arguments of a call may be JSON that jansson does not read, so that nothing could be checked: a NUL in a
 * name, or a number out of its range. */
static bool is_beyond_jansson(const char *s, size_t n)
{
    if (memchr(s, 0, n) || memmem(s, n, "u0000", 5)) return true;
    for (size_t i = 0, digits = 0; i < n; i++) {
        bool exponent = digits && (s[i] == 'e' || s[i] == 'E');
        digits = s[i] >= '0' && s[i] <= '9' ? digits + 1 : 0;
        if (digits > 15 || exponent) return true;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct family families[N_TEMPLATES];
    static json_t *tools;
    if (size < 2 || size > 8192 || utf8_check((const char *)data + 2, size - 2) < size - 2) return 0;
    if (is_beyond_jansson((const char *)data + 2, size - 2)) return 0;
    size_t which = (uint8_t)(data[0] - 'A') % N_TEMPLATES;
    struct family *f = &families[which];
    const char *source = own_templates[which].source;
    if (!tools) tools = json_loads(tools_text, 0, NULL);
    if (!f->template) family_init(f, source, strlen(source));
    struct markup_format format = format_of(f, tools, data[1] % 3);
    const char *answer = (const char *)data + 2;
    json_t *whole = parsed(&format, answer, size - 2, (struct pieces){.most = 1});
    json_t *other = parsed(&format, answer, size - 2, (struct pieces){data[1], data[1], data[1] & 1});
    /* A call that is malformed in the piece of its name never begins, and one without marks is then not told. */
    json_t *all[] = {whole, other};
    for (int i = 0; i < 2; i++) {
        json_object_del(all[i], "withdrawn");
        json_object_del(all[i], "warnings");
    }
    if (!json_equal(whole, other)) fuzz_fail("pieces differ", json_dumps(whole, 0));
    json_decref(whole);
    json_decref(other);
    return 0;
}
