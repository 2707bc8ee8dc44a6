/* SPDX-License-Identifier: MIT */
/*
 * llama.cpp's side of test_images_peer.py, with libmtmd and libllama (0.7.0). Not built with hob:
 *
 *     cc -O2 peer-images.c -o peer-images -lmtmd -lllama -lggml -lggml-base
 *
 * usage: peer-images MODEL MMPROJ TEXT IDS IMAGE...
 * TEXT is a file; it has a <__media__> for each image. IDS are the tokens of an answer, with commas. Prints an object:
 *     items    of the prompt: a list of token ids for each text, a number for each run of embeddings
 *     best     the most likely token at each place of the answer, given all tokens of IDS before it
 *     gap      between its logit and the second one
 *     logprob  of the token of IDS
 */
#include <math.h>
#include <mtmd-helper.h>
#include <mtmd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CTX = 4096, IMAGES = 16, IDS = 1024 };

static void warn(enum ggml_log_level level, const char *text, void *unused)
{
    (void)unused;
    if (level >= GGML_LOG_LEVEL_WARN) fputs(text, stderr);
}

static void fail(const char *what)
{
    fprintf(stderr, "peer-images: %s\n", what);
    exit(1);
}

struct peer {
    struct llama_model *model;
    struct llama_context *llama;
    mtmd_context *mtmd;
    mtmd_input_chunks *chunks;
};

static void open_peer(struct peer *p, const char *model, const char *mmproj)
{
    llama_log_set(warn, NULL);
    mtmd_helper_log_set(warn, NULL);
    ggml_backend_load_all();
    p->model = llama_model_load_from_file(model, llama_model_default_params());
    if (!p->model) fail("no model");
    struct llama_context_params c = llama_context_default_params();
    c.n_ctx = c.n_batch = c.n_ubatch = CTX;
    c.n_threads = c.n_threads_batch = 1;
    c.type_k = c.type_v = GGML_TYPE_F32;
    c.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    p->llama = llama_init_from_model(p->model, c);
    if (!p->llama) fail("no context");
    struct mtmd_context_params m = mtmd_context_params_default();
    m.use_gpu = m.warmup = m.print_timings = false;
    m.n_threads = 1;
    m.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    p->mtmd = mtmd_init_from_file(mmproj, p->model, m);
    if (!p->mtmd) fail("no encoder");
}

static void read_prompt(struct peer *p, const char *path, char **images, int n)
{
    static char text[1 << 16];
    const mtmd_bitmap *bitmaps[IMAGES];
    FILE *f = fopen(path, "rb");
    if (!f || n > IMAGES) fail("no text, or too many images");
    struct mtmd_input_text in = {text, fread(text, 1, sizeof(text) - 1, f), true, true};
    fclose(f);
    for (int i = 0; i < n; i++) {
        bitmaps[i] =
            mtmd_helper_bitmap_init_from_file(p->mtmd, images[i], false, mtmd_helper_init_opt_default()).bitmap;
        if (!bitmaps[i]) fail("no image");
    }
    p->chunks = mtmd_input_chunks_init();
    if (mtmd_tokenize(p->mtmd, p->chunks, &in, bitmaps, (size_t)n)) fail("no items");
}

static void print_items(const struct peer *p)
{
    printf("{\"items\": [");
    for (size_t i = 0; i < mtmd_input_chunks_size(p->chunks); i++) {
        const mtmd_input_chunk *c = mtmd_input_chunks_get(p->chunks, i);
        size_t n = mtmd_input_chunk_get_n_tokens(c);
        printf(i ? ", " : "");
        if (mtmd_input_chunk_get_type(c) != MTMD_INPUT_CHUNK_TYPE_TEXT) {
            printf("%zu", n);
            continue;
        }
        const llama_token *ids = mtmd_input_chunk_get_tokens_text(c, &n);
        for (size_t k = 0; k < n; k++) printf("%s%d", k ? ", " : "[", ids[k]);
        printf(n ? "]" : "[]");
    }
    printf("]");
}

static void print_list(const char *name, const double *list, int n)
{
    printf(", \"%s\": [", name);
    for (int i = 0; i < n; i++) printf("%s%.9g", i ? ", " : "", list[i]);
    printf("]");
}

struct place {
    double best, gap, logprob;
};

static struct place look(const struct peer *p, llama_token id)
{
    const float *x = llama_get_logits_ith(p->llama, -1);
    int n = llama_vocab_n_tokens(llama_model_get_vocab(p->model)), best = 0, second = -1;
    double sum = 0;
    for (int i = 1; i < n; i++) {
        if (x[i] > x[best]) {
            second = best;
            best = i;
        } else if (second < 0 || x[i] > x[second])
            second = i;
    }
    for (int i = 0; i < n; i++) sum += exp((double)x[i] - x[best]);
    return (struct place){best, (double)x[best] - x[second], (double)x[id] - x[best] - log(sum)};
}

static void answer(struct peer *p, const char *ids)
{
    double best[IDS], gap[IDS], logprob[IDS];
    llama_pos past = 0;
    int n = 0;
    char *end;
    if (mtmd_helper_eval_chunks(p->mtmd, p->llama, p->chunks, 0, 0, CTX, true, &past)) fail("no prompt");
    for (; *ids && n < IDS; ids = *end ? end + 1 : end, n++) {
        llama_token id = (llama_token)strtol(ids, &end, 10);
        const struct place at = look(p, id);
        best[n] = at.best, gap[n] = at.gap, logprob[n] = at.logprob;
        if (llama_decode(p->llama, llama_batch_get_one(&id, 1))) fail("no token");
    }
    print_list("best", best, n);
    print_list("gap", gap, n);
    print_list("logprob", logprob, n);
    printf("}\n");
}

int main(int argc, char **argv)
{
    struct peer p = {0};
    if (argc < 5) fail("usage: peer-images MODEL MMPROJ TEXT IDS IMAGE...");
    open_peer(&p, argv[1], argv[2]);
    read_prompt(&p, argv[3], argv + 5, argc - 5);
    print_items(&p);
    answer(&p, argv[4]);
    return 0;
}
