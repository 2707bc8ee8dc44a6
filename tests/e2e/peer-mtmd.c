/* SPDX-License-Identifier: MIT */
/*
 * peer-mtmd MMPROJ MODEL THREADS [IN OUT]…: the embeddings of sounds with llama.cpp's libmtmd, for the comparison in
 * test_encode_sounds.py. IN has floats of 16 kHz, OUT becomes floats. Prints for each sound its embeddings, and the
 * seconds of the preprocessing and of the encoder. The libraries are loaded at run time; their structs are declared as
 * large as they could be, with the few members of 0.7.0 that are set here.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct params {
    char bytes[512];
};

struct text {
    const char *s;
    size_t n;
    bool add_special, parse_special;
};

enum { USE_GPU = 0, THREADS = 4, WARM_UP = 28, AUDIO = 2 };

/* Declare a function of the libraries. */
#define USE(ret, name, ...) ret (*const name)(__VA_ARGS__) = (ret(*)(__VA_ARGS__))dlsym(RTLD_DEFAULT, #name)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void quiet(int level, const char *text, void *ctx)
{
    if (level >= 4) fputs(text, stderr);
}

static float *read_floats(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) return NULL;
    *n = (size_t)ftell(f) / sizeof(float);
    rewind(f);
    float *out = malloc(*n * sizeof(*out) + 1);
    if (!out || fread(out, sizeof(*out), *n, f) != *n) return NULL;
    fclose(f);
    return out;
}

static int encode(void *mtmd, int dim, const char *in, const char *to)
{
    USE(void *, mtmd_bitmap_init_from_audio, size_t, const float *);
    USE(void *, mtmd_input_chunks_init, void);
    USE(int, mtmd_tokenize, void *, void *, struct text *, void **, size_t);
    USE(size_t, mtmd_input_chunks_size, void *);
    USE(void *, mtmd_input_chunks_get, void *, size_t);
    USE(int, mtmd_input_chunk_get_type, void *);
    USE(size_t, mtmd_input_chunk_get_n_tokens, void *);
    USE(int, mtmd_encode_chunk, void *, void *);
    USE(const float *, mtmd_get_output_embd, void *);
    USE(const char *, mtmd_default_marker, void);
    size_t n = 0, items = 0;
    float *samples = read_floats(in, &n);
    FILE *out = fopen(to, "wb");
    if (!samples || !out) return 1;
    const double begin = now();
    struct text text = {mtmd_default_marker(), strlen(mtmd_default_marker()), false, true};
    void *sound = mtmd_bitmap_init_from_audio(n, samples), *chunks = mtmd_input_chunks_init();
    if (mtmd_tokenize(mtmd, chunks, &text, &sound, 1)) return 1;
    const double middle = now();
    for (size_t i = 0; i < mtmd_input_chunks_size(chunks); i++) {
        void *chunk = mtmd_input_chunks_get(chunks, i);
        if (mtmd_input_chunk_get_type(chunk) != AUDIO) continue;
        if (mtmd_encode_chunk(mtmd, chunk)) return 1;
        n = mtmd_input_chunk_get_n_tokens(chunk);
        items += n;
        if (fwrite(mtmd_get_output_embd(mtmd), sizeof(float) * (size_t)dim, n, out) != n) return 1;
    }
    printf("%zu %.3f %.3f\n", items, middle - begin, now() - middle);
    free(samples);
    return fclose(out);
}

int main(int argc, char **argv)
{
    static const char *const libraries[] = {"libggml.so.0", "libllama.so.0", "libmtmd.so.0"};
    if (argc < 4) return 2;
    for (int i = 0; i < 3; i++)
        if (!dlopen(libraries[i], RTLD_NOW | RTLD_GLOBAL)) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
    USE(void, ggml_backend_load_all, void);
    USE(void, llama_log_set, void *, void *);
    USE(void, mtmd_log_set, void *, void *);
    USE(struct params, llama_model_default_params, void);
    USE(void *, llama_model_load_from_file, const char *, struct params);
    USE(int, llama_model_n_embd, void *);
    USE(struct params, mtmd_context_params_default, void);
    USE(void *, mtmd_init_from_file, const char *, void *, struct params);
    llama_log_set((void *)quiet, NULL);
    mtmd_log_set((void *)quiet, NULL);
    ggml_backend_load_all();
    void *model = llama_model_load_from_file(argv[2], llama_model_default_params());
    struct params p = mtmd_context_params_default();
    p.bytes[USE_GPU] = p.bytes[WARM_UP] = 0;
    memcpy(p.bytes + THREADS, &(int){atoi(argv[3])}, sizeof(int));
    void *mtmd = model ? mtmd_init_from_file(argv[1], model, p) : NULL;
    for (int i = 4; mtmd && i + 1 < argc; i += 2)
        if (encode(mtmd, llama_model_n_embd(model), argv[i], argv[i + 1])) return 1;
    return mtmd ? 0 : 1;
}
