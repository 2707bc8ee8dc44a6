/* SPDX-License-Identifier: MIT */
/* Every snippet of jinja-cases.json with each allocation failing in turn, and with every limit too low. A render must
 * not crash, leak, or continue after the failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/text/template/jinja-arena.h"
#include "daemon/text/template/template.h"
#include "libcommon/error.h"
#include "tests/support/memory.h"
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* The linker replaces the functions of the arena with these (--wrap), as memory_dep does with those of the library. */
void *__real_jj_arena_alloc(struct jj_arena *a, size_t n, int *err);
void *__wrap_jj_arena_alloc(struct jj_arena *a, size_t n, int *err);
char *__real_jj_arena_bytes(struct jj_arena *a, size_t n, int *err);
char *__wrap_jj_arena_bytes(struct jj_arena *a, size_t n, int *err);

void *__wrap_jj_arena_alloc(struct jj_arena *a, size_t n, int *err)
{
    if (!memory_fails()) return __real_jj_arena_alloc(a, n, err);
    *err = -ENOMEM;
    return NULL;
}

char *__wrap_jj_arena_bytes(struct jj_arena *a, size_t n, int *err)
{
    if (!memory_fails()) return __real_jj_arena_bytes(a, n, err);
    *err = -ENOMEM;
    return NULL;
}

static json_t *all;

static int setup(void **state)
{
    all = json_load_file(SOURCE_ROOT "/tests/text/template/jinja-cases.json", JSON_ALLOW_NUL, NULL);
    return all ? 0 : -1;
}

static int teardown(void **state)
{
    json_decref(all);
    return 0;
}

static int render(const json_t *src, const struct template_limits *limits, struct text *out)
{
    struct template *t = NULL;
    int r = template_new(&t, json_string_value(src), json_string_length(src));
    if (r == 0) r = template_render(t, json_object_get(all, "vars"), NULL, 1000000000, limits, out);
    template_free(t);
    return r;
}

static void test_each_allocation_fails(void **state)
{
    const json_t *cases = json_object_get(all, "cases");
    /* all snippets have the same variables: only the first tries their allocations */
    long vars = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *src = json_array_get(json_array_get(cases, i), 0);
        for (long n = 0;; n++) {
            struct text out = {0};
            if (i > 0 && n == 20) n += vars;
            memory_fail((unsigned long)n);
            int r = render(src, NULL, &out);
            bool failed = memory_end();
            if (failed && r != -ENOMEM) fail_msg("%s: allocation %ld fails: %d", json_string_value(src), n, r);
            if (failed) assert_int_equal(out.s.len, 0);
            text_fini(&out);
            if (!failed) break;
            if (i == 0) vars = n > 60 ? n - 60 : 0;
        }
    }
}

/* Renders with each limit below the sufficient one: -E2BIG or, if the snippet fails anyway, its own error. */
static void test_each_limit_is_reached(void **state)
{
    static const struct template_limits standard = TEMPLATE_LIMITS;
    const json_t *cases = json_object_get(all, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *src = json_array_get(json_array_get(cases, i), 0);
        for (uint32_t n = 0; n < 400; n++) {
            struct template_limits limits = standard;
            struct text out = {0};
            if (n % 3 == 0) limits.steps = 200 + n / 3 * 5;
            if (n % 3 == 1) limits.output = n / 3;
            if (n % 3 == 2) limits.depth = n / 3;
            int r = render(src, &limits, &out);
            if (r != 0 && r != -EINVAL && r != -E2BIG) fail_msg("%s: %d", json_string_value(src), r);
            if (r < 0 && strncmp(error_text(r), "template line ", 14) != 0) fail_msg("%s", error_text(r));
            text_fini(&out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_allocation_fails),
        cmocka_unit_test(test_each_limit_is_reached),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
