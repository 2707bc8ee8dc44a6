/* SPDX-License-Identifier: MIT */
/* Also record-media: images and sounds of messages are kept, shared by forks and counted, and damaged ones refused. */
#include "daemon/session/session-log.h"
#include "libcommon/blob.h"
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* An image whose file has @n bytes @which, as its digest has. */
static struct proto_media image(char which, size_t at, size_t n)
{
    struct proto_media m = {.kind = PROTO_MEDIA_IMAGE, .at = at, .width = 300, .height = 200};
    char *file = malloc(n);
    assert_non_null(file);
    memset(file, which, n);
    memset(m.digest, which, sizeof(m.digest));
    assert_int_equal(blob_take(&m.file, file, n), 0);
    return m;
}

/* A message "what?" with these images, and an answer. */
static void ask(struct session *x, const char *which, size_t file)
{
    struct proto_media list[8];
    struct proto_message m = {.role = {(char *)(uintptr_t) "user", 4},
                              .content = {(char *)(uintptr_t) "what?", 5},
                              .media = list,
                              .n_media = strlen(which)};
    for (size_t i = 0; i < m.n_media; i++) list[i] = image(which[i], i, file);
    assert_int_equal(session_add_parts(x, &m), 0);
    for (size_t i = 0; i < m.n_media; i++) blob_unref(list[i].file);
    assert_int_equal(session_add_message(x, "assistant", 9, "this", 4), 0);
}

/* All media of @x as "message:at+bytes which", sorted as they are. */
static void check_media(const struct session *x, const char *want)
{
    const struct session_content *c = session_content(x);
    char found[1024] = "";
    for (size_t i = 0; i < c->n_messages; i++)
        for (size_t j = 0; j < c->messages[i].n_media; j++) {
            const struct proto_media *m = &c->messages[i].media[j];
            const uint8_t *p = blob_data(m->file);
            assert_true(blob_size(m->file) > 0 && p[0] == p[blob_size(m->file) - 1]);
            for (size_t k = 0; k < sizeof(m->digest); k++) assert_int_equal(m->digest[k], p[0]);
            if (m->kind == PROTO_MEDIA_IMAGE)
                assert_true(m->width == 300 && m->height == 200 && m->samples == 0);
            else
                assert_true(m->width == 0 && m->height == 0 && m->samples == 5000000000);
            size_t n = strlen(found);
            snprintf(found + n, sizeof(found) - n, "%s%zu:%zu+%zu%c", n ? " " : "", i, m->at, blob_size(m->file), p[0]);
        }
    assert_string_equal(found, want);
}

static struct session *again(struct fixture *g, struct session *x, const char *name)
{
    session_release(g->store, x);
    fixture_close(g);
    fixture_open(g);
    return fixture_acquire(g, 7, name);
}

/* The kinds of the records of a log, as digits. */
static void check_kinds(const struct fixture *g, const char *name, const char *want)
{
    char path[256], found[32], *out = found;
    size_t n, at = 16, len;
    const uint8_t *payload;
    uint32_t kind;
    fixture_path(path, g, 7, name, ".log");
    char *p = fixture_read(path, &n);
    while (session_log_next((uint8_t *)p, n, &at, &kind, &payload, &len) == LOG_GOOD) *out++ = (char)('0' + kind);
    *out = '\0';
    free(p);
    assert_string_equal(found, want);
}

static void test_kept(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a");
    fixture_turn(x, 1);
    assert_int_equal(session_save(x), 0);
    ask(x, "xy", 10);
    assert_int_equal(session_save(x), 0);
    fixture_turn(x, 2); /* as an older hobd writes it */
    assert_int_equal(session_save(x), 0);
    ask(x, "x", 700);
    struct proto_media sound = image('s', 2, 5);
    sound.kind = PROTO_MEDIA_SOUND;
    sound.width = sound.height = 0;
    sound.samples = 5000000000;
    assert_int_equal(session_add_media(x, 6, &sound), 0);
    blob_unref(sound.file);
    assert_int_equal(session_save(x), 0);
    for (int i = 0; i < 2; i++) {
        check_media(x, "2:0+10x 2:1+10y 6:0+700x 6:2+5s");
        check_kinds(g, "a", "01616");
        x = again(g, x, "a");
    }
    session_drop_messages(x, 6);
    check_media(x, "2:0+10x 2:1+10y");
    assert_int_equal(session_save(x), 0);
    x = again(g, x, "a");
    check_media(x, "2:0+10x 2:1+10y");
    session_release(g->store, x);
}

/* A turn with runs, and one with parts, has its media too. */
static void test_with_runs_and_parts(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a");
    const struct item_run run = {.n = 2, .kind = ITEM_IMAGE, .digest = {1}};
    const int32_t ids[2] = {ITEM_EMBD, ITEM_EMBD};
    const struct items items = {.ids = ids, .n = 2, .runs = &run, .n_runs = 1};
    ask(x, "x", 10);
    assert_int_equal(session_extend(x, items, (uint32_t[]){3, 3}, "<i>", "\1\1\1", 3), 0);
    assert_int_equal(session_save(x), 0);
    ask(x, "y", 10);
    const struct proto_message thought = {.role = {(char *)(uintptr_t) "assistant", 9},
                                          .content = {(char *)(uintptr_t) "so", 2},
                                          .thinking = {(char *)(uintptr_t) "hm", 2}};
    assert_int_equal(session_add_parts(x, &thought), 0);
    assert_int_equal(session_save(x), 0);
    check_kinds(g, "a", "076");
    x = again(g, x, "a");
    check_media(x, "0:0+10x 2:0+10y");
    assert_string_equal(session_content(x)->messages[4].thinking.data, "hm");
    assert_int_equal(session_content(x)->n_runs, 1);
    session_release(g->store, x);
}

static void test_fork_and_rename(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a"), *y;
    ask(x, "x", 100000);
    assert_int_equal(session_save(x), 0);
    assert_int_equal(session_fork(g->store, x, "f", 1, &y), 0);
    assert_int_equal(session_copy(y, x), 0);
    assert_ptr_equal(session_content(x)->messages[0].media[0].file, session_content(y)->messages[0].media[0].file);
    ask(y, "y", 10);
    assert_int_equal(session_save(y), 0);
    assert_true(fixture_disk(g, 7) < 150000); /* the log is shared */
    session_release(g->store, x);
    y = again(g, y, "f");
    check_media(y, "0:0+100000x 2:0+10y");
    session_release(g->store, y);
    x = fixture_acquire(g, 7, "a");
    assert_int_equal(session_fork(g->store, x, "d", 1, &y), 0);
    assert_int_equal(session_duplicate(y, x), 0);
    session_release(g->store, x);
    y = again(g, y, "d");
    check_media(y, "0:0+100000x");
    assert_int_equal(session_rename(g->store, y, "b", 1, &x), 0);
    assert_int_equal(session_move(x, y), 0);
    session_release(g->store, y);
    x = again(g, x, "b");
    check_media(x, "0:0+100000x");
    session_release(g->store, x);
}

static void test_memory_counts(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a");
    ask(x, "", 0);
    uint64_t plain = x->charged.memory;
    session_drop_messages(x, 0);
    ask(x, "xyz", 5000);
    assert_int_equal(x->charged.memory - plain, 3 * (5000 + sizeof(struct proto_media)));
    session_drop_messages(x, 0);
    assert_true(x->charged.memory < plain);
    session_release(g->store, x);
}

/* --- payloads with valid checksums --- */

/* Applies the payload to a new session. */
static int apply(struct fixture *g, const uint8_t *p, size_t n)
{
    struct session *x = fixture_acquire(g, 8, "x");
    int r = session_record_apply(x, p, n, false);
    assert_true(r == 0 || r == -EBADMSG);
    const struct session_content *c = session_content(x);
    for (size_t i = 0; i < c->n_messages; i++)
        for (size_t j = 0; j < c->messages[i].n_media; j++) {
            const struct proto_media *m = &c->messages[i].media[j];
            assert_true(m->at <= c->messages[i].content.len && blob_size(m->file) <= n);
            assert_true(j == 0 || m[-1].at <= m->at);
        }
    session_revert(x);
    session_release(g->store, x);
    return r;
}

static void test_damaged_payloads(void **state)
{
    /* Bytes before the digest of the second medium: number of the message, kind, place, width (2), height (2), samples;
     * behind it: length of the file. */
    static const struct {
        int at;
        uint8_t value;
        int result;
    } changes[] = {{-8, 0, 0},        {-8, 1, 0}, /* the answer */
                   {-8, 2, -EBADMSG}, {-8, 127, -EBADMSG}, {-7, 0, -EBADMSG},  {-7, 2, -EBADMSG},
                   {-7, 3, -EBADMSG}, {-6, 0, -EBADMSG}, /* before the first one */
                   {-6, 5, 0},        {-6, 6, -EBADMSG},   {-1, 1, -EBADMSG},  {16, 0, -EBADMSG},
                   {16, 8, -EBADMSG}, {16, 10, -EBADMSG},  {16, 127, -EBADMSG}};
    struct fixture *g = *state;
    struct buf b = BUF_INIT;
    struct session *x = fixture_acquire(g, 7, "a");
    ask(x, "", 0);
    struct proto_media first = image('x', 1, 9), second = image('y', 3, 9);
    assert_int_equal(session_add_media(x, 0, &first), 0);
    assert_int_equal(session_add_media(x, 0, &second), 0);
    blob_unref(first.file);
    blob_unref(second.file);
    assert_int_equal(session_record_write(&b, x, true), SESSION_RECORD_HAS_MEDIA);
    session_release(g->store, x);
    uint8_t *copy = malloc(b.len);
    assert_non_null(copy);
    assert_int_equal(apply(g, (uint8_t *)b.data, b.len), 0);
    size_t digest = (size_t)((char *)memmem(b.data, b.len, "yyyyyyyyyyyyyyyy", 16) - b.data);
    for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
        memcpy(copy, b.data, b.len);
        copy[digest + (size_t)changes[i].at] = changes[i].value;
        assert_int_equal(apply(g, copy, b.len), changes[i].result);
    }
    memcpy(copy, b.data, b.len);
    memset(copy + digest - 5, 0x80, 1); /* width 0 in two bytes */
    copy[digest - 4] = 0;
    assert_int_equal(apply(g, copy, b.len), -EBADMSG);
    for (size_t n = 0; n < b.len; n++) assert_int_equal(apply(g, (uint8_t *)b.data, n), -EBADMSG);
    for (size_t n = 0; n < b.len; n++)
        for (int v = 0; v < 256; v += v < 12 || v > 250 ? 1 : 13) {
            memcpy(copy, b.data, b.len);
            copy[n] = (uint8_t)v;
            apply(g, copy, b.len);
        }
    free(copy);
    buf_fini(&b);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(test_kept),          T(test_with_runs_and_parts), T(test_fork_and_rename),
        T(test_memory_counts), T(test_damaged_payloads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
