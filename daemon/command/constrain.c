/* SPDX-License-Identifier: MIT */
/* hobd constrain: does a grammar, a JSON Schema or a regular expression accept the text on standard input, and how
 * fast? */
#include "daemon/command/constrain.h"
#include "daemon/command/command.h"
#include "libcommon/buf.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

DEFINE_CLEANUP(struct gguf *, gguf_close)
DEFINE_CLEANUP(struct tokenizer *, tokenizer_free)
DEFINE_CLEANUP(struct token_trie *, token_trie_free)
DEFINE_CLEANUP(struct grammar *, grammar_unref)

enum { REFUSED_TEXT = 1, REFUSED_CONSTRAINT = 2 }; /* exit codes */

static void usage(void)
{
    fputs("usage: hobd constrain -m FILE (--grammar FILE | --regex RE | --schema FILE)\n"
          "                      [--json] <TEXT\n"
          "       hobd constrain -m FILE --cases FILE\n"
          "\nFeeds the text to a constraint, token by token. Exit status: 0 accepted, 1 not\n"
          "accepted, 2 the constraint cannot be enforced, or wrong usage.\n\n"
          "  -m, --model FILE       model name or .gguf path; a vocabulary is sufficient\n"
          "      --grammar FILE     a grammar in GBNF\n"
          "      --regex RE         a regular expression, which the whole text must match\n"
          "      --schema FILE      a JSON Schema\n"
          "      --any-order        with --schema: properties in any order\n"
          "      --compact          with --schema: no white space\n"
          "      --schema-lenient   with --schema: ignore what cannot be enforced, and\n"
          "                         list it on standard error\n"
          "      --cases FILE       test many texts with many schemas: a JSON object per\n"
          "                         line with schema and tests; implies --any-order\n"
          "      --json             print the result and the times of the masks as JSON\n"
          "      --help             print this help\n",
          stdout);
}

static int check(const struct constrain_options *o, int argc, char **argv)
{
    if (optind < argc)
        return error_say(-EINVAL, "unexpected argument '%s' (the text comes from standard input)", argv[optind]);
    if (!o->model) return error_say(-EINVAL, "-m FILE is missing; see hobd constrain --help");
    if (!!o->grammar + !!o->regex + !!o->schema + !!o->cases != 1)
        return error_say(-EINVAL, "one of --grammar, --regex, --schema and --cases is needed");
    if ((o->any_order || o->compact || o->lenient) && !o->schema && !o->cases)
        return error_say(-EINVAL, "--any-order, --compact and --schema-lenient need --schema");
    return 0;
}

/* 0; 1: --help was printed; 2: wrong usage. */
static int parse(struct constrain_options *o, int argc, char **argv)
{
    enum { GRAMMAR = 256, REGEX, SCHEMA, CASES, ANY_ORDER, COMPACT, LENIENT, JSON, HELP };
    static const struct option longs[] = {
        {"model", required_argument, NULL, 'm'},
        {"grammar", required_argument, NULL, GRAMMAR},
        {"regex", required_argument, NULL, REGEX},
        {"schema", required_argument, NULL, SCHEMA},
        {"cases", required_argument, NULL, CASES},
        {"any-order", no_argument, NULL, ANY_ORDER},
        {"compact", no_argument, NULL, COMPACT},
        {"schema-lenient", no_argument, NULL, LENIENT},
        {"json", no_argument, NULL, JSON},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    const char **texts[] = {&o->grammar, &o->regex, &o->schema, &o->cases};
    bool *flags[] = {&o->any_order, &o->compact, &o->lenient, &o->json};
    opterr = 0;
    int c;
    while ((c = getopt_long(argc, argv, ":m:", longs, NULL)) != -1) {
        if (c == 'm') {
            o->model = optarg;
        } else if (c == HELP) {
            usage();
            return 1;
        } else if (c >= GRAMMAR && c <= CASES) {
            *texts[c - GRAMMAR] = optarg;
        } else if (c >= ANY_ORDER && c <= JSON) {
            *flags[c - ANY_ORDER] = true;
        } else {
            return command_misused(argv, command_refuse(argv, c));
        }
    }
    int r = check(o, argc, argv);
    return r < 0 ? command_misused(argv, r) : 0;
}

/* Prints the result; @error is why the constraint or the text could not be used. */
static int print_json(struct constrain_result *res, double compile_us, const char *error)
{
    double us[3];
    constrain_percentiles(&res->times, us);
    _cleanup_(json_decrefp) json_t *o =
        json_pack("{s:b, s:I, s:s?, s:f, s:{s:f, s:f, s:f}, s:I}", "accepted", res->accepted, "at", (json_int_t)res->at,
                  "error", error, "compile_us", compile_us, "mask_us", "p50", us[0], "p99", us[1], "max", us[2],
                  "tokens", (json_int_t)res->tokens);
    _cleanup_(freep) char *text = o ? json_dumps(o, JSON_REAL_PRECISION(6)) : NULL;
    if (!text) return error_origin(-ENOMEM);
    int r = command_print(text, strlen(text));
    return r < 0 ? r : command_print("\n", 1);
}

static int print_text(const struct constrain_result *res, size_t n)
{
    _cleanup_(buf_fini) struct buf out = BUF_INIT;
    int r = res->accepted ? buf_puts(&out, "accepted\n")
            : res->at < n ? buf_printf(&out, "refused at byte %zu\n", res->at)
                          : buf_puts(&out, "incomplete\n");
    return r < 0 ? error_origin(r) : command_print(out.data, out.len);
}

/* 0 or an exit code, with everything printed; or -errno. *misused: the error is the constraint's. */
static int judge(struct constrain *c, const struct constrain_options *o, const struct buf *in, bool *misused)
{
    _cleanup_(grammar_unrefp) struct grammar *g = NULL;
    struct constrain_result res = {0};
    double compile_us;
    int r = constrain_compile(c, o, &g, &compile_us);
    if (r < 0 && o->json && r != -ENOMEM) {
        r = print_json(&res, compile_us, error_text(r));
        return r < 0 ? r : REFUSED_CONSTRAINT;
    }
    *misused = r < 0 && r != -ENOMEM;
    if (r < 0) return r;
    r = constrain_feed(c, g, in->data ? in->data : "", in->len, &res);
    if (r == 0) r = o->json ? print_json(&res, compile_us, NULL) : print_text(&res, in->len);
    free(res.times.us);
    return r < 0 ? r : res.accepted ? 0 : REFUSED_TEXT;
}

/* 0 or an exit code; -errno. *misused: the error is that of the constraint, or of a line of cases. */
static int run(const struct constrain_options *o, bool *misused)
{
    _cleanup_(freep) char *path = NULL;
    _cleanup_(gguf_closep) struct gguf *g = NULL;
    _cleanup_(tokenizer_freep) struct tokenizer *t = NULL;
    _cleanup_(token_trie_freep) struct token_trie *trie = NULL;
    _cleanup_(buf_fini) struct buf in = BUF_INIT;
    int r = paths_model_file(o->model, false, &path);
    if (r == 0) r = gguf_open(&g, path);
    if (r == 0) r = tokenizer_new(&t, g);
    if (r == 0) r = token_trie_new(&trie, t);
    if (r == 0 && !o->cases) r = command_read_input(&in);
    if (r < 0) return r;
    _cleanup_(freep) uint64_t *mask = calloc(token_trie_words(trie), sizeof(*mask));
    if (!mask) return error_origin(-ENOMEM);
    struct constrain c = {t, trie, mask};
    if (!o->cases) return judge(&c, o, &in, misused);
    r = constrain_cases(&c, o);
    *misused = r == -EBADMSG || r == -E2BIG;
    return r;
}

int command_constrain(int argc, char **argv)
{
    struct constrain_options o = {0};
    bool misused = false;
    int r = parse(&o, argc, argv);
    if (r) return r == 1 ? 0 : r;
    r = run(&o, &misused);
    if (r >= 0) return r;
    return misused ? command_misused(argv, r) : command_failed(argv, r);
}
