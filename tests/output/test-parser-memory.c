/* SPDX-License-Identifier: MIT */
/* Each allocation fails once while a template's markup is learned, and while answers are parsed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/output/parsed.h"
#include "tests/support/memory.h"
#include "tests/text/markup/own-templates.h"
#include <cmocka.h>
#include <errno.h>
#include <string.h>

static const struct {
    const char *name, *answer;
} answers[] = {
    {"envelope", "<think>a</think>\nb\n<call>{\"name\":\"f\",\"arguments\":{\"s\":\"x\"},\"id\":\"i\"}</call><call>{]"},
    {"section", "a[CALLS][{\"name\":\"f\",\"arguments\":\"{}\",\"id\":\"i\"}, {\"name\":\"f\"}]"},
    {"named", "[CALL]f[ID]i[ARGS]{\"s\":\"x\"}"},
    {"tagged",
     "<call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n<parameter=n>\n1\n</parameter>\n</function>\n</call>"},
    {"recipients", "all\na>>>f\n{}"},
    {"harmony", " to=functions.f<|channel|>commentary "
                "json<|message|>{\"s\":1}<|call|><|start|>assistant<|channel|>final<|message|>b"},
};
enum { N_ANSWERS = sizeof(answers) / sizeof(*answers) };

static int ignore_text(struct channel_sink *s, const char *channel, const char *text, size_t len)
{
    return 0;
}

static int ignore_call(struct channel_sink *s, const struct channel_call *call)
{
    return 0;
}

static int ignore_warning(struct channel_sink *s, const char *warning)
{
    return 0;
}

/* Parses @answer in pieces, with a clone before each. The first error. */
static int parse(const struct markup_format *f, const char *answer)
{
    struct channel_sink sink = {ignore_text, ignore_call, ignore_warning};
    struct channel_parser *p, *clone;
    size_t len = strlen(answer);
    int r = f->base.new_parser(&f->base, &p);
    if (r < 0) return r;
    for (size_t i = 0; r == 0 && i < len; i += 5) {
        r = p->ops->clone(p, &clone);
        if (r < 0) break;
        p->ops->free(p);
        p = clone;
        r = p->ops->text(p, answer + i, len - i < 5 ? len - i : 5, &sink);
    }
    if (r == 0) r = p->ops->finish(p, &sink);
    p->ops->free(p);
    return r;
}

static void test_parsers(void **state)
{
    json_auto_t *tools =
        json_loads("[{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"}}}}]", 0, NULL);
    for (int i = 0; i < N_ANSWERS; i++) {
        struct family f;
        const char *source = own_template(answers[i].name);
        family_init(&f, source, strlen(source));
        struct markup_format format =
            format_of(&f, tools, strcmp(answers[i].name, "recipients") ? MARKUP_AT_TEXT : MARKUP_AT_NAME);
        bool failed = true;
        for (unsigned long n = 0; failed; n++) {
            memory_fail(n);
            int r = parse(&format, answers[i].answer);
            failed = memory_end();
            assert_int_equal(r, failed ? -ENOMEM : 0);
        }
        family_fini(&f);
    }
}

static void test_markup(void **state)
{
    const char *source = own_template("tagged");
    struct template *t;
    bool failed = true;
    assert_int_equal(template_new(&t, source, strlen(source)), 0);
    const struct markup_source s = {.template = t, .text = source, .len = strlen(source), .bos = "", .eos = ""};
    unsigned long n;
    for (n = 0; failed; n += n < 200 ? 1 : 17) {
        struct markup *m = NULL;
        memory_fail(n);
        int r = markup_new(&m, &s);
        failed = memory_end();
        assert_int_equal(r, failed ? -ENOMEM : 0);
        markup_free(m);
    }
    assert_true(n > 200);
    template_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parsers),
        cmocka_unit_test(test_markup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
