/* SPDX-License-Identifier: MIT */
/*
 * Logs of version 1 as an early hobd wrote them, byte for byte: every later hobd must read them, and write the same
 * bytes. (Only the summary may differ: it has the time, and sizes in this process's memory.)
 */
#include "libcommon/hex.h"
#include "tests/session/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SUMMARY 32 /* bytes at the end of a payload */
#define SUM     16 /* bytes of a checksum */

/* Session "a": three turns. The second failed; the third replaces a part of it. */
static const char log_a[] =
    "686f622073657373696f6e20310a000026000000000000008071a8147b5234870700000000000000000000000000000000000000"
    "000000000000000000000000000000000161308658e93b5d26052a1f9c42019fef808b0000000100000075e014e476a1961a0002"
    "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a100000003e1a7120102030500083c733e7361792031030003050204757365720561736b20"
    "3109617373697374616e740573617920310106757569642d31010ac8010301ffffffffffffffff01000000000000800573617920"
    "3100809828176506003d0300000000000003000000020000007350db7c7aa87983d1486b69ad2ecb5cad1b2ea5523bbda9960000"
    "00010000004fc98e45aac77da10202a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a203080203e2a7120202030500083c733e7361792032"
    "0500030503050204757365720561736b203209617373697374616e740573617920320106757569642d32010ac8010301ffffffff"
    "ffffffff020000000000008005736179203208746f6f206c61746500809828176506003904000000000000060000000400000062"
    "abab9ba96adb54a39730b53a5b8d68907afe29065913818d000000010000005e4a57a1f36babfa0002a3a3a3a3a3a3a3a3a3a3a3"
    "a3a3a3a3a3040b0303e3a7120302030500083c733e73617920330500030506050204757365720561736b20330961737369737461"
    "6e740573617920330106757569642d33010ac8010301ffffffffffffffff03000000000000800573617920330080982817650600"
    "dd04000000000000070000000500000010a1d4c119cd7944adcacc0ef808185f5c5ecbba4c187d99";

/* Session "f", a fork of "a" with a turn of its own that was cut short; log_a is its base. */
static const char log_f[] =
    "686f622073657373696f6e20310a000026000000000000008071a8147b5234870700000000000000000000000000000000000000"
    "0000000000000000000000000000000001664e869b88d1e1f038c3f0b2f05c03d6a03a0000000200000060db22e1744e90a20100"
    "6402000000000000adcacc0ef808185f5c5ecbba4c187d990180982817650600dd040000000000000700000005000000965e0558"
    "31c004573697b1ffdc0d20131e494c063d1688979300000001000000f6f3d9137cf3d0cf0202a4a4a4a4a4a4a4a4a4a4a4a4a4a4"
    "a4a407130503e4a7120402030500083c733e736179203407000305060503050204757365720561736b203409617373697374616e"
    "740573617920340106757569642d34010ac8010301ffffffffffffffff0400000000000080057361792034036375740180982817"
    "65060075040000000000000a000000070000006f0e06237f8e87f015b285f2fd4415aab5d43dbbb90dd64a";

/* Raw session "b", and "\xc3\xa9t\xc3\xa9", to which it was renamed; log_b is the base of that. */
static const char log_b[] =
    "686f622073657373696f6e20310a000026000000000000008071a8147b5234870700000000000000000000000000000000000000"
    "0000000000000000000000000000000001623057d6b3915e4445d4f47d0b3ff51134410000000100000067ffd50d5bd6d2950100"
    "00000000000000000000000000000000000000010504046f6e636501040000028098281765060059020000000000000100000000"
    "0000004a56cf92379b2e6e7887499e4b8f55580ed0421b7fdf870e";
static const char log_renamed[] =
    "686f622073657373696f6e20310a00002a0000000000000078530cb2dc83b826070000004b2212e31ac97fd4575a0b1c44d8843f"
    "7887499e4b8f55580ed0421b7fdf870e05c3a974c3a95432d9315645bba9071fe4420b59c47a3a00000002000000fbaf60a8dff0"
    "63f60101b7000000000000007887499e4b8f55580ed0421b7fdf870e038098281765060059020000000000000100000000000000"
    "d198a2917fb2ca7b3719c3663b2fe009f747914b4c3a9de1";

#define RENAMED "\xc3\xa9t\xc3\xa9"

/* The bytes of @hex, the caller's to free. */
static char *bytes_of(const char *hex, size_t *n)
{
    *n = strlen(hex) / 2;
    char *p = malloc(*n);
    assert_non_null(p);
    assert_true(hex_read((uint8_t *)p, hex, *n));
    return p;
}

static void put(const struct fixture *g, const char *name, const char *ext, const char *hex)
{
    char path[256];
    size_t n;
    char *p = bytes_of(hex, &n);
    fixture_path(path, g, 7, name, ext);
    fixture_write(path, p, n);
    free(p);
}

/* A store in a directory with the files above. */
static void open_files(struct fixture *g)
{
    fixture_say(g, 7, "a", 1); /* makes the uid's directory */
    fixture_close(g);
    put(g, "a", ".log", log_a);
    put(g, "f", ".log", log_f);
    put(g, "f", ".b0", log_a);
    put(g, "b", ".log", log_b); /* a crash interrupted the rename */
    put(g, RENAMED, ".log", log_renamed);
    put(g, RENAMED, ".b0", log_b);
    fixture_open(g);
}

static void expect(struct fixture *g, const char *name, const char *failed, const char *want)
{
    struct session *x = fixture_acquire(g, 7, name);
    char *dump = fixture_dump(x);
    assert_string_equal(dump, want);
    assert_string_equal(x->content.failed.len ? x->content.failed.data : "", failed);
    free(dump);
    session_release(g->store, x);
}

static void test_old_logs_are_read(void **state)
{
    struct fixture *g = *state;
    struct session_info *list;
    size_t n;
    open_files(g);
    assert_int_equal(session_list(g->store, 7, &list, &n), 0);
    assert_int_equal(n, 3);
    static const struct {
        const char *name;
        uint64_t used, ids, messages;
    } want[] = {{RENAMED, 1800000000000003, 1, 0}, {"f", 1800000000000001, 10, 7}, {"a", 1800000000000000, 7, 5}};
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(list[i].name->data, want[i].name);
        assert_true(list[i].used == want[i].used);
        assert_true(list[i].ids == want[i].ids && list[i].messages == want[i].messages);
    }
    free(list);
    expect(g, "a", "",
           "raw 0 context 2 model a3 a3 a3 a3 a3 a3 a3 a3 a3 a3 a3 a3 a3 a3 a3 a3\n"
           "7 ids, 19 bytes\n"
           "300001:3 1:8 2:8 300002:11 300003:14 3:19 2:19 \n"
           "<s>say 1<s><s>say 3\n"
           "###.....######.....\n"
           "user: ask 1 (5)\n"
           "assistant: say 1 (5)\n"
           "user: ask 2 (5)\n"
           "user: ask 3 (5)\n"
           "assistant: say 3 (5)\n"
           "uuid-1 1 10 200 3 1 -1 -9223372036854775807 say 1\n"
           "uuid-2 1 10 200 3 1 -1 -9223372036854775806 say 2\n"
           "uuid-3 1 10 200 3 1 -1 -9223372036854775805 say 3");
    expect(g, "f", "cut",
           "raw 0 context 2 model a4 a4 a4 a4 a4 a4 a4 a4 a4 a4 a4 a4 a4 a4 a4 a4\n"
           "10 ids, 27 bytes\n"
           "300001:3 1:8 2:8 300002:11 300003:14 3:19 2:19 300004:22 4:27 2:27 \n"
           "<s>say 1<s><s>say 3<s>say 4\n"
           "###.....######.....###.....\n"
           "user: ask 1 (5)\n"
           "assistant: say 1 (5)\n"
           "user: ask 2 (5)\n"
           "user: ask 3 (5)\n"
           "assistant: say 3 (5)\n"
           "user: ask 4 (5)\n"
           "assistant: say 4 (5)\n"
           "uuid-4 1 10 200 3 1 -1 -9223372036854775804 say 4");
    expect(g, RENAMED, "",
           "raw 1 context 0 model 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
           "1 ids, 4 bytes\n"
           "5:4 \n"
           "once\n"
           "....");
    assert_false(fixture_exists(g, 7, "b", ".log")); /* the rename was completed */
    assert_false(fixture_exists(g, 7, "a", ".bad") || fixture_exists(g, 7, "f", ".bad") ||
                 fixture_exists(g, 7, RENAMED, ".bad"));
}

/* An old log can be continued, also by another hobd after this one. */
static void test_old_logs_are_continued(void **state)
{
    static const char *const names[] = {"a", "f", RENAMED};
    struct fixture *g = *state;
    open_files(g);
    for (size_t i = 0; i < 3; i++) {
        struct session *x = fixture_acquire(g, 7, names[i]);
        fixture_turn(x, 9);
        assert_int_equal(session_save(x), 0);
        char *before = fixture_dump(x);
        session_release(g->store, x);
        fixture_close(g);
        fixture_open(g);
        expect(g, names[i], i == 1 ? "cut" : "", before);
        free(before);
    }
    char path[256];
    size_t n_old, n;
    char *old = bytes_of(log_f, &n_old);
    fixture_path(path, g, 7, "f", ".log");
    char *now = fixture_read(path, &n);
    assert_true(n > n_old);
    assert_memory_equal(now, old, n_old); /* it was appended to */
    free(old);
    free(now);
}

/* --- writing --- */

static void turn(struct session *x, int n)
{
    char ask[8], say[8];
    uint8_t model[16];
    snprintf(ask, sizeof(ask), "ask %d", n);
    snprintf(say, sizeof(say), "say %d", n);
    assert_int_equal(session_add_message(x, "user", 4, ask, strlen(ask)), 0);
    assert_int_equal(session_add_message(x, "assistant", 9, say, strlen(say)), 0);
    assert_int_equal(session_append(x, 300000 + n, "<s>", 3, true), 0);
    assert_int_equal(session_append(x, n, say, strlen(say), false), 0);
    assert_int_equal(session_append(x, 2, "", 0, true), 0);
    memset(model, 0xa0 + n, sizeof(model));
    session_set_model(x, model);
    session_set_context(x, PROTO_CONTEXT_SHIFT);
    struct session_outcome o = {.reason = PROTO_STOP_LENGTH,
                                .usage_prompt = 10,
                                .usage_cached = 200,
                                .usage_completion = 3,
                                .shifted = 1,
                                .miss_at = -1,
                                .seed = INT64_MIN + n,
                                .answer = {say, strlen(say)}};
    snprintf(o.uuid, sizeof(o.uuid), "uuid-%d", n);
    assert_int_equal(session_add_outcome(x, &o), 0);
}

static uint32_t u32_at(const char *p)
{
    const uint8_t *b = (const uint8_t *)p;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* The log of @name is @hex, but for summaries and what is computed from them. @summaries: bit i: record i has one. */
static void expect_bytes(struct fixture *g, const char *name, const char *hex, unsigned summaries)
{
    char path[256];
    size_t n, n_want, at = 16;
    fixture_path(path, g, 7, name, ".log");
    char *p = fixture_read(path, &n), *want = bytes_of(hex, &n_want);
    assert_int_equal(n, n_want);
    assert_memory_equal(p, want, at);
    for (unsigned i = 0; at < n; i++) {
        size_t len = u32_at(want + at);
        assert_memory_equal(p + at, want + at, 8);
        assert_memory_equal(p + at + 16, want + at + 16, len - (summaries >> i & 1 ? SUMMARY : 0));
        at += 16 + len + SUM;
    }
    assert_int_equal(at, n);
    free(p);
    free(want);
}

static void test_the_same_bytes_are_written(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a");
    turn(x, 1);
    assert_int_equal(session_save(x), 0);
    turn(x, 2);
    assert_int_equal(session_set_failed(x, "too late", 8), 0);
    assert_int_equal(session_save(x), 0);
    session_truncate(x, 4);
    session_drop_messages(x, 3);
    assert_int_equal(session_set_failed(x, "", 0), 0);
    turn(x, 3);
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
    expect_bytes(g, "a", log_a, 14);
    x = fixture_acquire(g, 7, "b");
    session_set_raw(x, true);
    assert_int_equal(session_append(x, 5, "once", 4, false), 0);
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
    expect_bytes(g, "b", log_b, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_old_logs_are_read, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_old_logs_are_continued, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_the_same_bytes_are_written, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
