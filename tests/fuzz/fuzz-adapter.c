/* SPDX-License-Identifier: MIT */
/* An adapter (LoRA) of a tiny model, whose file the input changes: it is refused with a message, or a batch is computed
 * with it. */
#include "daemon/model/adapter.h"
#include "libcommon/error.h"
#include "tests/backend/backend-seq.h"
#include "tests/fuzz/fuzz-edit.h"
#include "tests/support/lora-file.h"
#include <errno.h>
#include <unistd.h>

const char *const fuzz_seeds[] = {NULL};

static struct gguf *base;
static struct fuzz_gguf made[3];

static void make_files(void)
{
    static const int32_t invocation[] = {5, 6, 7};
    static const uint32_t types[] = {0, 1, 30};
    struct tiny t;
    struct lora_file l;
    tiny_init(&t);
    t.dim = 32;
    t.ffn = 32;
    t.heads = 2;
    t.kv_heads = 1;
    t.ctx = 64;
    base = model_file_tiny(&t);
    for (unsigned i = 0; i < 3; i++) {
        lora_file_init(&l);
        l.type = types[i];
        if (i == 1) l.only = "attn_q,ffn_up,";
        if (i == 2) l.invocation = invocation, l.n_invocation = 3, l.alpha = 0;
        FUZZ_CHECK(lora_file_bytes(&made[i].file, &l, base) == 0);
        fuzz_gguf_find(&made[i]);
    }
}

static void use(const struct adapter *a)
{
    static const int32_t ids[] = {1, 5, 6, 7, 9};
    const struct tiny_backend_config c = {.cpu = "scalar", .ctx = 64, .batch_tokens = 32, .blocks = 2};
    struct backend *b = tiny_backend(base, &c);
    uint32_t number;
    uint64_t bytes;
    FUZZ_CHECK(adapter_from(a, ids, 5) <= 5);
    int r = b->ops->adapter_load(b, a, &number, &bytes);
    if (r < 0) {
        fuzz_refused(r);
    } else {
        struct backend_seq s;
        backend_seq_init(&s, b, 4, 1, 0);
        s.adapter = number;
        s.adapter_scale = 0.5f;
        backend_seq_run(b, &s, 4);
        backend_seq_fini(&s);
    }
    backend_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct fuzz_path path;
    struct adapter *a;
    struct buf b = BUF_INIT;
    fuzz_quiet();
    if (!base) make_files();
    fuzz_gguf_edit(&made[fuzz_byte(&in) % 3], &in, &b);
    int fd = fuzz_file(b.data, b.len, &path);
    buf_fini(&b);
    int r = adapter_open(&a, path.s, base);
    if (r < 0) {
        fuzz_refused(r);
    } else {
        use(a);
        adapter_close(a);
    }
    close(fd);
    return 0;
}
