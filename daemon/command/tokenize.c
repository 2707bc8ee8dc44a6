/* SPDX-License-Identifier: MIT */
/* hobd tokenize: standard input -> token ids as a JSON array, or back. */
#include "daemon/command/command.h"
#include "daemon/text/tokenizer/tokenizer.h"
#include "libcommon/buf.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *model;
    bool special, bos, detokenize;
};

DEFINE_CLEANUP(struct gguf *, gguf_close)
DEFINE_CLEANUP(struct tokenizer *, tokenizer_free)

static void usage(void)
{
    fputs("usage: hobd tokenize -m FILE [OPTION…]\n"
          "\nTokenizes standard input and prints a JSON array of token ids.\n\n"
          "  -m, --model FILE   model name or .gguf path\n"
          "      --special      parse special tokens; with --detokenize: print them\n"
          "      --bos          put the model's BOS token first\n"
          "      --detokenize   read a JSON array of ids, print their text\n"
          "      --help         print this help\n",
          stdout);
}

/* 0; 1: --help was printed; 2: wrong usage. */
static int parse(struct options *o, int argc, char **argv)
{
    enum { SPECIAL = 256, BOS, DETOKENIZE, HELP };
    static const struct option longs[] = {
        {"model", required_argument, NULL, 'm'}, {"special", no_argument, NULL, SPECIAL},
        {"bos", no_argument, NULL, BOS},         {"detokenize", no_argument, NULL, DETOKENIZE},
        {"help", no_argument, NULL, HELP},       {0},
    };
    opterr = 0;
    int c;
    while ((c = getopt_long(argc, argv, ":m:", longs, NULL)) != -1) {
        switch (c) {
        case 'm':
            o->model = optarg;
            break;
        case SPECIAL:
            o->special = true;
            break;
        case BOS:
            o->bos = true;
            break;
        case DETOKENIZE:
            o->detokenize = true;
            break;
        case HELP:
            usage();
            return 1;
        default:
            return command_misused(argv, command_refuse(argv, c));
        }
    }
    int r = 0;
    if (optind < argc)
        r = error_say(-EINVAL, "unexpected argument '%s' (the text comes from standard input)", argv[optind]);
    else if (!o->model)
        r = error_say(-EINVAL, "-m FILE is missing; see hobd tokenize --help");
    else if (o->bos && o->detokenize)
        r = error_say(-EINVAL, "--bos cannot be combined with --detokenize");
    return r < 0 ? command_misused(argv, r) : 0;
}

static int encode(const struct options *o, const struct tokenizer *t, const struct buf *in, struct buf *out)
{
    _cleanup_(text_fini) struct text text = {0};
    int r = text_append(&text, in->data, in->len, o->special);
    if (r < 0) return r;
    _cleanup_(tokens_fini) struct tokens ids = {0};
    if (o->bos) {
        if (tokenizer_bos(t) < 0) return error_say(-EINVAL, "--bos: this model has no BOS token");
        r = tokens_push(&ids, tokenizer_bos(t), 0);
        if (r < 0) return r;
    }
    r = tokenizer_encode(t, &text, 0, true, &ids);
    if (r < 0) return error_in(r, "standard input");
    r = buf_puts(out, "[");
    for (size_t i = 0; i < ids.n && r >= 0; i++) r = buf_printf(out, i ? ", %" PRId32 : "%" PRId32, ids.ids[i]);
    return r < 0 ? r : buf_puts(out, "]\n");
}

static int push_id(const struct options *o, const struct tokenizer *t, struct detok *d, int32_t id, struct buf *out)
{
    if (!o->special || !tokenizer_is_control(t, id)) return detok_push(d, t, id, out);
    size_t len;
    const char *s = tokenizer_piece(t, id, &len);
    int r = detok_flush(d, out);
    return r < 0 ? r : buf_append(out, s, len);
}

static int decode(const struct options *o, const struct tokenizer *t, const struct buf *in, struct buf *out)
{
    json_error_t why;
    _cleanup_(json_decrefp) json_t *ids = json_loadb(in->data, in->len, 0, &why);
    if (!ids) return error_say(-EINVAL, "standard input: line %d, column %d: %s", why.line, why.column, why.text);
    if (!json_is_array(ids)) return error_say(-EINVAL, "standard input: not a JSON array of token ids");
    struct detok d = {.at_start = true};
    json_t *v;
    size_t i;
    json_array_foreach(ids, i, v)
    {
        json_int_t id = json_integer_value(v);
        if (!json_is_integer(v)) return error_say(-EINVAL, "standard input: element %zu is not an integer", i);
        if (id < 0 || (uint64_t)id >= tokenizer_vocab(t))
            return error_say(-EINVAL, "standard input: element %zu: no token %" JSON_INTEGER_FORMAT " (0 to %zu)", i,
                             id, tokenizer_vocab(t) - 1);
        int r = push_id(o, t, &d, (int32_t)id, out);
        if (r < 0) return r;
    }
    return detok_flush(&d, out);
}

static int run(const struct options *o)
{
    _cleanup_(freep) char *path = NULL;
    _cleanup_(gguf_closep) struct gguf *g = NULL;
    _cleanup_(tokenizer_freep) struct tokenizer *t = NULL;
    _cleanup_(buf_fini) struct buf in = BUF_INIT, out = BUF_INIT;
    int r = paths_model_file(o->model, false, &path);
    if (r < 0) return r;
    r = gguf_open(&g, path);
    if (r < 0) return r;
    r = tokenizer_new(&t, g);
    if (r < 0) return r;
    r = command_read_input(&in);
    if (r < 0) return r;
    r = o->detokenize ? decode(o, t, &in, &out) : encode(o, t, &in, &out);
    return r < 0 ? r : command_print(out.data, out.len);
}

int command_tokenize(int argc, char **argv)
{
    struct options o = {0};
    int r = parse(&o, argc, argv);
    if (r) return r == 1 ? 0 : r;
    r = run(&o);
    return r < 0 ? command_failed(argv, r) : 0;
}
