/* SPDX-License-Identifier: MIT */
#include "libcommon/error.h"
#include "libcommon/proto.h"
#include "tests/libcommon/check.h"
#include "tests/libcommon/samples.h"
#include "tests/support/memory.h"
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * Memory that runs out at every single allocation: each is an -ENOMEM that leaves nothing behind (what it leaves, ASan
 * and valgrind see). msgpack-c's own do not fail.
 */

static void write_sample(unsigned i, struct buf *out)
{
    struct proto_request r;
    struct proto_event e;
    int result = 0;

    if (i < SAMPLE_REQUESTS)
        sample_request(i, &r);
    else
        sample_event(i - SAMPLE_REQUESTS, &e);
    for (unsigned long n = 0; n < 1000; n++) {
        const size_t before = out->len;

        memory_fail(n);
        result = i < SAMPLE_REQUESTS ? proto_write_request(out, &r) : proto_write_event(out, &e);
        memory_end();
        if (result == 0) break;
        assert_int_equal(result, -ENOMEM);
        assert_int_equal(out->len, before);
        buf_fini(out); /* else it has its memory the next time */
    }
    assert_int_equal(result, 0);
    if (i < SAMPLE_REQUESTS)
        proto_request_fini(&r);
    else
        proto_event_fini(&e);
}

static int read_once(bool event, const char *body, size_t len)
{
    struct proto_request r;
    struct proto_event e;
    int result = event ? proto_read_event(&e, body, len) : proto_read_request(&r, body, len);

    memory_end();
    if (result == 0 && event) proto_event_fini(&e);
    if (result == 0 && !event) proto_request_fini(&r);
    return result;
}

static void reading_and_writing_without_memory(void **state)
{
    unsigned long failures = 0;

    for (unsigned i = 0; i < SAMPLE_REQUESTS + SAMPLE_EVENTS; i++) {
        struct buf out = BUF_INIT;
        int r = -ENOMEM;

        write_sample(i, &out);
        for (unsigned long n = 0; r < 0 && n < 1000; n++) {
            memory_fail(n);
            r = read_once(i >= SAMPLE_REQUESTS, out.data + 4, out.len - 4);
            if (r < 0) assert_int_equal(r, -ENOMEM);
            failures += r < 0;
        }
        assert_int_equal(r, 0);
        buf_fini(&out);
    }
    assert_true(failures > 15); /* or the calls did not come by here */
}

/* A text whose bytes are replaced is whole, or there is no message. */
static void a_text_that_is_no_utf8(void **state)
{
    char text[400];
    struct proto_event e = {.type = PROTO_EV_WARNING, .id = 1, .message = {text, sizeof(text)}}, read;
    int r = -ENOMEM;
    for (size_t i = 0; i < sizeof(text); i++) text[i] = i % 2 ? 'a' : (char)0xff;
    for (unsigned long n = 0; r < 0; n++) {
        struct buf out = BUF_INIT;
        memory_fail(n);
        r = proto_write_event(&out, &e);
        const bool failed = memory_end();
        assert_int_equal(r, failed ? -ENOMEM : 0);
        if (failed) assert_int_equal(out.len, 0);
        if (r == 0) {
            assert_true(n > 4);
            assert_int_equal(proto_read_event(&read, out.data + 4, out.len - 4), 0);
            assert_int_equal(read.message.len, 4 * sizeof(text) / 2);
            proto_event_fini(&read);
        }
        buf_fini(&out);
    }
}

static size_t used_after(unsigned i, unsigned rounds)
{
    for (; rounds > 0; rounds--) {
        struct buf out = BUF_INIT;
        write_sample(i, &out);
        assert_int_equal(read_once(i >= SAMPLE_REQUESTS, out.data + 4, out.len - 4), 0);
        buf_fini(&out);
    }
    return mallinfo2().uordblks;
}

/* All that a message holds is freed with it, whatever its type. The first rounds fill the caches of the C library,
 * which count as used; under a sanitizer it counts nothing. */
static void nothing_is_left(void **state)
{
    for (unsigned i = 0; i < SAMPLE_REQUESTS + SAMPLE_EVENTS; i++) {
        const size_t before = used_after(i, 20);
        assert_int_equal(used_after(i, 20), before);
    }
}

static void a_buffer_keeps_what_it_has(void **state)
{
    struct buf b = BUF_INIT;

    assert_int_equal(buf_puts(&b, "kept"), 0);
    memory_fail(0);
    assert_int_equal(buf_reserve(&b, 1000), -ENOMEM);
    memory_fail(0);
    assert_int_equal(buf_printf(&b, "%01000d", 1), -ENOMEM);
    memory_end();
    assert_int_equal(b.len, 4);
    assert_string_equal(b.data, "kept");
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_and_writing_without_memory),
        cmocka_unit_test(nothing_is_left),
        cmocka_unit_test(a_text_that_is_no_utf8),
        cmocka_unit_test(a_buffer_keeps_what_it_has),
    };

    return cmocka_run_group_tests_name("proto-memory", tests, NULL, NULL);
}
