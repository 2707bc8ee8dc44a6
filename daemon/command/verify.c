/* SPDX-License-Identifier: MIT */
#include "daemon/command/command.h"
#include "daemon/command/tool.h"
#include "daemon/reference/reference.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <getopt.h>
#include <math.h>
#include <string.h>

/* The mean KL divergence (nats) that fails. Float weights differ only by rounding. Quantized weights also differ by the
 * int8 activations, about a hundredth of the error of 4-bit weights. */
#define KL_BOUND_FLOAT     1e-4
#define KL_BOUND_QUANTIZED 2e-2
#define TOKENS_MAX         256

static const char usage[] = "usage: hobd verify -m FILE\n"
                            "\nCompares the fast kernels with an independent f32 forward pass (OpenBLAS).\n\n"
                            "  -m, --model FILE   model name or .gguf path\n"
                            "      --help         print this help\n";

static const char text[] = "Once upon a time there was a kettle that lived on a shelf beside the fire. Every morning "
                           "the old woman filled it with water "
                           "from the well, and every evening it was still warm. \"How do you keep so warm?\" asked the "
                           "spoon. \"I stay near what I will be "
                           "needed for,\" said the kettle. In 1867, on the 3rd of May, at 10:45, the fire went out; "
                           "nobody noticed until noon. Then the "
                           "woman's son said: if (fire == NULL) return -ENOENT; and everybody laughed, for he was "
                           "always at his computer. They fetched wood, "
                           "lit the fire again, and within a minute the kettle was singing. The spoon, the cups and "
                           "the little blue plate listened to it "
                           "until it was dark outside, and the dog fell asleep under the table.";

struct difference {
    double kl, max_p; /* mean; largest */
    uint32_t top1, n;
};

static void log_softmax(double *out, const float *x, uint32_t n)
{
    double max = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++) max = fmax(max, x[i]);
    for (uint32_t i = 0; i < n; i++) sum += exp(x[i] - max);
    for (uint32_t i = 0; i < n; i++) out[i] = x[i] - max - log(sum);
}

static uint32_t argmax(const double *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* @want is the reference: KL(want || got), mean over rows. */
static int compare(struct difference *d, const float *want, const float *got, uint32_t n, uint32_t vocab)
{
    _cleanup_(freep) double *p = malloc(2ul * vocab * sizeof(double));
    if (!p) return error_origin(-ENOMEM);
    double *q = p + vocab;
    for (uint32_t i = 0; i < n; i++) {
        log_softmax(p, want + (size_t)i * vocab, vocab);
        log_softmax(q, got + (size_t)i * vocab, vocab);
        for (uint32_t v = 0; v < vocab; v++) {
            d->kl += exp(p[v]) * (p[v] - q[v]);
            d->max_p = fmax(d->max_p, fabs(exp(p[v]) - exp(q[v])));
        }
        d->top1 += argmax(p, vocab) == argmax(q, vocab);
    }
    d->kl /= n;
    d->n = n;
    return 0;
}

static bool quantized(const struct gguf *g)
{
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        uint32_t block = 1, bytes;
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        if (gguf_tensor_type_name(t->type, &block, &bytes) && block > 1) return true;
    }
    return false;
}

static int run(struct tool *l, struct difference *d)
{
    struct tokens t = {0};
    int r = tool_tokens(l, text, strlen(text), &t);
    uint32_t n = t.n < l->backend->config.ctx ? (uint32_t)t.n : l->backend->config.ctx,
             vocab = l->backend->hparams.vocab;
    size_t bytes = (size_t)n * vocab * sizeof(float);
    _cleanup_(freep) float *want = malloc(bytes);
    _cleanup_(freep) float *got = malloc(bytes);
    if (!r && (!want || !got)) r = error_say(-ENOMEM, "out of memory: twice %zu bytes for logits", bytes);
    struct reference *ref = NULL;
    if (!r) r = reference_new(&ref, l->gguf);
    if (!r) reference_context(ref, l->backend->config.ctx);
    if (!r) r = reference_forward(ref, t.ids, n, want);
    if (!r) r = tool_forward(l, 0, t.ids, 0, n, 0, got);
    if (!r) r = compare(d, want, got, n, vocab);
    reference_free(ref);
    tokens_fini(&t);
    return r;
}

int command_verify(int argc, char **argv)
{
    static const struct option longs[] = {{"model", 1, 0, 'm'}, {"help", 0, 0, 'h'}, {0}};
    const char *model = NULL;
    int c;
    opterr = optind = 0;
    while ((c = getopt_long(argc, argv, ":m:h", longs, NULL)) >= 0) {
        if (c == 'h') return fputs(usage, stdout) < 0;
        if (c != 'm') return command_misused(argv, command_refuse(argv, c));
        model = optarg;
    }
    if (!model || optind < argc)
        return command_misused(argv, error_say(-EINVAL, "expected -m FILE only; see hobd verify --help"));
    /* The exact KV type, so that only the arithmetic of the matrices differs. */
    struct backend_config config = {.ctx = TOKENS_MAX, .kv_type = KERN_KV_F32, .batch_tokens = TOKENS_MAX};
    struct tool l;
    struct difference d = {0};
    int r = tool_open(&l, model, &config, 1);
    if (!r) r = run(&l, &d);
    bool failed = false;
    if (r) {
        command_failed(argv, r);
    } else {
        double bound = quantized(l.gguf) ? KL_BOUND_QUANTIZED : KL_BOUND_FLOAT;
        failed = !(d.kl <= bound);
        printf("mean KL divergence        %.3g (bound %.3g)\n", d.kl, bound);
        printf("largest difference of p   %.3g\n", d.max_p);
        printf("same most likely token    %u of %u\n", d.top1, d.n);
        printf("%s, %s kernels\n", failed ? "FAILED" : "agrees", l.backend->isa);
    }
    tool_close(&l);
    return r || failed;
}
