/* SPDX-License-Identifier: MIT */
/* The interpreter against Python's Jinja2. jinja-cases.json (made by tests/text/template/make-jinja-cases.py) has
 * Python's result for each snippet; golden.json of the shared data has its results for real chat templates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/text/template/template.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static time_t parse_now(const char *s)
{
    struct tm tm = {.tm_isdst = -1};
    assert_non_null(strptime(s, "%Y-%m-%dT%H:%M:%S", &tm));
    return mktime(&tm);
}

static int render(const char *src, size_t len, const json_t *vars, time_t now, struct text *out)
{
    struct template *t = NULL;
    int r = template_new(&t, src, len);
    if (r == 0) r = template_render(t, vars, NULL, now, NULL, out);
    template_free(t);
    return r;
}

/* @want NULL: the template must be refused. @error, if not NULL, is in the error message. */
static bool agrees(const char *label, int r, const struct text *got, const char *want, const char *error)
{
    const char *text = got->s.data ? got->s.data : "";
    if (!want) {
        if (r == -EINVAL && !strncmp(error_text(r), "template line ", 14) && (!error || strstr(error_text(r), error)))
            return true;
        print_message("%s: an error is expected, got %d: %s\n", label, r, r < 0 ? error_text(r) : text);
        return false;
    }
    if (r == 0 && !strcmp(text, want)) return true;
    print_message("%s:\n  expected: %s\n  got:      %s\n", label, want, r < 0 ? error_text(r) : text);
    return false;
}

static void test_python_agrees(void **state)
{
    json_auto_t *all = json_load_file(SOURCE_ROOT "/tests/text/template/jinja-cases.json", JSON_ALLOW_NUL, NULL);
    assert_non_null(all);
    const json_t *vars = json_object_get(all, "vars"), *cases = json_object_get(all, "cases");
    time_t now = parse_now(json_string_value(json_object_get(all, "now")));
    size_t wrong = 0, i;
    json_t *one;
    json_array_foreach(cases, i, one)
    {
        const json_t *src = json_array_get(one, 0);
        struct text out = {0};
        int r = render(json_string_value(src), json_string_length(src), vars, now, &out);
        wrong += !agrees(json_string_value(src), r, &out, json_string_value(json_array_get(one, 1)), NULL);
        text_fini(&out);
    }
    assert_true(json_array_size(cases) > 1000);
    assert_int_equal(wrong, 0);
}

static char *data_path(const char *name)
{
    const char *dir = getenv("HOB_TEST_DATA");
    char *path;
    if (!dir) dir = SOURCE_ROOT "/../shared/data";
    assert_true(asprintf(&path, "%s/templates/%s", dir, name) > 0);
    return path;
}

static char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "re");
    if (!f) return NULL;
    char *s = NULL;
    size_t cap = 0;
    ssize_t n = getdelim(&s, &cap, '\0', f);
    fclose(f);
    *len = n < 0 ? 0 : (size_t)n;
    return s;
}

static void test_golden(void **state)
{
    _cleanup_(freep) char *path = data_path("golden.json");
    json_auto_t *golden = json_load_file(path, 0, NULL);
    if (!golden) {
        print_message("skipped: no %s\n", path);
        skip();
    }
    time_t now = parse_now(json_string_value(json_object_get(golden, "now")));
    size_t wrong = 0, n = 0;
    const char *file, *name;
    json_t *renders, *expected;
    json_object_foreach(json_object_get(golden, "rendered"), file, renders)
    {
        size_t len = 0;
        _cleanup_(freep) char *tpath = data_path(file);
        _cleanup_(freep) char *src = read_file(tpath, &len);
        assert_non_null(src);
        json_object_foreach(renders, name, expected)
        {
            char label[300];
            snprintf(label, sizeof(label), "%s, %s", file, name);
            json_auto_t *vars = json_deep_copy(json_object_get(json_object_get(golden, "cases"), name));
            json_object_set(vars, "bos_token", json_object_get(golden, "bos_token"));
            json_object_set(vars, "eos_token", json_object_get(golden, "eos_token"));
            struct text out = {0};
            int r = render(src, len, vars, now, &out);
            wrong += !agrees(label, r, &out, json_string_value(json_object_get(expected, "text")),
                             json_string_value(json_object_get(expected, "error")));
            text_fini(&out);
            n++;
        }
    }
    assert_true(n > 0);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_python_agrees),
        cmocka_unit_test(test_golden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
