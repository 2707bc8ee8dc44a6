/* SPDX-License-Identifier: MIT */
#include "daemon/command/command.h"
#include "daemon/command/tool.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <getopt.h>
#include <math.h>
#include <string.h>

static const char usage[] = "usage: hobd perplexity -m FILE -f TEXT [-c 512] [--chunks N] [--kv-type TYPE]\n"
                            "                       [-t N] [--json]\n"
                            "\nComputes the perplexity of a text as llama-perplexity does: in windows of c\n"
                            "tokens, of which only the second half is scored.\n\n"
                            "  -m, --model FILE     model name or .gguf path\n"
                            "  -f, --file TEXT      file with the text to score\n"
                            "  -c, --ctx N          tokens of a window (default: 512)\n"
                            "      --chunks N       score only the first N windows (default: all)\n"
                            "      --kv-type TYPE   KV type: f32, f16 or q8 (default: f32)\n"
                            "  -t, --threads N      compute threads (default: as for serve)\n"
                            "      --json           print one JSON object\n"
                            "      --help           print this help\n";

struct options {
    const char *model, *file;
    uint64_t ctx, chunks, threads;
    enum kern_kv kv_type;
    bool json, help;
};

struct score {
    double nll, nll2; /* sums over scored tokens */
    uint64_t count;
};

static double ppl(const struct score *s)
{
    return exp(s->nll / (double)s->count);
}

static double ppl_stderr(const struct score *s)
{
    double mean = s->nll / (double)s->count, var = s->nll2 / (double)s->count - mean * mean;
    return s->count > 1 && var > 0 ? sqrt(var / (double)(s->count - 1)) * ppl(s) : 0;
}

static int parse_kv_type(struct options *o, const char *name)
{
    for (o->kv_type = 0; o->kv_type < KERN_KV_TYPES; o->kv_type++)
        if (!strcmp(name, kern_kv_name(o->kv_type))) return 0;
    return error_say(-EINVAL, "--kv-type %.64s: not f32, f16 or q8", name);
}

static int parse(struct options *o, int argc, char **argv)
{
    static const struct option longs[] = {{"model", 1, 0, 'm'},  {"file", 1, 0, 'f'},    {"ctx", 1, 0, 'c'},
                                          {"chunks", 1, 0, 'n'}, {"kv-type", 1, 0, 'k'}, {"threads", 1, 0, 't'},
                                          {"json", 0, 0, 'j'},   {"help", 0, 0, 'h'},    {0}};
    int c, r = 0;
    opterr = optind = 0;
    while (!r && (c = getopt_long(argc, argv, ":m:f:c:t:h", longs, NULL)) >= 0) switch (c) {
        case 'm':
            o->model = optarg;
            break;
        case 'f':
            o->file = optarg;
            break;
        case 'k':
            r = parse_kv_type(o, optarg);
            break;
        case 'c':
            r = tool_parse_number("-c", optarg, 4, 1 << 20, &o->ctx);
            break;
        case 'n':
            r = tool_parse_number("--chunks", optarg, 1, UINT32_MAX, &o->chunks);
            break;
        case 't':
            r = tool_parse_number("-t", optarg, 1, 1024, &o->threads);
            break;
        case 'j':
            o->json = true;
            break;
        case 'h':
            o->help = true;
            return 0;
        default:
            return command_refuse(argv, c);
        }
    if (!r && (!o->model || !o->file || optind < argc))
        r = error_say(-EINVAL, "expected -m FILE, -f TEXT and options only; see hobd perplexity --help");
    return r;
}

/* Scores the second half of one window. */
static int window(struct tool *l, int32_t *tokens, uint32_t ctx, float *logits, struct score *s)
{
    uint32_t vocab = l->backend->hparams.vocab, first = ctx / 2;
    int32_t keep = tokens[0];
    if (tokenizer_add_bos(l->tokenizer)) tokens[0] = tokenizer_bos(l->tokenizer);
    int r = tool_forward(l, 0, tokens, 0, ctx, first, logits);
    tokens[0] = keep;
    if (r) return r;
    for (uint32_t i = first; i + 1 < ctx; i++) {
        const float *row = logits + (size_t)(i - first) * vocab;
        float max, lse;
        backend_logsumexp(l->backend, row, &max, &lse);
        double nll = (double)max + lse - row[tokens[i + 1]];
        s->nll += nll;
        s->nll2 += nll * nll;
        s->count++;
    }
    return 0;
}

static int score_file(const struct options *o, struct tool *l, struct score *s, uint32_t *chunks)
{
    _cleanup_(freep) char *text = NULL;
    size_t len;
    int r = tool_read_file(o->file, &text, &len);
    if (r) return r;
    if (len && text[len - 1] == '\n') len--; /* as llama-perplexity reads files */
    struct tokens t = {0};
    r = tool_tokens(l, text, len, &t);
    if (r) {
        tokens_fini(&t);
        return error_in(r, "%s", o->file);
    }
    uint32_t ctx = (uint32_t)o->ctx;
    uint64_t n = t.n / ctx;
    if (o->chunks && o->chunks < n) n = o->chunks;
    _cleanup_(freep) float *logits = malloc((size_t)(ctx - ctx / 2) * l->backend->hparams.vocab * sizeof(float));
    if (!n) r = error_say(-EINVAL, "%s has %zu tokens; one window needs %u", o->file, t.n, ctx);
    if (!logits) r = error_origin(-ENOMEM);
    for (uint64_t i = 0; !r && i < n; i++) {
        r = window(l, t.ids + i * ctx, ctx, logits, s);
        if (!r && !o->json) {
            printf("[%lu]%.4f,%s", i + 1, ppl(s), (i + 1) % 8 ? "" : "\n");
            fflush(stdout);
        }
    }
    *chunks = (uint32_t)n;
    tokens_fini(&t);
    return r;
}

int command_perplexity(int argc, char **argv)
{
    /* f32 by default, so that only the weights and the arithmetic are measured, not the KV type. */
    struct options o = {.ctx = 512, .kv_type = KERN_KV_F32};
    int r = parse(&o, argc, argv);
    if (o.help) return fputs(usage, stdout) < 0;
    if (r) return command_misused(argv, r);
    struct backend_config c = {
        .ctx = (uint32_t)o.ctx, .threads = (uint32_t)o.threads, .kv_type = o.kv_type, .batch_tokens = 512};
    struct tool l;
    struct score s = {0};
    uint32_t chunks = 0;
    r = tool_open(&l, o.model, &c, 1);
    if (!r && c.ctx < o.ctx) r = error_say(-EINVAL, "-c %lu is more than the model's context of %u", o.ctx, c.ctx);
    if (!r) r = score_file(&o, &l, &s, &chunks);
    if (r)
        command_failed(argv, r);
    else if (o.json)
        printf("{\"ppl\":%.6f,\"stderr\":%.6f,\"chunks\":%u,\"tokens\":%lu}\n", ppl(&s), ppl_stderr(&s), chunks,
               s.count);
    else
        printf("\nPPL = %.4f +/- %.5f (%u chunks, %lu tokens)\n", ppl(&s), ppl_stderr(&s), chunks, s.count);
    tool_close(&l);
    return r ? 1 : 0;
}
