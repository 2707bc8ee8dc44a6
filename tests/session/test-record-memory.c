/* SPDX-License-Identifier: MIT */
/* Writing and reading records when memory runs out at any byte of them: an error, never a record that lacks a field. */
#include "daemon/session/record.h"
#include "daemon/session/session-log.h"
#include "daemon/session/share.h"
#include "libcommon/blob.h"
#include "tests/session/fixture.h"
#include "tests/support/memory.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEXT(s)                                                                                                        \
    {                                                                                                                  \
        (char *)(s), sizeof(s) - 1                                                                                     \
    }

/* A turn with all that a record can have. */
static void add_all(struct session *x)
{
    struct proto_call calls[] = {{TEXT("id1"), TEXT("f"), TEXT("{\"a\":1}")}, {TEXT(""), TEXT("g"), TEXT("{}")}};
    struct proto_media image = {.kind = PROTO_MEDIA_IMAGE, .at = 1, .width = 300, .height = 200};
    const struct proto_message
        ask = {.role = TEXT("user"), .content = TEXT("what?"), .media = &image, .n_media = 1},
        say = {.role = TEXT("assistant"), .content = TEXT(""), .thinking = TEXT("hm"), .calls = calls, .n_calls = 2},
        result = {.role = TEXT("tool"), .content = TEXT("7"), .call_id = TEXT("id1"), .name = TEXT("f")};
    const struct item_run run = {.at = 0, .n = 2, .kind = ITEM_IMAGE, .columns = 2, .digest = "digest of image"};
    const int32_t ids[3] = {ITEM_EMBD, ITEM_EMBD, 5};
    const uint32_t ends[3] = {(uint32_t)x->content.text.len, (uint32_t)x->content.text.len,
                              (uint32_t)x->content.text.len + 3};
    char *file = malloc(40);
    memset(file, 'F', 40);
    assert_int_equal(blob_take(&image.file, file, 40), 0);
    assert_int_equal(session_add_parts(x, &ask), 0);
    blob_unref(image.file);
    assert_int_equal(session_add_parts(x, &say), 0);
    assert_int_equal(session_add_parts(x, &result), 0);
    assert_int_equal(
        session_extend(x, (struct items){.ids = ids, .n = 3, .runs = &run, .n_runs = 1}, ends, "abc", "\0\1", 3), 0);
    const struct session_outcome o = {.uuid = "thinks",
                                      .usage_prompt = 300,
                                      .usage_thinking = 300,
                                      .answer = TEXT("an answer"),
                                      .reason = PROTO_STOP_TOOL_CALLS};
    assert_int_equal(session_add_outcome(x, &o), 0);
    session_set_raw(x, true);
    assert_int_equal(session_set_failed(x, "too late", 8), 0);
    assert_int_equal(session_set_note(x, "its own", 7), 0);
    assert_int_equal(session_set_adapter(x, "an adapter", 10), 0);
}

/* @write with a buffer that has room for @room bytes more and cannot grow, for each room that is too small. */
static void check_writer(int (*write)(struct buf *b, const struct session *x), const struct session *x)
{
    struct buf whole = BUF_INIT;
    const int want = write(&whole, x);
    assert_true(want >= 0 && whole.len > 30);
    for (size_t room = 0; room <= whole.len; room++) {
        struct buf b = BUF_INIT;
        assert_int_equal(buf_reserve(&b, 100 + room), 0);
        memset(b.data, 0, 100);
        b.len = 100;
        memory_fail(0);
        const int r = write(&b, x);
        const bool failed = memory_end();
        assert_true(failed == (room < whole.len));
        assert_int_equal(r, failed ? -ENOMEM : want);
        buf_fini(&b);
    }
    buf_fini(&whole);
}

static int write_turn(struct buf *b, const struct session *x)
{
    return session_record_write(b, x, true);
}

static int write_head(struct buf *b, const struct session *x)
{
    return session_log_write_head(b, x);
}

static int write_bases(struct buf *b, const struct session *x)
{
    const struct session_bases bases = {.n = SESSION_BASES};
    const struct session_summary s = {.used = x->last_use.realtime};
    return session_bases_write(b, &bases, &s);
}

static void test_writers(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a name of some length");
    fixture_turn(x, 1);
    add_all(x);
    check_writer(write_turn, x);
    check_writer(write_head, x);
    check_writer(write_bases, x);
    session_release(g->store, x);
}

/* Each allocation of reading fails once. */
static void test_reader(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a");
    struct buf b = BUF_INIT;
    fixture_turn(x, 1);
    add_all(x);
    assert_true(session_record_write(&b, x, true) > 0);
    char *want = fixture_dump(x);
    session_release(g->store, x);
    for (unsigned long n = 0, failed = 1; failed; n++) {
        struct session *y = NULL;
        assert_int_equal(session_acquire(g->store, 8, "b", 1, true, &y), 0);
        memory_fail(n);
        const int r = session_record_apply(y, (const uint8_t *)b.data, b.len, true);
        failed = memory_end();
        assert_int_equal(r, failed ? -ENOMEM : 0);
        if (r == 0) {
            char *have = fixture_dump(y);
            assert_string_equal(have, want);
            assert_int_equal(y->content.messages[2].n_media, 1);
            assert_int_equal(y->content.messages[3].n_calls, 2);
            assert_int_equal(y->content.note.len, 7);
            assert_int_equal(y->content.adapter.len, 10);
            free(have);
            assert_true(n > 10);
        }
        session_revert(y);
        session_release(g->store, y);
    }
    free(want);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_writers, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_reader, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
