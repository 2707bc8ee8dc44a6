/* SPDX-License-Identifier: MIT */
#include "daemon/command/tool.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/file.h"
#include "libcommon/paths.h"
#include "libcommon/units.h"
#include <string.h>
#include <time.h>

#define FILE_MAX (1ul << 30)

double tool_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint32_t blocks_per_sequence(const struct tool *l)
{
    return (l->backend->config.ctx + KV_BLOCK - 1) / KV_BLOCK;
}

int tool_open(struct tool *l, const char *model, struct backend_config *c, uint32_t sequences)
{
    memset(l, 0, sizeof(*l));
    _cleanup_(freep) char *path = NULL;
    int r = paths_model_file(model, false, &path);
    if (!r) r = gguf_open(&l->gguf, path);
    if (!r) r = hparams_read(&l->hparams, l->gguf);
    if (!r) r = tokenizer_new(&l->tokenizer, l->gguf);
    if (r) return r;
    if (!c->ctx || c->ctx > l->hparams.ctx) c->ctx = l->hparams.ctx;
    uint64_t blocks = (uint64_t)sequences * ((c->ctx + KV_BLOCK - 1) / KV_BLOCK);
    c->kv_bytes = blocks * l->hparams.groups[0].n_layers * backend_kv_bytes(&l->hparams, c->kv_type, 0);
    c->states = sequences;
    if (hparams_state(&l->hparams)) c->kv_bytes += sequences * hparams_state(&l->hparams)->state_bytes;
    c->cpu = getenv("HOB_CPU");
    double start = tool_now();
    r = backend_new(&l->backend, l->gguf, c);
    l->seconds = tool_now() - start;
    return r;
}

void tool_close(struct tool *l)
{
    l->backend = backend_free(l->backend);
    l->tokenizer = tokenizer_free(l->tokenizer);
    l->gguf = gguf_close(l->gguf);
}

int tool_forward(struct tool *l, uint32_t seq, const int32_t *tokens, uint32_t pos, uint32_t n, uint32_t first,
                 float *logits)
{
    struct backend *b = l->backend;
    uint32_t n_blocks = blocks_per_sequence(l), cap = b->config.batch_tokens;
    _cleanup_(freep) uint32_t *blocks = malloc(n_blocks * sizeof(*blocks));
    _cleanup_(freep) uint8_t *want = calloc(cap, 1);
    if (!blocks || !want) return error_origin(-ENOMEM);
    for (uint32_t i = 0; i < n_blocks; i++) blocks[i] = seq * n_blocks + i;
    const uint32_t *tables[KV_GROUPS_MAX] = {blocks};
    for (uint32_t done = 0; done < n;) {
        uint32_t take = n - done < cap ? n - done : cap, rows = 0;
        for (uint32_t i = 0; i < take; i++) rows += want[i] = logits && done + i >= first ? WANT_LOGITS : WANT_NOTHING;
        struct batch_entry e = {.blocks = tables,
                                .state = {.block = seq},
                                .pos = pos + done,
                                .n = take,
                                .tokens = tokens + done,
                                .want = want};
        int r = b->ops->forward(b, &e, 1, rows ? logits : NULL, NULL);
        if (r < 0) return r;
        if (rows) logits += (size_t)rows * b->hparams.vocab;
        done += take;
    }
    return 0;
}

int tool_read_file(const char *path, char **out, size_t *len)
{
    int fd = file_open_once(path);
    if (fd < 0) return fd;
    _cleanup_(fclosep) FILE *f = fdopen(fd, "r");
    if (!f) {
        close(fd);
        return error_origin(-ENOMEM);
    }
    struct buf b = BUF_INIT;
    int r = 0;
    for (;;) {
        r = buf_reserve(&b, 65536);
        if (r) break;
        size_t n = fread(b.data + b.len, 1, 65536, f);
        b.len += n;
        if (!n) break;
        if (b.len > FILE_MAX) {
            r = error_say(-EFBIG, "%s: larger than %lu bytes", path, FILE_MAX);
            break;
        }
    }
    if (!r && ferror(f)) r = error_say(-EIO, "%s: read error", path);
    if (!r) r = buf_append(&b, "", 1);
    if (r) {
        buf_fini(&b);
        return r;
    }
    *out = buf_steal(&b, len);
    --*len;
    return 0;
}

int tool_tokens(const struct tool *l, const char *text, size_t len, struct tokens *out)
{
    struct text t = {0};
    int r = 0;
    if (tokenizer_add_bos(l->tokenizer) && tokenizer_bos(l->tokenizer) >= 0)
        r = tokens_push(out, tokenizer_bos(l->tokenizer), 0);
    if (!r) r = text_append(&t, text, len, false);
    if (!r) r = tokenizer_encode(l->tokenizer, &t, 0, true, out);
    text_fini(&t);
    return r;
}

int tool_parse_number(const char *name, const char *s, uint64_t min, uint64_t max, uint64_t *out)
{
    int r = parse_u64(s, min, max, out);
    return r < 0 ? error_in(r, "%s", name) : 0;
}

uint32_t tool_parse_list(const char *s, uint32_t *out, uint32_t max)
{
    uint32_t n = 0;
    for (;;) {
        char *end;
        if (*s < '0' || *s > '9' || n == max) return 0;
        unsigned long v = strtoul(s, &end, 10);
        if (v > UINT32_MAX) return 0;
        out[n++] = (uint32_t)v;
        if (!*end) return n;
        if (*end != ',') return 0;
        s = end + 1;
    }
}
