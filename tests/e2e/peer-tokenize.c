/* SPDX-License-Identifier: MIT */
/* Token ids of many texts by llama.cpp's library, for peer_tokenizers.py: `peer-tokenize FILE…` reads and prints as
 * tests/support/tokenize does. The library is loaded at run time, because its headers may not be here: a struct of
 * parameters is passed in more room than it takes. Of llama.cpp 0.7.0's model parameters byte 72 is vocab_only. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB_ONLY = 72, INPUT_MAX = 1 << 26, IDS_MAX = 1 << 20 };

struct params {
    char bytes[256];
};

/* Declare a function of the libraries. */
#define USE(ret, name, ...) ret (*const name)(__VA_ARGS__) = (ret(*)(__VA_ARGS__))dlsym(RTLD_DEFAULT, #name)

static void quiet(int level, const char *text, void *ctx)
{
}

static void print_all(const void *vocab, const char *in, size_t n, int32_t *ids)
{
    USE(int32_t, llama_tokenize, const void *, const char *, int32_t, int32_t *, int32_t, bool, bool);
    uint32_t len;
    for (size_t at = 0; at + 4 <= n; at += len) {
        memcpy(&len, in + at, 4);
        at += 4;
        int32_t count = llama_tokenize(vocab, in + at, (int32_t)len, ids, IDS_MAX, false, false);
        for (int32_t i = 0; i < count; i++) printf("%d ", ids[i]);
        putchar('\n');
    }
}

int main(int argc, char **argv)
{
    static const char *const libraries[] = {"libggml.so.0", "libllama.so.0"};
    for (int i = 0; i < 2; i++)
        if (!dlopen(libraries[i], RTLD_NOW | RTLD_GLOBAL)) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
    USE(void, ggml_backend_load_all, void);
    USE(void, llama_log_set, void *, void *);
    USE(struct params, llama_model_default_params, void);
    USE(void *, llama_model_load_from_file, const char *, struct params);
    USE(const void *, llama_model_get_vocab, void *);
    llama_log_set((void *)quiet, NULL);
    ggml_backend_load_all();
    struct params p = llama_model_default_params();
    p.bytes[VOCAB_ONLY] = 1;
    char *in = malloc(INPUT_MAX);
    int32_t *ids = malloc(IDS_MAX * sizeof(*ids));
    if (!in || !ids) return 1;
    size_t n = fread(in, 1, INPUT_MAX, stdin);
    for (int i = 1; i < argc; i++) {
        void *model = llama_model_load_from_file(argv[i], p);
        if (!model) continue;
        printf("FILE %s\n", argv[i]);
        print_all(llama_model_get_vocab(model), in, n, ids);
    }
    return 0;
}
