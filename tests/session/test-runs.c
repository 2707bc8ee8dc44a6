/* SPDX-License-Identifier: MIT */
/* Sessions with runs of embeddings: they are kept, cut, forked and renamed with their ids, and damaged ones refused. */
#include "daemon/session/session-log.h"
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RUN 6 /* ids */

/* An image between two tokens, for which the text has "<i>". */
static void add_image(struct session *x, char which)
{
    const struct session_content *c = session_content(x);
    int32_t ids[RUN + 2] = {11, [RUN + 1] = 12};
    uint32_t ends[RUN + 2], at = (uint32_t)c->text.len;
    struct item_run run = {.at = 1, .n = RUN, .kind = ITEM_IMAGE};
    memset(run.digest, which, sizeof(run.digest));
    for (int i = 1; i <= RUN; i++) ids[i] = ITEM_EMBD;
    ends[0] = at + 1;
    for (int i = 1; i <= RUN; i++) ends[i] = at + 4;
    ends[RUN + 1] = at + 5;
    const struct items items = {.ids = ids, .n = RUN + 2, .runs = &run, .n_runs = 1};
    assert_int_equal(session_extend(x, items, ends, "a<i>b", "\0\1\1\1\0", 5), 0);
}

static void check_whole(const struct session *x)
{
    const struct session_content *c = session_content(x);
    const struct items items = session_items(c);
    assert_true(items_check(&items));
    for (size_t i = 0; i < c->n_runs; i++)
        assert_int_equal(c->ends[c->runs[i].at], c->ends[c->runs[i].at + c->runs[i].n - 1]);
}

/* The session has these images, by the bytes of their digests, at these ids. */
static void expect(const struct session *x, const char *which, const uint32_t *at)
{
    const struct session_content *c = session_content(x);
    check_whole(x);
    assert_int_equal(c->n_runs, strlen(which));
    for (size_t i = 0; i < c->n_runs; i++) {
        struct item_run want = {.at = at[i], .n = RUN, .kind = ITEM_IMAGE};
        memset(want.digest, which[i], sizeof(want.digest));
        assert_memory_equal(&c->runs[i], &want, sizeof(want));
    }
}

static struct session *again(struct fixture *g, struct session *x, const char *name)
{
    if (x) session_release(g->store, x);
    fixture_close(g);
    fixture_open(g);
    return fixture_acquire(g, 7, name);
}

/* The kinds of the records of a log, as digits. */
static void kinds(const struct fixture *g, const char *name, char *out)
{
    char path[256];
    size_t n, at = 16, len;
    const uint8_t *payload;
    uint32_t kind;
    fixture_path(path, g, 7, name, ".log");
    char *p = fixture_read(path, &n);
    while (session_log_next((uint8_t *)p, n, &at, &kind, &payload, &len) == LOG_GOOD) *out++ = (char)('0' + kind);
    *out = '\0';
    free(p);
}

static void test_kept(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a");
    char found[32];
    fixture_turn(x, 1); /* 20 ids */
    assert_int_equal(session_save(x), 0);
    add_image(x, 'x');
    add_image(x, 'y');
    assert_int_equal(session_save(x), 0);
    fixture_turn(x, 2);
    assert_int_equal(session_save(x), 0);
    char *dump = fixture_dump(x);
    for (int i = 0; i < 2; i++) {
        expect(x, "xy", (uint32_t[]){21, 29});
        kinds(g, "a", found);
        assert_string_equal(found, "0131"); /* a turn of tokens alone is a record as ever */
        x = again(g, x, "a");
        char *now = fixture_dump(x);
        assert_string_equal(now, dump);
        free(now);
    }
    free(dump);
    session_truncate(x, 28); /* behind the first image and its token */
    expect(x, "x", (uint32_t[]){21});
    fixture_turn(x, 3);
    assert_int_equal(session_save(x), 0);
    kinds(g, "a", found);
    assert_string_equal(found, "01311");
    x = again(g, x, "a");
    expect(x, "x", (uint32_t[]){21});
    session_truncate(x, 21); /* before the image */
    expect(x, "", NULL);
    add_image(x, 'z');
    assert_int_equal(session_save(x), 0);
    x = again(g, x, "a");
    expect(x, "z", (uint32_t[]){22});
    session_forget_tokens(x);
    expect(x, "", NULL);
    session_release(g->store, x);
}

static void test_fork_and_rename(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a"), *y;
    char found[32];
    add_image(x, 'x');
    fixture_turn(x, 1);
    add_image(x, 'y');
    assert_int_equal(session_save(x), 0);
    assert_int_equal(session_fork(g->store, x, "f", 1, &y), 0);
    assert_int_equal(session_copy(y, x), 0);
    expect(y, "xy", (uint32_t[]){1, 29});
    add_image(y, 'z');
    assert_int_equal(session_save(y), 0);
    session_release(g->store, x);
    y = again(g, y, "f");
    expect(y, "xyz", (uint32_t[]){1, 29, 37});
    session_release(g->store, y);
    x = fixture_acquire(g, 7, "a");
    assert_int_equal(session_rename(g->store, x, "b", 1, &y), 0);
    assert_int_equal(session_move(y, x), 0);
    session_release(g->store, x);
    y = again(g, y, "b");
    expect(y, "xy", (uint32_t[]){1, 29});
    kinds(g, "b", found);
    assert_string_equal(found, "03");
    session_release(g->store, y);
}

/* A long log, which a fork shares. */
static void test_shared_log(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a"), *y;
    add_image(x, 'x');
    for (unsigned i = 1; i < 40; i++) {
        fixture_turn(x, i);
        assert_int_equal(session_save(x), 0);
    }
    assert_int_equal(session_fork(g->store, x, "f", 1, &y), 0);
    assert_int_equal(session_duplicate(y, x), 0);
    session_release(g->store, x);
    y = again(g, y, "f");
    assert_true(fixture_exists(g, 7, "f", ".b0"));
    expect(y, "x", (uint32_t[]){1});
    session_release(g->store, y);
}

/* Memory counts, and the count does not change what a turn without runs writes. */
static void test_charge(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a");
    uint64_t before = x->charged.memory;
    add_image(x, 'x');
    assert_int_equal(x->charged.memory - before, (RUN + 2) * 8 + 2 * 5 + sizeof(struct item_run));
    session_truncate(x, 0);
    assert_int_equal(x->charged.memory, before);
    session_release(g->store, x);
}

/* --- payloads with valid checksums --- */

/* Applies @first, then @second to a session without a log. Returns the result of the second. */
static int apply(struct fixture *g, const struct buf *first, const uint8_t *second, size_t n, bool runs)
{
    struct session *x = fixture_acquire(g, 8, "x");
    assert_int_equal(session_record_apply(x, (const uint8_t *)first->data, first->len, true), 0);
    expect(x, "x", (uint32_t[]){1});
    int r = session_record_apply(x, second, n, runs);
    assert_true(r == 0 || r == -EBADMSG);
    check_whole(x);
    session_revert(x);
    session_release(g->store, x);
    return r;
}

static void test_damaged_payloads(void **state)
{
    static const struct {
        int at; /* from the digest on */
        uint8_t value;
    } changes[] = {{-1, 0},       {-1, ITEM_KIND_MAX + 1},
                   {-1, 127},     {-2, 0},
                   {-2, RUN - 1}, {-2, RUN + 1},
                   {-2, RUN + 2}, {-2, RUN + 3},
                   {-3, 0},       {-3, 2},
                   {-3, 127},     {-4, 0},
                   {-4, 2},       {-4, 127}};
    struct fixture *g = *state;
    struct buf first = BUF_INIT, second = BUF_INIT, plain = BUF_INIT;
    struct session *x = fixture_acquire(g, 7, "a");
    add_image(x, 'x');
    assert_int_equal(session_record_write(&first, x, true), 1);
    assert_int_equal(session_save(x), 0);
    fixture_turn(x, 1);
    assert_int_equal(session_record_write(&plain, x, false), 0);
    session_truncate(x, RUN + 2);
    session_drop_messages(x, 0);
    add_image(x, 'y');
    assert_int_equal(session_record_write(&second, x, false), 1);
    session_release(g->store, x);
    uint8_t *copy = malloc(second.len);
    assert_non_null(copy);
    assert_int_equal(apply(g, &first, (uint8_t *)second.data, second.len, true), 0);
    assert_int_equal(apply(g, &first, (uint8_t *)second.data, second.len, false), -EBADMSG);
    assert_int_equal(apply(g, &first, (uint8_t *)plain.data, plain.len, false), 0);
    assert_int_equal(apply(g, &first, (uint8_t *)plain.data, plain.len, true), -EBADMSG);
    const uint8_t *digest = memmem(second.data, second.len, "yyyyyyyyyyyyyyyy", 16);
    assert_non_null(digest);
    size_t at = (size_t)(digest - (uint8_t *)second.data);
    for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
        memcpy(copy, second.data, second.len);
        copy[at + (size_t)changes[i].at] = changes[i].value;
        assert_int_equal(apply(g, &first, copy, second.len, true), -EBADMSG);
    }
    for (size_t n = 0; n < second.len; n++)
        assert_int_equal(apply(g, &first, (uint8_t *)second.data, n, true), -EBADMSG);
    for (size_t n = 0; n < second.len; n++)
        for (int v = 0; v < 256; v += v < 12 || v > 250 ? 1 : 13) {
            memcpy(copy, second.data, second.len);
            copy[n] = (uint8_t)v;
            apply(g, &first, copy, second.len, true);
        }
    for (uint8_t keep = 0; keep <= RUN + 3; keep++) {
        memcpy(copy, second.data, second.len);
        assert_int_equal(copy[18], RUN + 2); /* behind flags, policy and model */
        copy[18] = keep;
        bool whole = keep <= 1 || (keep > RUN && keep <= RUN + 2);
        assert_int_equal(apply(g, &first, copy, second.len, true), whole ? 0 : -EBADMSG);
    }
    free(copy);
    buf_fini(&first);
    buf_fini(&second);
    buf_fini(&plain);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(test_kept), T(test_fork_and_rename), T(test_shared_log), T(test_charge), T(test_damaged_payloads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
