/* SPDX-License-Identifier: MIT */
#include "tests/fuzz/fuzz-media.h"
#include "daemon/media/decode/decode.h"
#include "daemon/media/media-wire.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

static void check_error(const struct media *m, int r)
{
    const char *text = error_text(r);
    FUZZ_CHECK(r == -EBADMSG || r == -EFBIG || r == -ENOMEM);
    FUZZ_CHECK(strlen(text) >= 5 && strlen(text) < MEDIA_TEXT_MAX && !strpbrk(text, "\n\x1b"));
    FUZZ_CHECK(m->format == MEDIA_UNKNOWN || strstr(text, media_format_name(m->format)));
}

void fuzz_decode(const uint8_t *data, size_t size)
{
    struct media m = {0};
    struct media_reply reply;
    uint8_t *copy = malloc(size ? size : 1); /* without a byte more */
    FUZZ_CHECK(copy);
    memcpy(copy, data, size);
    int r = decode(copy, size, &m);
    free(copy);
    if (r < 0) {
        check_error(&m, r);
        media_fini(&m);
        return;
    }
    media_digest(&m);
    media_reply_of(&reply, &m);
    FUZZ_CHECK(media_head_check(&reply.head) == 0);
    media_reply_fini(&reply);
}
