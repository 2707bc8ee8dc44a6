/* SPDX-License-Identifier: MIT */
#include "daemon/command/command.h"
#include "daemon/text/tokenizer/tokenizer.h"
#include "libcommon/error.h"
#include <string.h>
#include <unistd.h>

int command_read_input(struct buf *b)
{
    for (;;) {
        int r = buf_reserve(b, 1 << 16);
        if (r < 0) return r;
        ssize_t n = read(STDIN_FILENO, b->data + b->len, b->cap - b->len - 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return error_say(-errno, "standard input: %s", strerror(errno));
        if (n == 0) return 0;
        b->len += (size_t)n;
        b->data[b->len] = 0;
        if (b->len > TOKENIZER_TEXT_MAX) return error_say(-E2BIG, "standard input: more than 1 GiB");
    }
}
