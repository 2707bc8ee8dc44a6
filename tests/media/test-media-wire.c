/* SPDX-License-Identifier: MIT */
#include "daemon/media/media-wire.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void test_heads(void **state)
{
    const struct media_head image = {
        .magic = MEDIA_MAGIC, .kind = MEDIA_IMAGE, .format = MEDIA_PNG, .width = 5, .height = 4, .size = 60};
    const struct media_head sound = {
        .magic = MEDIA_MAGIC, .kind = MEDIA_SOUND, .format = MEDIA_WAV, .samples = 5, .size = 20};
    const struct media_head refused = {.magic = MEDIA_MAGIC, .error = -EBADMSG, .size = 10};
    assert_int_equal(media_head_check(&image), 0);
    assert_int_equal(media_head_check(&sound), 0);
    assert_int_equal(media_head_check(&refused), 0);
    struct media_head wrong[16];
    size_t n = 0;
#define WRONG(from, field, value) (wrong[n] = (from), wrong[n++].field = (value))
    WRONG(image, magic, 1);
    WRONG(image, kind, MEDIA_SOUND);
    WRONG(image, kind, 7);
    WRONG(image, format, MEDIA_WAV);
    WRONG(image, format, MEDIA_FORMATS);
    WRONG(image, width, 0);
    WRONG(image, width, 0x40000001); /* 3 * 4 * this is 60 modulo 2^32 */
    WRONG(image, height, 0xffffffff);
    WRONG(image, size, 59);
    WRONG(image, samples, 1);
    WRONG(sound, samples, 0x4000000000000005); /* 4 * this is 20 modulo 2^64 */
    WRONG(sound, samples, 0);
    WRONG(sound, width, 1);
    WRONG(refused, error, 0);
    WRONG(refused, error, 5);
    WRONG(refused, size, MEDIA_TEXT_MAX + 1);
    assert_int_equal(n, 16);
    for (size_t i = 0; i < n; i++) assert_int_equal(media_head_check(&wrong[i]), -EPROTO);
}

static void test_replies(void **state)
{
    struct media m = {.kind = MEDIA_IMAGE, .format = MEDIA_JPEG, .width = 2, .height = 1, .data = malloc(6)}, back;
    struct media_reply reply;
    void *pixels = m.data;
    media_reply_of(&reply, &m);
    assert_null(m.data);
    assert_int_equal(media_head_check(&reply.head), 0);
    assert_int_equal(media_reply_take(&reply, &back), 0);
    assert_true(back.data == pixels && back.width == 2 && back.height == 1 && back.format == MEDIA_JPEG && !reply.data);
    media_fini(&back);
    /* A decoder's text is untrusted: no control characters reach a terminal. */
    int r = error_say(-EFBIG, "image: PNG: \x1b[2J\nbad%0400d", 1);
    assert_int_equal(media_reply_error(&reply, r), 0);
    assert_int_equal(media_head_check(&reply.head), 0);
    memcpy(reply.data, "im\x1b\n", 4);
    assert_int_equal(media_reply_take(&reply, &back), -EFBIG);
    assert_non_null(strstr(error_text(-EFBIG), "im\xe2\x90\x9b "));
    assert_null(strpbrk(error_text(-EFBIG), "\x1b\n"));
    media_reply_fini(&reply);
}

static void test_transfers(void **state)
{
    int pair[2];
    char text[4];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(media_send(pair[0], "abc", 3), 0);
    assert_int_equal(media_write(pair[0], "d", 1), 0);
    assert_int_equal(media_read(pair[1], text, 4), 0);
    assert_memory_equal(text, "abcd", 4);
    assert_int_equal(media_send(pair[0], "abc", 3), 0);
    close(pair[0]);
    assert_int_equal(media_read(pair[1], text, 4), -ENODATA);
    assert_int_equal(media_send(pair[1], "x", 1), -ENODATA); /* and no SIGPIPE */
    close(pair[1]);
    assert_int_equal(media_read(-1, text, 1), -EBADF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_replies),
        cmocka_unit_test(test_transfers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
