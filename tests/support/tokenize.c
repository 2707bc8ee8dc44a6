/* SPDX-License-Identifier: MIT */
/* Token ids of many texts, for comparing with another program: `tokenize FILE…` reads texts from standard input, each
 * behind its length (u32), and prints for each FILE a line "FILE NAME", then one line of ids for each text. */
#include "daemon/text/tokenizer/tokenizer.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

DEFINE_CLEANUP(struct gguf *, gguf_close)
DEFINE_CLEANUP(struct tokenizer *, tokenizer_free)

static int print_ids(const struct tokenizer *t, const char *s, size_t n)
{
    struct text text = {0};
    struct tokens ids = {0};
    int r = text_append(&text, s, n, false);
    if (!r) r = tokenizer_encode(t, &text, 0, true, &ids);
    for (size_t i = 0; !r && i < ids.n; i++) printf("%d ", ids.ids[i]);
    if (r) printf("error: %s", error_text(r));
    putchar('\n');
    text_fini(&text);
    tokens_fini(&ids);
    return 0;
}

static int run(const char *path, const struct buf *in)
{
    _cleanup_(gguf_closep) struct gguf *g = NULL;
    _cleanup_(tokenizer_freep) struct tokenizer *t = NULL;
    int r = gguf_open(&g, path);
    if (!r) r = tokenizer_new(&t, g);
    if (r) return r;
    printf("FILE %s\n", path);
    uint32_t n;
    for (size_t at = 0; at + sizeof(n) <= in->len; at += n) {
        memcpy(&n, in->data + at, sizeof(n));
        at += sizeof(n);
        if (n > in->len - at) return error_say(-EINVAL, "the input ends within a text");
        r = print_ids(t, in->data + at, n);
        if (r) return r;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct buf in = BUF_INIT;
    char piece[65536];
    int failed = 0;
    for (size_t n; (n = fread(piece, 1, sizeof(piece), stdin));)
        if (buf_append(&in, piece, n)) return 1;
    for (int i = 1; i < argc; i++) {
        int r = run(argv[i], &in);
        if (r) fprintf(stderr, "tokenize: %s\n", error_text(r)), failed = 1;
    }
    buf_fini(&in);
    return failed;
}
