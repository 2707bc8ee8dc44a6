/* SPDX-License-Identifier: MIT */
/* A tiny model from the command line, for the tests that are not in C. */
#include "tests/support/tiny.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: mktiny [--seed N] [--layers N] [--dim N] [--ffn N] [--heads N] [--kv-heads N] [--head-dim N] [--ctx N]\n"
    "              [--type F32|F16|BF16|Q8_0|Q4_0|Q4_1|Q5_0|Q5_1|Q2_K|Q3_K|Q4_K|Q5_K|Q6_K|IQ4_NL|IQ4_XS|MXFP4|\n"
    "               TQ1_0|TQ2_0|IQ1_S|IQ1_M|IQ2_XXS|IQ2_XS|IQ2_S|IQ3_XXS|IQ3_S]\n"
    "              [--untied] [--tokenizer gpt2|llama|t5|bert|rwkv|plamo2] [--pre NAME] [--arch NAME]\n"
    "              [--rope-base X] [--rope-linear X] [--rope-freqs] [--logit-size X] [--template FILE]\n"
    "              [--fim texts|keys|old-keys|mistral] [--control TEXT]... [--merge 'A B']... [--pooling N] -o FILE\n";

enum {
    SEED = 1,
    LAYERS,
    DIM,
    FFN,
    HEADS,
    KV_HEADS,
    HEAD_DIM,
    CTX,
    TYPE,
    UNTIED,
    TOKENIZER,
    PRE,
    ARCH,
    BASE,
    LINEAR,
    FREQS,
    LOGITS,
    FIM,
    TEMPLATE,
    CONTROL,
    MERGE,
    POOLING
};

enum { MORE = 64 /* tokens */ };

static const struct option options[] = {
    {"seed", 1, 0, SEED},
    {"layers", 1, 0, LAYERS},
    {"dim", 1, 0, DIM},
    {"ffn", 1, 0, FFN},
    {"heads", 1, 0, HEADS},
    {"kv-heads", 1, 0, KV_HEADS},
    {"head-dim", 1, 0, HEAD_DIM},
    {"ctx", 1, 0, CTX},
    {"type", 1, 0, TYPE},
    {"untied", 0, 0, UNTIED},
    {"tokenizer", 1, 0, TOKENIZER},
    {"pre", 1, 0, PRE},
    {"arch", 1, 0, ARCH},
    {"rope-base", 1, 0, BASE},
    {"rope-linear", 1, 0, LINEAR},
    {"rope-freqs", 0, 0, FREQS},
    {"logit-size", 1, 0, LOGITS},
    {"fim", 1, 0, FIM},
    {"template", 1, 0, TEMPLATE},
    {"control", 1, 0, CONTROL},
    {"merge", 1, 0, MERGE},
    {"pooling", 1, 0, POOLING},
    {0},
};

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *s = calloc(1, 1 << 20);
    if (f && s) fread(s, 1, (1 << 20) - 1, f);
    if (!f) perror(path);
    if (f) fclose(f);
    return f ? s : NULL;
}

int main(int argc, char **argv)
{
    struct tiny t;
    const char *out = NULL;
    char *template = NULL;
    const char *controls[MORE + 1] = {0}, *merges[MORE + 1] = {0};
    unsigned n_controls = 0, n_merges = 0;
    tiny_init(&t);
    t.controls = controls;
    t.merges = merges;
    for (int c; (c = getopt_long(argc, argv, "o:", options, NULL)) != -1;) {
        uint32_t n = optarg ? (uint32_t)strtoul(optarg, NULL, 10) : 0;
        switch (c) {
        case 'o':
            out = optarg;
            break;
        case SEED:
            t.seed = strtoull(optarg, NULL, 10);
            break;
        case LAYERS:
            t.layers = n;
            break;
        case DIM:
            t.dim = n;
            break;
        case FFN:
            t.ffn = n;
            break;
        case HEADS:
            t.heads = n;
            break;
        case KV_HEADS:
            t.kv_heads = n;
            break;
        case HEAD_DIM:
            t.head_dim = n;
            break;
        case POOLING:
            t.pooling = n;
            break;
        case CTX:
            t.ctx = n;
            break;
        case UNTIED:
            t.tied = false;
            break;
        case TOKENIZER:
            t.tokenizer = optarg;
            break;
        case PRE:
            t.pre = optarg;
            break;
        case ARCH:
            t.arch = optarg;
            break;
        case BASE:
            t.rope_base = strtof(optarg, NULL);
            break;
        case LINEAR:
            t.rope_linear = strtof(optarg, NULL);
            break;
        case FREQS:
            t.rope_freqs = true;
            break;
        case LOGITS:
            t.logit_size = strtof(optarg, NULL);
            break;
        case FIM:
            t.fim = optarg;
            break;
        case TEMPLATE:
            if (!(t.chat_template = template = read_text(optarg))) return 1;
            break;
        case CONTROL:
            if (n_controls < MORE) controls[n_controls++] = optarg;
            break;
        case MERGE:
            if (n_merges < MORE) merges[n_merges++] = optarg;
            break;
        case TYPE:
            if (tiny_type(optarg) < 0) {
                fprintf(stderr, "mktiny: unknown type %s\n", optarg);
                return 2;
            }
            t.type = (uint32_t)tiny_type(optarg);
            break;
        default:
            fputs(usage, stderr);
            return 2;
        }
    }
    if (!out || optind < argc) {
        fputs(usage, stderr);
        return 2;
    }
    int r = tiny_write(&t, out);
    if (r) fprintf(stderr, "mktiny: %s: %s\n", out, strerror(-r));
    free(template);
    return r ? 1 : 0;
}
