/* SPDX-License-Identifier: MIT */
/* A model of some 50 KB of any architecture, whose file the input changes: it is loaded, as hobd does, and computes one
 * batch, or is refused with a message. Byte 0: the architecture; byte 1: the type of the weights; then the changes. */
#include "daemon/model/backend.h"
#include "daemon/request/loaded-model.h"
#include "libcommon/error.h"
#include "tests/fuzz/fuzz-edit.h"
#include "tests/support/tiny.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const fuzz_seeds[] = {NULL};

enum { CTX = 64, TOKENS = 5 };

static const struct {
    const char *arch, *tokenizer;
} kinds[] = {
    {NULL, "gpt2"},
    {"llama", "llama"},
    {"llama-biases", "rwkv"},
    {"llama-yarn", "plamo2"},
    {"llama-keys", "t5"},
    {"qwen2", "gpt2"},
    {"qwen2vl", "gpt2"},
    {"qwen3", "gpt2"},
    {"phi3", "llama"},
    {"smollm3", "gpt2"},
    {"granite", "gpt2"},
    {"olmo3", "gpt2"},
    {"gemma2", "llama"},
    {"gemma3", "llama"},
    {"glm4", "gpt2"},
    {"exaone4-window", "gpt2"},
    {"minicpm", "llama"},
    {"seed_oss", "gpt2"},
    {"bitnet", "llama"},
    {"chatglm", "gpt2"},
    {"apertus", "gpt2"},
    {"falcon", "gpt2"},
    {"gptneox", "gpt2"},
    {"gpt2", "gpt2"},
    {"phi2", "gpt2"},
    {"cohere2", "gpt2"},
    {"stablelm-parallel", "gpt2"},
    {"starcoder2", "gpt2"},
    {"qwen35", "gpt2"},
    {"qwen35-mtp", "gpt2"},
    {"qwen35moe", "gpt2"},
    {"qwen3next", "gpt2"},
    {"bert", "bert"},
    {"bert-rank", "bert"},
    {"nomic-bert", "bert"},
    {"jina-bert-v2", "bert"},
    {"modern-bert", "gpt2"},
    {"gemma-embedding", "llama"},
    {"qwen3-rank", "gpt2"},
    {"afmoe", "gpt2"},
    {"exaone-moe-mtp", "gpt2"},
    {"bailingmoe2", "gpt2"},
    {"ernie4_5-moe", "gpt2"},
    {"glm4moe", "gpt2"},
    {"hunyuan-moe", "gpt2"},
    {"mixtral", "llama"},
    {"qwen2moe", "gpt2"},
    {"smallthinker", "gpt2"},
    {"llama4", "gpt2"},
    {"gpt-oss", "gpt2"},
    {"deepseek2", "gpt2"},
    {"deepseek2-lite", "gpt2"},
    {"minicpm3", "llama"},
    {"lfm2moe", "gpt2"},
    {"mamba2", "gpt2"},
    {"granitehybrid", "gpt2"},
    {"nemotron_h_moe", "gpt2"},
    {"falcon-h1", "gpt2"},
    {"gemma3n", "llama"},
    {"gemma4", "llama"},
    {"gemma4-experts", "llama"},
};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };
static const uint32_t types[] = {8, 0, 1, 2, 30, 3, 6, 7, 20, 39};
enum { TYPES = sizeof(types) / sizeof(*types) };

/* The file of a kind; empty: it cannot be written. Made once. */
static const struct fuzz_gguf *base_of(unsigned kind, unsigned type)
{
    static struct fuzz_gguf made[KINDS][TYPES];
    static bool tried[KINDS][TYPES];
    struct fuzz_gguf *g = &made[kind][type];
    struct tiny t;
    struct stat st;
    if (tried[kind][type]) return g;
    tried[kind][type] = true;
    tiny_init(&t);
    t.arch = kinds[kind].arch;
    t.tokenizer = kinds[kind].tokenizer;
    t.type = types[type];
    t.ctx = CTX;
    struct fuzz_path path;
    int fd = fuzz_file("", 0, &path);
    if (tiny_write(&t, path.s) == 0) {
        FUZZ_CHECK(fstat(fd, &st) == 0 && buf_reserve(&g->file, (size_t)st.st_size) == 0);
        FUZZ_CHECK(pread(fd, g->file.data, (size_t)st.st_size, 0) == st.st_size);
        g->file.len = (size_t)st.st_size;
        fuzz_gguf_find(g);
    }
    close(fd);
    return g;
}

/* One batch of the model, at the beginning of a sequence. */
static void forward(struct loaded *m)
{
    struct backend *b = m->backend;
    const struct hparams *s = &b->hparams;
    static const uint32_t blocks[] = {0, 1};
    const uint32_t *groups[KV_GROUPS_MAX];
    int32_t tokens[TOKENS];
    uint8_t want[TOKENS];
    bool whole = s->embedding.whole;
    for (unsigned i = 0; i < KV_GROUPS_MAX; i++) groups[i] = blocks;
    for (int32_t i = 0; i < TOKENS; i++) tokens[i] = (int32_t)((uint32_t)i * 37 % m->vocab);
    memset(want, 0, sizeof(want));
    want[TOKENS - 1] = whole ? WANT_HIDDEN : WANT_LOGITS;
    const struct batch_entry e = {.blocks = groups, .n = TOKENS, .tokens = tokens, .whole = whole, .want = want};
    float *logits = malloc(sizeof(float) * s->vocab), *hidden = malloc(sizeof(float) * s->dim);
    FUZZ_CHECK(logits && hidden);
    int r = b->ops->forward(b, &e, 1, whole ? NULL : logits, whole ? hidden : NULL);
    if (r < 0) fuzz_refused(r);
    if (r == 0 && whole && s->embedding.pooling != POOLING_NONE) {
        float *out = malloc(sizeof(float) * (hparams_outputs(s, s->embedding.pooling) + 1));
        FUZZ_CHECK(out);
        b->ops->head(b, s->embedding.pooling, hidden, 1, out);
        free(out);
    }
    free(logits);
    free(hidden);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct engine_config c;
    struct loaded m = {0};
    struct fuzz_path path;
    struct buf file = BUF_INIT;
    fuzz_quiet();
    const struct fuzz_gguf *g = base_of(fuzz_byte(&in) % KINDS, fuzz_byte(&in) % TYPES);
    if (!g->file.len) return 0;
    fuzz_gguf_edit(g, &in, &file);
    int fd = fuzz_file(file.data, file.len, &path);
    buf_fini(&file);
    engine_config_init(&c);
    c.model_path = path.s;
    c.model_name = (char *)"fuzz";
    c.ctx = CTX;
    c.threads = 1;
    c.cpu = "scalar"; /* the others are not built with sanitizers */
    c.kv_bytes = 1 << 20;
    c.batch_tokens = 32;
    c.no_numa = true;
    int r = load_model(&m, &c, NULL, NULL);
    if (r < 0) {
        if (r != -ENOMEM) fuzz_refused(r);
    } else {
        forward(&m);
        loaded_fini(&m);
    }
    close(fd);
    return 0;
}
