/* SPDX-License-Identifier: MIT */
#include "libcommon/error.h"
#include "libcommon/frame.h"
#include "tests/libcommon/check.h"
#include "tests/support/memory.h"
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Body @i of a stream: its size and its bytes follow from @i. */
static size_t body_size(unsigned i)
{
    static const size_t sizes[] = {0, 1, 3, 4, 5, 100, 1000, 65532, 65536, 200000};

    return sizes[i % (sizeof sizes / sizeof *sizes)];
}

static void add_frame(struct buf *stream, unsigned i)
{
    unsigned char head[4];
    size_t n = body_size(i);

    frame_header(head, (uint32_t)n);
    assert_int_equal(buf_append(stream, head, 4), 0);
    assert_int_equal(buf_reserve(stream, n), 0);
    for (size_t k = 0; k < n; k++) stream->data[stream->len++] = (char)(k * 7 + i);
}

static bool is_body(const char *body, size_t len, unsigned i)
{
    if (len != body_size(i)) return false;
    for (size_t k = 0; k < len; k++)
        if (body[k] != (char)(k * 7 + i)) return false;
    return true;
}

static void feed_in_pieces(uint64_t seed, size_t largest)
{
    enum { FRAMES = 30 };
    struct frame_decoder d = {0};
    struct buf stream = BUF_INIT;
    unsigned seen = 0;

    for (unsigned i = 0; i < FRAMES; i++) add_frame(&stream, i);
    for (size_t at = 0, n; at < stream.len; at += n) {
        const char *body;
        size_t len;
        char *piece;

        n = 1 + next_random(&seed) % largest;
        if (n > stream.len - at) n = stream.len - at;
        piece = malloc(n); /* its own memory: reading past a piece is an error that ASan sees */
        memcpy(piece, stream.data + at, n);
        assert_int_equal(frame_feed(&d, piece, n), 0);
        free(piece);
        while (frame_peek(&d, &body, &len) == 1) {
            assert_true(is_body(body, len, seen));
            frame_pop(&d);
            seen++;
        }
    }
    assert_int_equal(seen, FRAMES);
    frame_decoder_fini(&d);
    buf_fini(&stream);
}

/* A body goes with its memory, whatever has come behind it. */
static void taken_in_pieces(size_t piece)
{
    enum { FRAMES = 20 };
    struct frame_decoder d = {0};
    struct buf stream = BUF_INIT;
    unsigned seen = 0;

    for (unsigned i = 0; i < FRAMES; i++) add_frame(&stream, i);
    for (size_t at = 0, n; at < stream.len; at += n) {
        const char *body;
        char *memory;
        size_t len;

        n = piece < stream.len - at ? piece : stream.len - at;
        assert_int_equal(frame_feed(&d, stream.data + at, n), 0);
        while (frame_peek(&d, &body, &len) == 1) {
            assert_int_equal(frame_take(&d, &memory, &body), 0);
            assert_true(body > memory && is_body(body, len, seen));
            assert_int_equal(body[len], 0);
            seen++;
            free(memory);
        }
    }
    assert_int_equal(seen, FRAMES);
    assert_int_equal(d.in.len, 0);
    frame_decoder_fini(&d);
    buf_fini(&stream);
}

static void bodies_are_taken(void **state)
{
    taken_in_pieces(7);
    taken_in_pieces(70000);
    taken_in_pieces(SIZE_MAX);
}

static void random_pieces(void **state)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        feed_in_pieces(seed, 13);
        feed_in_pieces(seed, 5000);
        feed_in_pieces(seed, 300000);
    }
}

static void byte_by_byte(void **state)
{
    feed_in_pieces(1, 1);
}

static void peek_changes_nothing(void **state)
{
    struct frame_decoder d = {0};
    const char *body;
    size_t len;

    assert_int_equal(frame_peek(&d, &body, &len), 0);
    assert_int_equal(frame_feed(&d, "\3\0\0\0abc\1\0\0\0", 11), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(frame_peek(&d, &body, &len), 1);
        assert_int_equal(len, 3);
        assert_memory_equal(body, "abc", 3);
    }
    frame_pop(&d);
    assert_int_equal(frame_peek(&d, &body, &len), 0);
    assert_int_equal(frame_feed(&d, "x", 1), 0);
    assert_int_equal(frame_peek(&d, &body, &len), 1);
    assert_memory_equal(body, "x", 1);
    frame_decoder_fini(&d);
}

static void oversized_length_is_refused_at_its_fourth_byte(void **state)
{
    struct frame_decoder d = {0};
    const char *body;
    size_t len;

    /* FRAME_MAX + 1 */
    assert_int_equal(frame_feed(&d, "\1\0\0", 3), 0);
    assert_int_equal(frame_feed(&d, "\4", 1), -EMSGSIZE);
    assert_non_null(strstr(error_text(-EMSGSIZE), "67108865"));
    assert_int_equal(frame_peek(&d, &body, &len), -EMSGSIZE);
    assert_true(d.in.cap <= FRAME_CHUNK);
    frame_decoder_fini(&d);
}

static void oversized_second_frame(void **state)
{
    struct frame_decoder d = {.max = 8};
    const char *body;
    size_t len;

    assert_int_equal(frame_feed(&d, "\2\0\0\0ab\11\0\0\0", 10), 0);
    assert_int_equal(frame_peek(&d, &body, &len), 1);
    frame_pop(&d);
    assert_int_equal(frame_peek(&d, &body, &len), -EMSGSIZE);
    assert_int_equal(frame_feed(&d, "", 0), -EMSGSIZE);
    frame_decoder_fini(&d);
}

static void the_limit_itself_is_allowed(void **state)
{
    struct frame_decoder d = {.max = 8};
    const char *body;
    size_t len;

    assert_int_equal(frame_feed(&d, "\10\0\0\0abcdefgh", 12), 0);
    assert_int_equal(frame_peek(&d, &body, &len), 1);
    assert_int_equal(len, 8);
    frame_decoder_fini(&d);
}

static void a_length_alone_reserves_nothing(void **state)
{
    struct frame_decoder d = {0};
    const char *body;
    size_t len;

    assert_int_equal(frame_feed(&d, "\0\0\0\4", 4), 0); /* FRAME_MAX */
    assert_int_equal(frame_peek(&d, &body, &len), 0);
    assert_true(d.in.cap <= FRAME_CHUNK);
    frame_decoder_fini(&d);
}

static void an_idle_decoder_gives_back_its_memory(void **state)
{
    struct frame_decoder d = {0};
    const char *body;
    char *large = calloc(1, 1 << 20);
    size_t len;

    assert_int_equal(frame_feed(&d, "\0\0\20\0", 4), 0); /* 1 MiB */
    assert_int_equal(frame_feed(&d, large, 1 << 20), 0);
    assert_int_equal(frame_peek(&d, &body, &len), 1);
    frame_pop(&d);
    assert_int_equal(d.in.cap, 0);
    frame_decoder_fini(&d);
    free(large);
}

/* A peer that always sends the beginning of the next frame too: what was popped is removed all the same. */
static void popped_frames_take_no_memory(void **state)
{
    static const char frame[] = "\4\0\0\0body";
    struct frame_decoder d = {0};
    const char *body;
    size_t len;
    assert_int_equal(frame_feed(&d, frame, 1), 0);
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(frame_feed(&d, frame + 1, 7), 0);
        assert_int_equal(frame_feed(&d, frame, 1), 0);
        assert_int_equal(frame_peek(&d, &body, &len), 1);
        assert_memory_equal(body, "body", 4);
        frame_pop(&d);
        assert_true(d.in.len <= 9);
    }
    assert_true(d.in.cap <= FRAME_CHUNK);
    frame_decoder_fini(&d);
}

/* Without memory nothing changes, and the frames come when there is some again. */
static void without_memory(void **state)
{
    struct frame_decoder d = {0};
    char two[2 * 1004] = {0}, *memory = NULL;
    const char *body;
    size_t len;
    for (int i = 0; i < 2; i++) {
        memset(two + 1004 * i, 'a' + i, 1004);
        frame_header((unsigned char *)two + 1004 * i, 1000);
    }
    memory_fail(0);
    assert_int_equal(frame_feed(&d, two, sizeof(two)), -ENOMEM);
    assert_true(memory_end());
    assert_int_equal(frame_peek(&d, &body, &len), 0);
    assert_int_equal(frame_feed(&d, two, sizeof(two)), 0);
    memory_fail(0); /* the copy of the second */
    assert_int_equal(frame_take(&d, &memory, &body), -ENOMEM);
    assert_true(memory_end());
    assert_null(memory);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(frame_peek(&d, &body, &len), 1);
        assert_memory_equal(body, two + 1004 * i + 4, 1000);
        memory_fail(i ? 0 : 1); /* its memory cannot be made smaller */
        assert_int_equal(frame_take(&d, &memory, &body), 0);
        assert_true(memory_end());
        assert_memory_equal(body, two + 1004 * i + 4, 1000);
        assert_int_equal(body[1000], 0);
        free(memory);
    }
    frame_decoder_fini(&d);
}

static void header_is_little_endian(void **state)
{
    unsigned char h[4];

    frame_header(h, 0x01020304);
    assert_memory_equal(h, "\4\3\2\1", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_are_taken),
        cmocka_unit_test(random_pieces),
        cmocka_unit_test(byte_by_byte),
        cmocka_unit_test(peek_changes_nothing),
        cmocka_unit_test(oversized_length_is_refused_at_its_fourth_byte),
        cmocka_unit_test(oversized_second_frame),
        cmocka_unit_test(the_limit_itself_is_allowed),
        cmocka_unit_test(a_length_alone_reserves_nothing),
        cmocka_unit_test(an_idle_decoder_gives_back_its_memory),
        cmocka_unit_test(popped_frames_take_no_memory),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(header_is_little_endian),
    };

    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
