/* SPDX-License-Identifier: MIT */
/* Lines of results: which one is chosen (words.c) and how it is written (show.c); the prompt of an answer (answer.c).
 */
#include "client/find/answer.h"
#include "client/find/show.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char text[] = "{\n  open the door\n\n  Open the Window wide\n  close it\n}\n";

static void the_line_with_most_of_the_words_is_chosen(void **state)
{
    struct words w;
    words_of(&w, "how to open a window; OPEN");
    assert_int_equal(w.n, 3); /* how open window */
    assert_int_equal(words_best_line(&w, text, strlen(text), 1, 6).no, 4);
    assert_int_equal(words_best_line(&w, text, strlen(text), 1, 3).no, 2);
    words_of(&w, "nothing fits");
    assert_int_equal(words_best_line(&w, text, strlen(text), 1, 6).no, 2);
    assert_int_equal(words_best_line(&w, text, strlen(text), 5, 6).no, 5);
    assert_int_equal(words_best_line(&w, text, strlen(text), 6, 9).no, 6);
    assert_int_equal(words_best_line(&w, text, strlen(text), 7, 9).no, 0);
    assert_int_equal(words_best_line(&w, "", 0, 1, 2).no, 0);
}

static void a_path_is_shown_from_the_working_directory(void **state)
{
    static const char *const cases[][4] = {
        {"/a/b", "x/y", "/a/b", "x/y"},
        {"/a/b", "x/y", "/a/b/x", "y"},
        {"/a/b", "x/y", "/a/b/xx", "../x/y"},
        {"/a/b", "x", "/a/b/c/d", "../../x"},
        {"/", "x", "/", "x"},
        {"/", "a/x", "/a", "x"},
        {"/a", "x", "/", "a/x"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *got = show_path(cases[i][0], cases[i][1], cases[i][2]);
        assert_string_equal(got, cases[i][3]);
        free(got);
    }
}

static struct result result(const char *line)
{
    return (struct result){.score = 0.5, .first = 1, .last = 9, .line = {7, line, strlen(line)}};
}

static void check_line(const char *path, const char *line, struct show_style style, const char *want)
{
    struct buf out = BUF_INIT;
    struct result r = result(line);
    struct words w;
    words_of(&w, "needle");
    assert_int_equal(show_line(&out, path, &r, &w, style), 0);
    assert_string_equal(out.data, want);
    buf_fini(&out);
}

static void a_terminal_gets_no_control_characters(void **state)
{
    const struct show_style pipe = {false, false}, plain = {true, false}, color = {true, true};
    check_line("a\nb\33", "x\33[2J", pipe, "a\nb\33:7:x\33[2J\n");
    check_line("a\nb\33", "x\33[2J", plain,
               "a\xe2\x90\x8a"
               "b\xe2\x90\x9b:7:x\xe2\x90\x9b[2J\n");
    check_line("a", "my Needles", color,
               "\33[35ma\33[m\33[36m:\33[m\33[32m7\33[m\33[36m:\33[mmy \33[1;31mNeedle\33[ms\n");
}

static void a_long_line_is_cut_around_its_word(void **state)
{
    char line[2001];
    struct buf out = BUF_INIT;
    struct words w;
    memset(line, '.', 2000);
    line[2000] = 0;
    memcpy(line + 1000, "needle", 6);
    words_of(&w, "needle");
    struct result r = result(line);
    assert_int_equal(show_line(&out, "p", &r, &w, (struct show_style){0}), 0);
    assert_true(out.len < SHOW_LINE_BYTES + 20);
    assert_non_null(strstr(out.data, ".needle."));
    buf_fini(&out);
}

static void json_has_every_value(void **state)
{
    struct buf out = BUF_INIT;
    struct result r = result("say \"x\"\33");
    assert_int_equal(show_json(&out, "p\n", &r), 0);
    assert_string_equal(out.data, "{\"file\":\"p\\n\",\"line\":7,\"first\":1,\"last\":9,\"score\":0.500000,"
                                  "\"text\":\"say \\\"x\\\"\\u001b\"}\n");
    buf_fini(&out);
}

static void the_prompt_has_numbered_excerpts_within_its_limit(void **state)
{
    struct buf out = BUF_INIT;
    char *big = malloc(ANSWER_BYTES), *paths[3] = {(char *)"a.c", (char *)"b.c", (char *)"c.c"};
    memset(big, 'x', ANSWER_BYTES);
    struct result all[3] = {{.first = 2, .last = 4, .text = (char *)text, .len = strlen(text)},
                            {.first = 1, .last = 1, .text = big, .len = ANSWER_BYTES},
                            {.first = 1, .last = 1, .text = big, .len = ANSWER_BYTES}};
    struct results found = {.all = all, .n = 3};
    size_t used;
    assert_int_equal(answer_prompt(&out, &found, paths, "why?", &used), 0);
    assert_int_equal(used, 2);
    assert_true(out.len < ANSWER_BYTES + 100);
    const char *head = "[1] a.c:2-4\n  open the door\n\n  Open the Window wide\n\n\n[2] b.c:1-1\nxxx";
    assert_memory_equal(out.data, head, strlen(head));
    assert_string_equal(out.data + out.len - 14, "Question: why?");
    buf_fini(&out);
    free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_with_most_of_the_words_is_chosen),
        cmocka_unit_test(a_path_is_shown_from_the_working_directory),
        cmocka_unit_test(a_terminal_gets_no_control_characters),
        cmocka_unit_test(a_long_line_is_cut_around_its_word),
        cmocka_unit_test(json_has_every_value),
        cmocka_unit_test(the_prompt_has_numbered_excerpts_within_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
