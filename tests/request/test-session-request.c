/* SPDX-License-Identifier: MIT */
/* Requests about sessions, and two requests for one session. */
#include "daemon/session/session.h"
#include "libcommon/blob.h"
#include "tests/engine/harness.h"
#include <errno.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>

static void test_busy(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = harness_user("s", "the"), q = harness_user("s", "the");
    r.gen.max_tokens = 1500;
    r.gen.ignore_eos = true;
    uint64_t id = harness_submit(h, &r);
    harness_wait_texts(h, id, 1);
    assert_error(harness_run(h, &q), EBUSY, "session 's' is in use by another request");
    engine_cancel(h->engine, 1, id);
    assert_done(harness_wait(h, id), PROTO_STOP_CANCEL);
}

static struct answer *list(struct harness *h, const struct proto_text *after, uint32_t limit)
{
    struct proto_request r = harness_simple(PROTO_SESSION_LIST);
    r.limit = limit;
    if (after->len) assert_int_equal(proto_text_set(&r.after, after->data, after->len), 0);
    return harness_run(h, &r);
}

static unsigned count(const char *s, const char *part)
{
    unsigned n = 0;
    for (; (s = strstr(s, part)); s++) n++;
    return n;
}

/* A page has so many as the request says, else 256; the last one no cursor. */
static void test_list_in_pages(void **state)
{
    struct harness *h = *state;
    static const struct proto_text none = {0};
    char name[8];
    harness_start(h);
    for (int i = 0; i < 258; i++) {
        snprintf(name, sizeof(name), "s%d", i);
        struct proto_request r = harness_user(name, "x");
        r.gen.max_tokens = 1;
        assert_done(harness_run(h, &r), PROTO_STOP_LENGTH);
        harness_forget(h);
    }
    struct answer *a = list(h, &none, 0), *b = list(h, &a->last.next, 0);
    assert_int_equal(count(a->last.sessions.data, "\"name\":"), 256);
    assert_non_null(strstr(a->last.sessions.data, "[{\"name\":\"s257\","));
    assert_int_equal(count(b->last.sessions.data, "\"name\":"), 2);
    assert_non_null(strstr(b->last.sessions.data, "[{\"name\":\"s1\","));
    assert_int_equal(b->last.next.len, 0);
    a = list(h, &none, 3);
    b = list(h, &a->last.next, 1000);
    assert_int_equal(count(a->last.sessions.data, "\"name\":"), 3);
    assert_int_equal(count(b->last.sessions.data, "\"name\":"), 255);
    assert_non_null(strstr(b->last.sessions.data, "[{\"name\":\"s254\","));
    assert_int_equal(b->last.next.len, 0);
    assert_error(list(h, &(struct proto_text){(char *)"s1", 2}, 3), EINVAL, "session.list: after: ");
    struct proto_request r = harness_simple(PROTO_SESSION_LIST);
    b = harness_wait(h, harness_submit_as(h, 1, 1001, &r));
    assert_string_equal(b->last.sessions.data, "[]");
}

/* A session "s" with an image, a sound and a call, as a daemon with an encoder of both leaves it. */
static void leave_media(struct harness *h)
{
    struct session_store_config c = {.dir = h->state_dir};
    struct session_store *store = NULL;
    struct session *x = NULL;
    struct proto_media media[] = {
        {.kind = PROTO_MEDIA_IMAGE, .at = 2, .width = 30, .height = 20, .digest = {1}},
        {.kind = PROTO_MEDIA_SOUND, .at = 3, .samples = 7, .digest = {2}},
    };
    struct proto_call call = {.id = {(char *)(uintptr_t) "c1", 2},
                              .name = {(char *)(uintptr_t) "look", 4},
                              .arguments = {(char *)(uintptr_t) "{}", 2}};
    const struct proto_message calls = {.role = {(char *)(uintptr_t) "assistant", 9}, .calls = &call, .n_calls = 1};
    assert_int_equal(blob_new(&media[0].file, "bytes", 5), 0);
    assert_int_equal(blob_new(&media[1].file, "sound", 5), 0);
    const struct proto_message m = {.role = {(char *)(uintptr_t) "user", 4},
                                    .content = {(char *)(uintptr_t) "a b", 3},
                                    .media = media,
                                    .n_media = 2};
    assert_int_equal(session_store_open(&store, 1 << 20, &c), 0);
    assert_int_equal(session_acquire(store, 1000, "s", 1, true, &x), 0);
    assert_int_equal(session_load(x), 0);
    assert_int_equal(session_add_parts(x, &m), 0);
    assert_int_equal(session_add_parts(x, &calls), 0);
    assert_int_equal(session_save(x), 0);
    for (int i = 0; i < 2; i++) blob_unref(media[i].file);
    session_release(store, x);
    session_store_free(store);
}

static void test_show_media_and_calls(void **state)
{
    struct harness *h = *state;
    harness_dirs(h);
    leave_media(h);
    harness_start(h);
    struct proto_request r = harness_simple(PROTO_SESSION_SHOW), next = harness_user("s", "and now?");
    assert_int_equal(proto_text_set(&r.name, "s", 1), 0);
    struct answer *a = harness_run(h, &r);
    assert_non_null(strstr(a->last.sessions.data,
                           "{\"role\":\"user\",\"content\":\"a b\",\"media\":[{\"kind\":\"image\",\"at\":2,"
                           "\"bytes\":5,\"width\":30,\"height\":20},"
                           "{\"kind\":\"audio\",\"at\":3,\"bytes\":5,\"samples\":7}]}"));
    assert_non_null(strstr(a->last.sessions.data,
                           "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"c1\","
                           "\"name\":\"look\",\"arguments\":\"{}\"}]}"));
    assert_error(harness_run(h, &next), EOPNOTSUPP, "the model reads no images: it has no encoder (--mmproj)");
}

/* Of a raw session the text is shown; who renames, forks or removes is told that it is done. */
static void test_raw_and_done(void **state)
{
    struct harness *h = *state;
    struct proto_request r = harness_raw("the sea"), show = harness_simple(PROTO_SESSION_SHOW);
    static const enum proto_type changes[] = {PROTO_SESSION_FORK, PROTO_SESSION_RENAME, PROTO_SESSION_REMOVE};
    harness_start(h);
    r.gen.max_tokens = 1;
    assert_int_equal(proto_text_set(&r.gen.session, "s", 1), 0);
    assert_done(harness_run(h, &r), PROTO_STOP_LENGTH);
    assert_int_equal(proto_text_set(&show.name, "s", 1), 0);
    struct answer *a = harness_run(h, &show);
    assert_non_null(strstr(a->last.sessions.data, "\"raw\":true,"));
    assert_non_null(strstr(a->last.sessions.data, "\"text\":\"the sea"));
    assert_null(strstr(a->last.sessions.data, "\"messages\":"));
    for (int i = 0; i < 3; i++) {
        struct proto_request q = harness_simple(changes[i]);
        assert_int_equal(proto_text_set(&q.name, i == 2 ? "1" : "s", 1), 0);
        if (i < 2) assert_int_equal(proto_text_set(&q.to, i ? "1" : "0", 1), 0);
        assert_int_equal(harness_run(h, &q)->last.type, PROTO_EV_OK);
    }
}

static atomic_long left = -1; /* allocations of the JSON library, behind which one fails; -1: none does */

static void *allocate(size_t n)
{
    return left >= 0 && atomic_fetch_sub(&left, 1) == 0 ? NULL : malloc(n);
}

/* The answer to @type while each allocation fails: @want, or an error. Of a status only the names count. */
static void whole_or_error(struct harness *h, enum proto_type type, const char *want)
{
    unsigned errors = 0;
    for (long n = 0;; n++) {
        struct proto_request r = harness_simple(type);
        if (type == PROTO_SESSION_SHOW) assert_int_equal(proto_text_set(&r.name, "s", 1), 0);
        left = n;
        struct answer *a = harness_run(h, &r);
        bool failed = atomic_exchange(&left, -1) < 0;
        if (a->last.type == PROTO_EV_ERROR)
            assert_error(a, ENOMEM, "no memory");
        else if (type == PROTO_STATUS)
            assert_int_equal(count(a->last.status.data, "\":"), count(want, "\":"));
        else
            assert_string_equal(a->last.sessions.data, want);
        errors += a->last.type == PROTO_EV_ERROR;
        harness_forget(h);
        if (!failed) break;
    }
    assert_in_range(errors, 10, 10000);
}

static void test_whole_or_an_error(void **state)
{
    static const enum proto_type types[] = {PROTO_SESSION_SHOW, PROTO_SESSION_LIST, PROTO_STATUS};
    struct harness *h = *state;
    harness_start(h);
    struct proto_request r = harness_user("s", "the");
    r.gen.max_tokens = 1;
    assert_done(harness_run(h, &r), PROTO_STOP_LENGTH);
    for (int i = 0; i < 3; i++) {
        r = harness_simple(types[i]);
        if (types[i] == PROTO_SESSION_SHOW) assert_int_equal(proto_text_set(&r.name, "s", 1), 0);
        struct answer *a = harness_run(h, &r);
        char *want = strdup(types[i] == PROTO_STATUS ? a->last.status.data : a->last.sessions.data);
        assert_non_null(want);
        whole_or_error(h, types[i], want);
        free(want);
    }
}

int main(void)
{
    json_set_alloc_funcs(allocate, free);
#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_busy),         TEST(test_list_in_pages),     TEST(test_show_media_and_calls),
        TEST(test_raw_and_done), TEST(test_whole_or_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
