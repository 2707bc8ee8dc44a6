/* SPDX-License-Identifier: MIT */
/* The file of an encoder (mmproj) of images, which the input changes: it is refused with a message, or an image is
 * encoded. Byte 0: the kind; bytes 1 and 2: the size of the image. */
#include "daemon/encoder/encoder.h"
#include "libcommon/error.h"
#include "tests/fuzz/fuzz-edit.h"
#include "tests/model/encoder-file.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

const char *const fuzz_seeds[] = {NULL};

enum { DIM = 6, STEPS_MAX = 20, ITEMS_MAX = 4096 };

static struct fuzz_gguf made[2];

static void make_files(void)
{
    encoder_file_bytes(&made[0].file, &encoder_file_gemma3, DIM, 1);
    encoder_file_bytes(&made[1].file, &encoder_file_qwen, DIM, 1);
    for (int i = 0; i < 2; i++) fuzz_gguf_find(&made[i]);
}

static void encode(const struct encoder *e, uint32_t width, uint32_t height)
{
    static uint8_t rgb[256 * 256 * 3];
    struct encoder_plan plan;
    struct encoding *x;
    int r = encoder_plan(e, width, height, &plan);
    if (r < 0) {
        fuzz_refused(r);
        return;
    }
    if (plan.items > ITEMS_MAX || plan.width > 512 || plan.height > 512) return; /* it takes seconds */
    r = encoding_new(&x, e, rgb, width, height);
    if (r < 0) {
        if (r != -ENOMEM) fuzz_refused(r);
        return;
    }
    for (int i = 0; i < STEPS_MAX && (r = encoding_step(x, NULL)) > 0; i++) continue;
    if (r == 0) FUZZ_CHECK(encoding_result(x));
    encoding_free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct fuzz_path path;
    struct encoder *e;
    struct buf b = BUF_INIT;
    fuzz_quiet();
    if (!made[0].places) make_files();
    unsigned kind = fuzz_byte(&in), width = fuzz_byte(&in), height = fuzz_byte(&in);
    fuzz_gguf_edit(&made[kind % 2], &in, &b);
    int fd = fuzz_file(b.data, b.len, &path);
    buf_fini(&b);
    int r = encoder_open(&e, path.s, NULL);
    if (r < 0) {
        if (r != -ENOMEM) fuzz_refused(r);
    } else {
        uint8_t identity[ENCODER_IDENTITY];
        encoder_identity(e, identity);
        encode(e, width, height);
        encoder_close(e);
    }
    close(fd);
    return 0;
}
