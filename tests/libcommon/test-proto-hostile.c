/* SPDX-License-Identifier: MIT */
#include "libcommon/error.h"
#include "libcommon/proto.h"
#include "tests/libcommon/check.h"
#include "tests/libcommon/samples.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * Damaged messages: whatever is made of a valid one, it is read, or refused with a message. What a damaged one means is
 * not asked here; that nothing is read out of bounds, leaked or freed twice is what ASan and valgrind see.
 */

/* One or the other reader on @n bytes of their own. True when they were accepted. */
static bool read_any(const char *bytes, size_t n, bool event)
{
    char *copy = malloc(n ? n : 1);
    struct proto_request r;
    struct proto_event e;
    int result;

    memcpy(copy, bytes, n);
    result = event ? proto_read_event(&e, copy, n) : proto_read_request(&r, copy, n);
    free(copy);
    if (result == 0 && event) proto_event_fini(&e);
    if (result == 0 && !event) proto_request_fini(&r);
    if (result == 0) return true;
    if (result != -EBADMSG && result != -EINVAL && result != -EPROTO) fail_msg("unexpected error %d", result);
    assert_true(*error_text(result));
    assert_null(strchr(error_text(result), '\n'));
    return false;
}

/* The body of sample @i: requests, then events. */
static void sample_body(unsigned i, struct buf *out)
{
    if (i < SAMPLE_REQUESTS) {
        struct proto_request r;

        sample_request(i, &r);
        assert_int_equal(proto_write_request(out, &r), 0);
        proto_request_fini(&r);
    } else {
        struct proto_event e;

        sample_event(i - SAMPLE_REQUESTS, &e);
        assert_int_equal(proto_write_event(out, &e), 0);
        proto_event_fini(&e);
    }
    buf_consume(out, 4);
    assert_true(read_any(out->data, out->len, i >= SAMPLE_REQUESTS));
}

static void truncated_at_every_byte(void **state)
{
    for (unsigned i = 0; i < SAMPLE_REQUESTS + SAMPLE_EVENTS; i++) {
        struct buf b = BUF_INIT;

        sample_body(i, &b);
        for (size_t n = 0; n < b.len; n++) assert_false(read_any(b.data, n, i >= SAMPLE_REQUESTS));
        buf_fini(&b);
    }
}

static void every_byte_changed_to_every_other(void **state)
{
    unsigned long accepted = 0, refused = 0;

    for (unsigned i = 0; i < SAMPLE_REQUESTS + SAMPLE_EVENTS; i++) {
        struct buf b = BUF_INIT;

        sample_body(i, &b);
        for (size_t at = 0; at < b.len; at++) {
            const char kept = b.data[at];

            for (int v = 0; v < 256; v++) {
                b.data[at] = (char)v;
                if (read_any(b.data, b.len, i >= SAMPLE_REQUESTS))
                    accepted++;
                else
                    refused++;
            }
            b.data[at] = kept;
        }
        buf_fini(&b);
    }
    assert_true(accepted && refused);
}

/* Pieces of valid messages, cut and joined at random places, with random bytes between. */
static void random_mixtures(void **state)
{
    struct buf samples[SAMPLE_REQUESTS + SAMPLE_EVENTS] = {{0}};
    enum { N = sizeof samples / sizeof *samples };
    uint64_t seed = 42;

    for (unsigned i = 0; i < N; i++) sample_body(i, &samples[i]);
    for (int round = 0; round < 20000; round++) {
        struct buf mix = BUF_INIT;

        for (uint32_t pieces = 1 + next_random(&seed) % 4; pieces; pieces--) {
            const struct buf *s = &samples[next_random(&seed) % N];
            size_t from = next_random(&seed) % s->len, n = next_random(&seed) % (s->len - from) + 1;
            char noise[2] = {(char)next_random(&seed), (char)next_random(&seed)};

            if (pieces & 1) from = 0; /* most mixtures begin like a message */
            assert_int_equal(buf_append(&mix, s->data + from, n), 0);
            assert_int_equal(buf_append(&mix, noise, next_random(&seed) % 3), 0);
        }
        read_any(mix.data, mix.len, round & 1);
        buf_fini(&mix);
    }
    for (unsigned i = 0; i < N; i++) buf_fini(&samples[i]);
}

/* Four billion of what is not there must not be allocated: msgpack-c would. */
static void counts_that_lie_allocate_nothing(void **state)
{
    assert_false(read_any("\xdf\xff\xff\xff\xff\x00", 6, false));
    assert_false(read_any("\xdf\xff\xff\xff\xff\x00", 6, true));
    assert_false(read_any("\x81\xa4type\xdd\xff\xff\xff\xff", 11, false));
    assert_false(read_any("\x81\xa4type\xdb\xff\xff\xff\xff", 11, false));
    assert_false(read_any("\x81\xa4type\xc6\xff\xff\xff\xff", 11, true));
}

static void deep_messages(void **state)
{
    struct buf b = BUF_INIT;

    assert_int_equal(buf_puts(&b, "\x81\xa8messages"), 0);
    for (int i = 0; i < 100000; i++) assert_int_equal(buf_puts(&b, "\x91"), 0);
    assert_int_equal(buf_puts(&b, "\x90"), 0);
    assert_false(read_any(b.data, b.len, false));
    assert_non_null(strstr(error_text(-EBADMSG), "nested too deep"));
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncated_at_every_byte), cmocka_unit_test(every_byte_changed_to_every_other),
        cmocka_unit_test(random_mixtures),         cmocka_unit_test(counts_that_lie_allocate_nothing),
        cmocka_unit_test(deep_messages),
    };

    return cmocka_run_group_tests_name("proto-hostile", tests, NULL, NULL);
}
