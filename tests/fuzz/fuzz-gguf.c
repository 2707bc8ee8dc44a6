/* SPDX-License-Identifier: MIT */
/* GGUF files of any bytes. Byte 0: 1 for two files, the parts of a model, of which the first has as many bytes as the
 * next two bytes say. */
#include "daemon/model/gguf-file.h"
#include "daemon/model/hparams.h"
#include "libcommon/error.h"
#include "tests/fuzz/fuzz.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *const fuzz_seeds[] = {NULL};

static volatile uint8_t last_byte; /* of what was read, so that it is read */

static void use_value(const struct gguf *g, const struct gguf_kv *kv)
{
    char name[64];
    uint32_t u;
    int64_t i;
    float f;
    bool b;
    struct gguf_str s;
    const void *it = NULL;
    uint64_t index;
    FUZZ_CHECK(kv->type < GGUF_TYPES);
    gguf_text(name, sizeof(name), kv->key);
    if (kv->key.len < sizeof(name) && !memchr(kv->key.data, 0, kv->key.len) && strlen(name) == kv->key.len) {
        gguf_find(g, name);
        if (gguf_get_u32(g, name, &u) < 0) FUZZ_CHECK(strlen(error_text(-EINVAL)) > 4);
        gguf_get_i64(g, name, &i);
        gguf_get_f32(g, name, &f);
        gguf_get_bool(g, name, &b);
        if (gguf_get_str(g, name, &s) == 0 && s.len) gguf_text(name, sizeof(name), s);
    }
    while (gguf_next_str(kv, &it, &s, &index)) last_byte = s.len ? (uint8_t)s.data[s.len - 1] : 0;
    if (kv->type != GGUF_ARRAY || !kv->n) return;
    if (kv->elem == GGUF_F32) gguf_array_f32(kv, kv->n - 1);
    if (kv->elem == GGUF_I32 || kv->elem == GGUF_U32) gguf_array_i32(kv, kv->n - 1);
}

static void use(const struct gguf *g)
{
    struct hparams s;
    for (size_t i = 0; i < gguf_n_kv(g); i++) use_value(g, gguf_kv_at(g, i));
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        if (t->data && t->size) last_byte = ((const uint8_t *)t->data)[t->size - 1];
    }
    gguf_find_tensor(g, "token_embd.weight");
    if (gguf_complete(g) < 0) FUZZ_CHECK(strlen(error_text(-EINVAL)) > 4);
    int r = hparams_read(&s, g);
    if (r == 0) hparams_split(&s);
    if (r < 0) FUZZ_CHECK(strlen(error_text(r)) > 4);
}

static void open_one(const char *path)
{
    struct gguf *g;
    int r = gguf_open(&g, path);
    if (r < 0) {
        fuzz_refused(r);
        return;
    }
    use(g);
    gguf_close(g);
}

static void open_parts(const uint8_t *data, size_t size)
{
    static char dir[64];
    char path[2][128];
    struct fuzz_input in = {data, size};
    size_t n = fuzz_short(&in);
    if (!dir[0]) fuzz_folder(dir);
    const char *first = fuzz_bytes(&in, &n);
    for (int i = 0; i < 2; i++) snprintf(path[i], sizeof(path[i]), "%s/m-0000%d-of-00002.gguf", dir, i + 1);
    fuzz_write(path[0], first, n);
    fuzz_write(path[1], in.data, in.n);
    open_one(path[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_path path;
    if (size < 1) return 0;
    if (data[0] & 1) {
        open_parts(data + 1, size - 1);
        return 0;
    }
    int fd = fuzz_file(data + 1, size - 1, &path);
    open_one(path.s);
    close(fd);
    return 0;
}
