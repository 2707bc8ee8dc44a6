/* SPDX-License-Identifier: MIT */
#include "tests/text/tiny-tokenizer.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static void put(struct buf *b, const void *p, size_t n)
{
    assert_int_equal(buf_append(b, p, n), 0);
}

static void put_str(struct buf *b, const char *s)
{
    uint64_t n = strlen(s);
    put(b, &n, 8);
    put(b, s, n);
}

static void put_key(struct tiny_tokenizer *m, const char *key, uint32_t type)
{
    put_str(&m->body, key);
    put(&m->body, &type, 4);
    m->n++;
}

static void put_array(struct tiny_tokenizer *m, const char *key, uint32_t type, uint64_t n)
{
    put_key(m, key, GGUF_ARRAY);
    put(&m->body, &type, 4);
    put(&m->body, &n, 8);
}

void tiny_str(struct tiny_tokenizer *m, const char *key, const char *v)
{
    put_key(m, key, GGUF_STRING);
    put_str(&m->body, v);
}

void tiny_u32(struct tiny_tokenizer *m, const char *key, uint32_t v)
{
    put_key(m, key, GGUF_U32);
    put(&m->body, &v, 4);
}

void tiny_bool(struct tiny_tokenizer *m, const char *key, bool v)
{
    put_key(m, key, GGUF_BOOL);
    put(&m->body, &(uint8_t){v}, 1);
}

void tiny_strs(struct tiny_tokenizer *m, const char *key, const char *const *v, size_t n)
{
    put_array(m, key, GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) put_str(&m->body, v[i]);
}

void tiny_i32s(struct tiny_tokenizer *m, const char *key, const int32_t *v, size_t n)
{
    put_array(m, key, GGUF_I32, n);
    put(&m->body, v, 4 * n);
}

void tiny_f32s(struct tiny_tokenizer *m, const char *key, const float *v, size_t n)
{
    put_array(m, key, GGUF_F32, n);
    put(&m->body, v, 4 * n);
}

void tiny_u8s(struct tiny_tokenizer *m, const char *key, const char *v, size_t n)
{
    put_array(m, key, GGUF_U8, n);
    put(&m->body, v, n);
}

void tiny_write_keys(const struct tiny_tokenizer *m, int fd)
{
    struct {
        char magic[4];
        uint32_t version;
        uint64_t n_tensors, n_kv;
    } head = {{'G', 'G', 'U', 'F'}, 3, 0, m->n};

    assert_int_equal(write(fd, &head, sizeof(head)), sizeof(head));
    assert_int_equal(write(fd, m->body.data, m->body.len), (ssize_t)m->body.len);
}

int tiny_tokenizer_new(struct tiny_tokenizer *m, struct tokenizer **out)
{
    char path[64];
    struct gguf *g;
    int fd = memfd_create("vocabulary", MFD_CLOEXEC);
    assert_true(fd >= 0);
    tiny_write_keys(m, fd);
    buf_fini(&m->body);
    *m = (struct tiny_tokenizer){0};
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int r = gguf_open(&g, path);
    if (r < 0) print_error("%s\n", error_text(r));
    assert_int_equal(r, 0);
    r = tokenizer_new(out, g);
    gguf_close(g); /* a tokenizer keeps nothing of the file, as all following checks show */
    close(fd);
    return r;
}

/* Copies @s with @space for "_". The caller frees the result. */
static char *spelled(const char *s, const char *space)
{
    struct buf b = BUF_INIT;
    for (; *s; s++) put(&b, *s == '_' ? space : s, *s == '_' ? strlen(space) : 1);
    return b.data ? b.data : calloc(1, 1);
}

struct lists {
    const char *texts[1024];
    int32_t kinds[1024];
    float scores[1024];
    char names[256][8];
    size_t n;
};

static void add(struct lists *l, const char *text, int32_t kind, float score)
{
    assert_true(l->n < 1024);
    l->texts[l->n] = text;
    l->kinds[l->n] = kind;
    l->scores[l->n++] = score;
}

void tiny_spm(struct tiny_tokenizer *m, const struct tiny_token *extra, size_t n)
{
    struct lists l = {.n = 0};
    char *texts[1024];
    add(&l, "<unk>", TINY_UNKNOWN, 0);
    add(&l, "<s>", TINY_CONTROL, 0);
    add(&l, "</s>", TINY_CONTROL, 0);
    for (unsigned b = 0; b < 256; b++) {
        snprintf(l.names[b], sizeof(l.names[b]), "<0x%02X>", b);
        add(&l, l.names[b], TINY_BYTE, 0);
    }
    for (size_t i = 0; i < n; i++)
        add(&l, texts[i] = spelled(extra[i].text, "\xe2\x96\x81"), extra[i].kind, extra[i].score);
    tiny_str(m, "tokenizer.ggml.model", "llama");
    tiny_strs(m, "tokenizer.ggml.tokens", l.texts, l.n);
    tiny_i32s(m, "tokenizer.ggml.token_type", l.kinds, l.n);
    tiny_f32s(m, "tokenizer.ggml.scores", l.scores, l.n);
    for (size_t i = 0; i < n; i++) free(texts[i]);
}

/* GPT-2's alphabet, computed from its rule. */
static void alphabet(char names[256][8])
{
    uint32_t next = 0x100;
    for (unsigned b = 0; b < 256; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        names[b][utf8_encode(names[b], printable ? b : next++)] = 0;
    }
}

void tiny_bpe(struct tiny_tokenizer *m, const char *pre, const char *const *merges, const struct tiny_token *extra,
              size_t n)
{
    struct lists l = {.n = 0};
    char *pairs[512] = {NULL}, *joined[512];
    size_t n_merges = 0;
    alphabet(l.names);
    for (unsigned b = 0; b < 256; b++) add(&l, l.names[b], TINY_NORMAL, 0);
    for (; merges && merges[n_merges]; n_merges++) {
        assert_true(n_merges < 512);
        pairs[n_merges] = spelled(merges[n_merges], l.names[' ']);
        joined[n_merges] = strdup(pairs[n_merges]);
        char *cut = strchr(joined[n_merges], ' ');
        memmove(cut, cut + 1, strlen(cut));
        add(&l, joined[n_merges], TINY_NORMAL, 0);
    }
    for (size_t i = 0; i < n; i++) add(&l, extra[i].text, extra[i].kind, 0);
    tiny_str(m, "tokenizer.ggml.model", "gpt2");
    tiny_str(m, "tokenizer.ggml.pre", pre);
    tiny_strs(m, "tokenizer.ggml.tokens", l.texts, l.n);
    tiny_i32s(m, "tokenizer.ggml.token_type", l.kinds, l.n);
    tiny_strs(m, "tokenizer.ggml.merges", (const char *const *)pairs, n_merges);
    for (size_t i = 0; i < n_merges; i++) {
        free(pairs[i]);
        free(joined[i]);
    }
}

int32_t *tiny_encode(const struct tokenizer *t, const char *s, const char *marks, size_t *n)
{
    struct text text = {0};
    struct tokens out = {0};
    for (size_t i = 0; s[i]; i++) {
        bool markup = marks && *marks == '#';
        assert_int_equal(text_append(&text, s + i, 1, markup), 0);
        if (marks && *marks) marks++;
    }
    assert_int_equal(tokenizer_encode(t, &text, 0, true, &out), 0);
    text_fini(&text);
    free(out.ends);
    *n = out.n;
    return out.ids;
}

void tiny_expect(const struct tokenizer *t, const char *s, const char *marks, const int32_t *ids, size_t n)
{
    size_t got_n;
    int32_t *got = tiny_encode(t, s, marks, &got_n);
    bool same = got_n == n && (!n || memcmp(got, ids, n * sizeof(*ids)) == 0);
    if (!same) {
        print_error("\"%s\" is\n", s);
        for (size_t i = 0; i < got_n; i++) print_error(" %d", got[i]);
        print_error("\ninstead of\n");
        for (size_t i = 0; i < n; i++) print_error(" %d", ids[i]);
        print_error("\n");
    }
    free(got);
    assert_true(same);
}

uint32_t tiny_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

void tiny_random_text(uint64_t *seed, size_t max, struct buf *out)
{
    static const char common[] = "  abcde \n\t12'st.,<|>_-";
    static const uint32_t last[] = {0x7f, 0x7ff, 0xffff, 0x10ffff};
    size_t end = out->len + max;
    while (out->len + 4 <= end) {
        char c[4];
        uint32_t pick = tiny_random(seed) % 8, cp = tiny_random(seed) % (last[pick % 4] + 1);
        if (pick >= 4) cp = (unsigned char)common[tiny_random(seed) % (sizeof(common) - 1)];
        if ((cp >= 0xd800 && cp < 0xe000) || cp == 0x2581) continue; /* not a character; SentencePiece's space */
        put(out, c, utf8_encode(c, cp));
    }
}

void tiny_round_trip(const struct tokenizer *t, const char *s, size_t len)
{
    struct text text = {0};
    struct tokens ids = {0};
    struct buf back = BUF_INIT;
    struct detok d = {.at_start = true};
    assert_int_equal(text_append(&text, s, len, false), 0);
    assert_int_equal(tokenizer_encode(t, &text, 0, true, &ids), 0);
    for (size_t i = 0; i < ids.n; i++) {
        assert_true(ids.ends[i] >= (i ? ids.ends[i - 1] : 0));
        assert_int_equal(detok_push(&d, t, ids.ids[i], &back), 0);
    }
    assert_int_equal(ids.n ? ids.ends[ids.n - 1] : 0, len);
    assert_int_equal(detok_flush(&d, &back), 0);
    assert_int_equal(back.len, len);
    if (len) assert_memory_equal(back.data, s, len);
    buf_fini(&back);
    text_fini(&text);
    tokens_fini(&ids);
}
