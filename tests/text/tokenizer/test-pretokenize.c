/* SPDX-License-Identifier: MIT */
/* The cuts of the expressions. The pieces of test_cuts were compared with llama.cpp's, by the ids of real vocabularies
 * whose tokenizer.ggml.pre was changed. */
#include "daemon/text/tokenizer/pretokenize.h"
#include "libcommon/buf.h"
#include "libcommon/error.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct pieces {
    const char *s;
    struct buf *joined; /* NULL: count only */
    uint32_t at;
    size_t n;
};

static int take(void *ctx, uint32_t begin, uint32_t end)
{
    struct pieces *p = ctx;
    assert_int_equal(begin, p->at);
    assert_true(end > begin);
    p->at = end;
    p->n++;
    if (!p->joined) return 0;
    if (p->joined->len) assert_int_equal(buf_puts(p->joined, "|"), 0);
    return buf_append(p->joined, p->s + begin, end - begin);
}

static struct pretokenizer *named(const char *name)
{
    struct pretokenizer *p = NULL;
    int r = pretokenizer_new(&p, name, strlen(name));
    if (r < 0) fail_msg("%s: %s", name, error_text(r));
    return p;
}

static void test_cuts(void **state)
{
    static const struct {
        const char *name, *pieces; /* separated by | */
    } cuts[] = {
        {"gpt-2", "It|'s|  | 1234| words| \n"},
        {"gpt-2", "IT|'|S| \xc3\x89t\xc3\xa9|!?|  |\t|x"},
        {"smollm", "a|1|2| |3|'ll"},
        {"refact", "x| |1|2"},
        {"llama-bpe", "I|'LL| go|  \n\n|123|456|7|.\n"},
        {"dbrx", "I|'LL| go|123|4"},
        {"glm5", "I|'LL| go|123|4"},
        {"mmbert", "I'LL go|\n\n|1234"},
        {"qwen2", "I|'LL| go|1|2|3|.\n"},
        {"minicpm5", "I|'d|123|4| x"},
        {"qwen35", "e\xcc\x81t\xc3\xa9| \xe0\xa4\xb9\xe0\xa4\xbf\xe0\xa4\xa8|1|!"},
        {"seed-coder", "a| !!|\n|b|1|2"},
        {"deepseek-v3", "123|4|\xe4\xb8\xad\xe6\x96\x87|abc|.foo| bar|!\n"},
        {"deepseek-llm", "Hi| there|,|\xe4\xb8\xad\xe6\x96\x87|12345|\n|\xc3\x89|t|\xc3\xa9|  "},
        {"deepseek-llm", "\xe3\x80\x80 |\xe3\x81\xb2"},
        {"deepseek-coder", "Hi| there|,|\xe4\xb8\xad\xe6\x96\x87|1|2|\n|+"},
        {"falcon", "a| b|<=>|123|456|7| 12|`"},
        {"default", "a| b|<=>|123|456|7| |12|`"},
        {"viking", "a| b|, (|c|)|1|2"},
        {"bloom", "a| b|, (|c12|)"},
        {"tekken", "HTTPServer| \xc3\x89|COLE| \xc3\x89"
                   "cole|1|2|//\n| Abc|'s"},
        {"jais-2", "a|        |  | b|1|  \t\n|123|4|  |\t"},
        {"laguna", "I|'LL|  \r|\n\n|x| |1|2"},
        {"ufakzeka", "Ankara|'da| I|'LL|1|2|.\n"},
        {"exaone-moe", "one two e\xcc\x81t| | three|!\n|\n|1|2|'s| s"},
        {"spark2_5", "a|1|2|3|4| !|\n|\n|.foo|\xe4\xb8\xad"},
        {"afmoe", "a| |12|345|678|b|901|\xe0\xb8\x81\xe0\xb8\x81| b| | |1|.c"},
        {"chameleon", "<|sentinel|:|1|2|>|<|sentinel|:|>|IMG|IMGIMGABZ|\t|\n|    |  |a|1|2|.|.| b"},
        {"superbpe", "a b, |1|234|567| and |12| and |3\xc2\xb2| |123"},
        {"superbpe", "12|345\xc2\xb2|x|\xc2\xb2\x31|234|567"},
        {"kimi-k2", "\xe4\xb8\xad\xe6\x96\x87|abc's| D\xc3\xa9|(x|\xe4\xb8\xad|123|4| !\n|  | y"},
        {"youtu", "\xea\xb0\x80|\xef\xbc\x81\xe2\x80\xa6|\xe3\x84\x85|\xe4\xb8\xad|HTTPServer's|1|2| !/\n"},
        {"tiny_aya", "a| |1|234|567|CamelCase's|12|.|123|456"},
        {"granite-embed-multi-97m", "e\xcc\x81t|E\xcc\x81t|HTTPServer|123|4|\xe0\xa4\xb9\xe0\xa4\xbf's"},
        {"gpt-4o", "HTTPServer|123|4|it's| IT's|\xd0\x9c\xd0\x98\xd0\xa0'll|/\n"},
    };

    for (size_t i = 0; i < sizeof(cuts) / sizeof(*cuts); i++) {
        char text[256];
        size_t n = 0;
        struct buf joined = BUF_INIT;
        struct pretokenizer *t = named(cuts[i].name);
        struct pieces p = {.s = text, .joined = &joined};
        for (const char *c = cuts[i].pieces; *c; c++)
            if (*c != '|') text[n++] = *c;
        assert_int_equal(pretokenizer_split(t, text, 0, (uint32_t)n, take, &p), 0);
        assert_string_equal(joined.data, cuts[i].pieces);
        assert_int_equal(p.at, n);
        buf_fini(&joined);
        pretokenizer_free(t);
    }
}

/* A name of each row, and names that share a row. The refusal of an unknown name lists some known ones. */
static void test_names(void **state)
{
    static const char *const names[] = {
        "llama3",       "llama-v3",    "falcon3",   "pixtral",    "lfm2",      "smaug-bpe",  "glm4",
        "chatglm-bpe",  "starcoder",   "smollm",    "command-r",  "codeshell", "minerva-7b", "mpt",
        "olmo",         "phi-2",       "stablelm2", "megrez",     "hunyuan",   "grok-2",     "bailingmoe",
        "deepseek-llm", "deepseek-v3", "llama4",    "minimax-m2", "kanana2",   "poro-chat",  "tekken",
        "gpt-4o",       "qwen35",      "default",   "hy_v4",      "talkie",    "cohere2moe", "jina-v5-nano",
        "roberta-bpe",  "modern-bert",
    };
    struct pretokenizer *p = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) pretokenizer_free(named(names[i]));
    assert_int_equal(pretokenizer_new(&p, "gpt-5", 5), -EOPNOTSUPP);
    assert_non_null(strstr(error_text(-EOPNOTSUPP), "pre-tokenizer \"gpt-5\" is not supported (supported: gpt-2, "));
    assert_int_equal(pretokenizer_new(&p, "", 0), -EOPNOTSUPP);
    p = named("tekken");
    assert_true(pretokenizer_ignores_merges(p) && pretokenizer_add_bos(p));
    pretokenizer_free(p);
    p = named("gpt-4o");
    assert_true(!pretokenizer_ignores_merges(p) && !pretokenizer_add_bos(p));
    pretokenizer_free(p);
    p = named("gemma4");
    assert_true(pretokenizer_plain(p) && pretokenizer_add_bos(p));
    pretokenizer_free(p);
}

/* No expression runs out of stack, memory or its limit of steps on a long run, whatever follows the run. */
static void test_long_runs(void **state)
{
    static const char *const names[] = {"gpt-2",        "smollm",         "llama-bpe",
                                        "minicpm5",     "qwen2",          "qwen35",
                                        "tekken",       "gpt-4o",         "falcon",
                                        "default",      "viking",         "seed-coder",
                                        "bloom",        "deepseek-coder", "deepseek-v3",
                                        "deepseek-llm", "jais-2",         "laguna",
                                        "exaone-moe",   "spark2_5",       "afmoe",
                                        "chameleon",    "superbpe",       "kimi-k2",
                                        "youtu",        "tiny_aya",       "granite-embed-multi-97m"};
    static const char *const runs[] = {"a",        "A", " ", "\n",        "\xf0\x9f\x98\x80",
                                       "\xc3\xa9", "7", "!", "A\xc3\xa9", " \n"};
    enum { LONG = 1 << 18 };
    char *s = malloc(LONG + 8);
    assert_non_null(s);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct pretokenizer *t = named(names[i]);
        for (size_t k = 0; k < sizeof(runs) / sizeof(*runs); k++) {
            size_t each = strlen(runs[k]), n = LONG / each * each;
            struct pieces p = {.s = s};
            for (size_t at = 0; at < n; at += each) memcpy(s + at, runs[k], each);
            memcpy(s + n, "\xe4\xb8\xad", 3);
            assert_int_equal(pretokenizer_split(t, s, 0, (uint32_t)n + 3, take, &p), 0);
            assert_int_equal(p.at, n + 3);
        }
        pretokenizer_free(t);
    }
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_long_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
