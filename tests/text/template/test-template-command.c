/* SPDX-License-Identifier: MIT */
/* The program hobd template: its output, its errors, its exit codes. */
#include "tests/support/command.h"
#include "tests/text/tiny-tokenizer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char model[] = "/tmp/hob-test-XXXXXX", bare[] = "/tmp/hob-test-XXXXXX", jinja[] = "/tmp/hob-test-XXXXXX";

#define SAYS(in, want, ...) command_says(in, want, (const char *const[]){__VA_ARGS__, NULL})

static void write_template(const char *src)
{
    FILE *f = fopen(jinja, "we");
    assert_non_null(f);
    fputs(src, f);
    fclose(f);
}

static void template_file(void **state)
{
    write_template("{{ a }}-{{ b.c }}{{ bos_token }}");
    SAYS("{\"a\": \"x\", \"b\": {\"c\": 1}}", "x-1", "--template", jinja);
    write_template("{{ strftime_now('%Y-%m-%d %H:%M') }}\n");
    SAYS("{}", "2026-11-20 12:00", "--template", jinja, "--now", "2026-11-20T12:00:00");
}

static void template_of_the_model(void **state)
{
    SAYS("{\"m\": \"hi\"}", "[<s>hi</s>]", "-m", model);
    SAYS("{\"m\": \"hi\", \"eos_token\": \"END\"}", "[<s>hiEND]", "--model", model);
}

static void errors_of_templates(void **state)
{
    write_template("a\n{{ raise_exception('roles must alternate') }}");
    FAILS(1, "{}", "template line 2: roles must alternate", "--template", jinja);
    write_template("{% if %}");
    FAILS(1, "{}", "template line 1: ", "--template", jinja);
    write_template("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}");
    FAILS(1, "{}", "steps", "--template", jinja);
    FAILS(1, "{}", "/nowhere/x.jinja: ", "--template", "/nowhere/x.jinja");
    FAILS(1, "{}", "no chat template", "-m", bare);
    FAILS(1, "{}", "/nowhere/x.gguf", "-m", "/nowhere/x.gguf");
}

static void errors_of_requests(void **state)
{
    write_template("x");
    FAILS(1, "", "standard input: JSON", "--template", jinja);
    FAILS(1, "{\"a\": ", "standard input: JSON", "--template", jinja);
    FAILS(1, "[1]", "a JSON object", "--template", jinja);
    FAILS(1, "{\"a\": \"\xff\"}", "standard input: JSON", "--template", jinja);
}

static void usage(void **state)
{
    struct buf out = BUF_INIT, err = BUF_INIT;
    FAILS(2, "", "-m FILE", NULL);
    FAILS(2, "", "either", "-m", model, "--template", jinja);
    FAILS(2, "", "--now", "-m", model, "--now", "yesterday");
    FAILS(2, "", "unknown option '--nope'", "--nope");
    FAILS(2, "", "needs a value", "-m");
    FAILS(2, "", "unexpected argument 'x'", "-m", model, "x");
    assert_int_equal(command_run((const char *const[]){"--help", NULL}, "", &out, &err), 0);
    assert_memory_equal(out.data, "usage: hobd template ", 21);
    buf_fini(&out);
    buf_fini(&err);
}

static void write_model(char *path, bool with_template)
{
    static const struct tiny_token extra[] = {{"a", TINY_NORMAL, -1}};
    struct tiny_tokenizer m = {0};
    tiny_spm(&m, extra, 1);
    if (with_template) tiny_str(&m, "tokenizer.chat_template", "[{{ bos_token }}{{ m }}{{ eos_token }}]");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    tiny_write_keys(&m, fd);
    close(fd);
    buf_fini(&m.body);
}

static int setup(void **state)
{
    write_model(model, true);
    write_model(bare, false);
    int fd = mkstemp(jinja);
    if (fd < 0) return -1;
    close(fd);
    return 0;
}

static int teardown(void **state)
{
    unlink(model);
    unlink(bare);
    unlink(jinja);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(template_file),
        cmocka_unit_test(template_of_the_model),
        cmocka_unit_test(errors_of_templates),
        cmocka_unit_test(errors_of_requests),
        cmocka_unit_test(usage),
    };

    if (argc < 2) return 1;
    command_init(argv[1], "template");
    return cmocka_run_group_tests(tests, setup, teardown);
}
