/* SPDX-License-Identifier: MIT */
/* Damaged vocabularies of every kind, with any text. Byte 0: the kind; from 6 on BPE with any pre-tokenizer. Byte 1:
 * the number of changes, each of three bytes: a place (u16) and the byte that is put there. Then the text. */
#include "libcommon/error.h"
#include "tests/fuzz/fuzz.h"
#include "tests/text/tiny-words.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const fuzz_seeds[] = {
    "hex:0000616220412c20e4b8adc3a920e180a9200a42",
    "hex:01006162202041c3a90a75752061cc817a7a",
    "hex:010210026128ffff61620a41c3a9",
    "hex:0200616262c3a95c20270a7a",
    "hex:0300efbbbf61626162c3a9e697a5",
    "hex:040061626162203132205f",
    "hex:050061626162203132207575",
    NULL,
};

static void make(struct tiny_tokenizer *m, uint8_t kind)
{
    static const struct tiny_token extra[] = {{"_a", 1, -1}, {"_", 1, -2}, {"<|im_end|>", 3, 0}, {"uu", 4, 0}};
    static const char *const merges[] = {"a b", "_ a", "_a b", "1 2", NULL};
    static const char *const pres[] = {"gpt-2",
                                       "smollm",
                                       "llama-bpe",
                                       "dbrx",
                                       "jais-2",
                                       "minicpm5",
                                       "qwen2",
                                       "laguna",
                                       "ufakzeka",
                                       "qwen35",
                                       "seed-coder",
                                       "exaone-moe",
                                       "deepseek-v3",
                                       "spark2_5",
                                       "afmoe",
                                       "deepseek-llm",
                                       "deepseek-coder",
                                       "falcon",
                                       "default",
                                       "chameleon",
                                       "superbpe",
                                       "bloom",
                                       "viking",
                                       "kimi-k2",
                                       "youtu",
                                       "tiny_aya",
                                       "tekken",
                                       "gpt-4o",
                                       "granite-embed-multi-97m",
                                       "gemma4",
                                       "sarvam-moe"};
    enum { PRES = sizeof(pres) / sizeof(*pres) };
    if (kind >= 6) {
        tiny_bpe(m, pres[(kind - 6) % PRES], merges, extra, 4);
        return;
    }
    switch (kind) {
    case 4:
        tiny_spm(m, extra, 4);
        break;
    case 5:
        tiny_bpe(m, "smollm", merges, extra, 4);
        break;
    default:
        tiny_sample(m, tiny_word_kinds[kind]);
    }
}

static void use(const struct tokenizer *t, const char *s, size_t n)
{
    struct text text = {0};
    struct tokens ids = {0};
    struct detok d = {.at_start = true};
    struct buf out = BUF_INIT;
    FUZZ_CHECK(text_append(&text, s, n, n % 2) == 0);
    int r = tokenizer_encode(t, &text, 0, true, &ids);
    if (r < 0 && r != -EILSEQ) fuzz_refused(r);
    for (size_t i = 0; i < ids.n; i++) {
        FUZZ_CHECK(ids.ids[i] >= 0 && (size_t)ids.ids[i] < tokenizer_vocab(t));
        FUZZ_CHECK(ids.ends[i] <= n && (i == 0 || ids.ends[i] >= ids.ends[i - 1]));
        FUZZ_CHECK(detok_push(&d, t, ids.ids[i], &out) == 0);
    }
    FUZZ_CHECK(detok_flush(&d, &out) == 0);
    buf_fini(&out);
    tokens_fini(&ids);
    text_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tiny_tokenizer m = {0};
    struct tokenizer *t = NULL;
    struct gguf *g;
    char path[64];
    if (size < 2) return 0;
    make(&m, data[0]);
    size_t changes = data[1] % 8, at = 2;
    for (; changes && at + 3 <= size; changes--, at += 3)
        m.body.data[(size_t)(data[at] | data[at + 1] << 8) % m.body.len] = (char)data[at + 2];
    int fd = memfd_create("vocabulary", MFD_CLOEXEC);
    tiny_write_keys(&m, fd);
    buf_fini(&m.body);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int r = gguf_open(&g, path);
    if (r < 0) {
        fuzz_refused(r);
    } else {
        r = tokenizer_new(&t, g);
        gguf_close(g);
        if (r < 0)
            fuzz_refused(r);
        else
            use(t, (const char *)data + at, size - at);
    }
    tokenizer_free(t);
    close(fd);
    return 0;
}
