/* SPDX-License-Identifier: MIT */
/* Covers types.c, and the life of a request in start.c and request.c: a type of the test's own begins, works and
 * finishes without an engine. */
#include "daemon/request/finish.h"
#include "daemon/request/request-job.h"
#include "daemon/request/start.h"
#include "daemon/request/types.h"
#include "libcommon/error.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MOST 40

/* The part of an engine that a request needs: a mailbox and a pool of one thread. */
struct fixture {
    struct core core;
    uint64_t ids;
};

static struct {
    int begins[3];    /* the results of @begin, in turn; 0 afterwards */
    int works;        /* the result of @work */
    unsigned n_begin; /* calls */
    unsigned n_work;
    int finished[MOST]; /* the results that @finish had */
    unsigned n_finish;
} calls;

static int begin(struct request *r)
{
    return calls.n_begin < 3 ? calls.begins[calls.n_begin++] : (calls.n_begin++, 0);
}

static int work(struct request *r)
{
    calls.n_work++;
    return calls.works < 0 ? error_say(calls.works, "the work fails") : calls.works;
}

static void finish(struct request *r, int result)
{
    calls.finished[calls.n_finish++] = result;
    if (result < 0) {
        answer_fail(r, NULL, result, request_job_error(r));
        return;
    }
    r->end = (struct proto_event){.type = PROTO_EV_TOKENS};
    request_end(r, NULL);
}

static bool early(struct request *r)
{
    return true;
}

static const struct request_type type = {.proto = PROTO_TOKENIZE, .begin = begin, .work = work, .finish = finish};
static const struct request_type early_type = {
    .proto = PROTO_TOKENIZE, .begin = begin, .work = work, .finish = finish, .early = early};
static const struct request_type large_type = {
    .proto = PROTO_TOKENIZE, .large = true, .begin = begin, .work = work, .finish = finish};

static int setup(void **state)
{
    struct fixture *f = *state = calloc(1, sizeof(*f));
    memset(&calls, 0, sizeof(calls));
    if (!f || mailbox_init(&f->core.mail) < 0) return -1;
    f->core.mail.state = ENGINE_READY;
    if (job_pool_new(&f->core.mail.returns.pool, 1, NULL, NULL) < 0) return -1;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    job_pool_free(f->core.mail.returns.pool);
    mailbox_fini(&f->core.mail);
    free(f);
    return 0;
}

static struct request *submit(struct fixture *f, const struct request_type *t)
{
    struct mailbox *m = &f->core.mail;
    struct proto_request proto = {.type = t->proto, .id = ++f->ids};
    struct request *r;
    assert_int_equal(request_new(&r, &f->core, t, 1, 1000, &proto), 0);
    assert_int_equal(r->state, REQUEST_NEW);
    r->user = user_hold(&m->users, 1000);
    assert_non_null(r->user);
    user_begin(&m->users, r->user);
    m->load++;
    request_list_push(&f->core.requests, r);
    return r;
}

/* Wait for a job, and take it back. */
static void deliver(struct fixture *f)
{
    struct mailbox *m = &f->core.mail;
    pthread_mutex_lock(&m->lock);
    while (!m->returns.finished) pthread_cond_wait(&m->wake, &m->lock);
    struct return_job *list = jobs_finished(&m->returns);
    pthread_mutex_unlock(&m->lock);
    jobs_deliver(&m->returns, list);
}

/* The next event, which is the last of its request. */
static void expect(struct fixture *f, uint64_t id, enum proto_event_type what, int code, const char *message)
{
    struct engine_event e;
    assert_true(event_queue_pop(f->core.mail.events, &e));
    assert_true(e.last);
    assert_int_equal(e.conn, 1);
    assert_int_equal(e.ev.id, id);
    assert_int_equal(e.ev.type, what);
    assert_int_equal(e.ev.code, code);
    if (message) assert_string_equal(e.ev.message.data, message);
    proto_event_fini(&e.ev);
}

static void expect_nothing_left(struct fixture *f)
{
    struct engine_event e;
    assert_false(event_queue_pop(f->core.mail.events, &e));
    assert_null(f->core.requests.head);
    assert_int_equal(f->core.mail.load, 0);
    assert_int_equal(f->core.mail.users.n_live, 0);
    assert_int_equal(f->core.mail.users.list->holds, 0);
    assert_int_equal(f->core.mail.returns.out, 0);
}

static void test_begins_works_and_finishes(void **state)
{
    struct fixture *f = *state;
    struct request *r = submit(f, &type);
    calls.works = 5;
    requests_start_new(&f->core);
    assert_int_equal(calls.n_begin, 1);
    assert_int_equal(r->state, REQUEST_PREPARING);
    requests_start_new(&f->core); /* it has begun */
    assert_int_equal(calls.n_begin, 1);
    assert_int_equal(calls.n_finish, 0); /* only the engine's thread finishes it */
    deliver(f);
    assert_int_equal(calls.n_work, 1);
    assert_int_equal(calls.n_finish, 1);
    assert_int_equal(calls.finished[0], 5);
    expect(f, 1, PROTO_EV_TOKENS, 0, NULL);
    expect_nothing_left(f);
}

/* 1 of @begin: not yet; it is asked again in the next turn. */
static void test_waits_until_it_may_begin(void **state)
{
    struct fixture *f = *state;
    struct request *r = submit(f, &type);
    calls.begins[0] = calls.begins[1] = 1;
    for (unsigned i = 1; i <= 2; i++) {
        requests_start_new(&f->core);
        assert_int_equal(calls.n_begin, i);
        assert_int_equal(r->state, REQUEST_NEW);
        assert_int_equal(r->user->started, 0); /* it does not count for the limit of a turn */
    }
    requests_start_new(&f->core);
    deliver(f);
    expect(f, 1, PROTO_EV_TOKENS, 0, NULL);
    expect_nothing_left(f);
}

static void test_fails_to_begin(void **state)
{
    struct fixture *f = *state;
    submit(f, &type);
    calls.begins[0] = error_say(-EINVAL, "it cannot begin");
    requests_start_new(&f->core);
    assert_int_equal(calls.n_work + calls.n_finish, 0);
    expect(f, 1, PROTO_EV_ERROR, EINVAL, "it cannot begin");
    expect_nothing_left(f);
}

/* The message was set in the job's thread. */
static void test_work_fails(void **state)
{
    struct fixture *f = *state;
    submit(f, &type);
    calls.works = -EBADMSG;
    requests_start_new(&f->core);
    deliver(f);
    assert_int_equal(calls.finished[0], -EBADMSG);
    expect(f, 1, PROTO_EV_ERROR, EBADMSG, "the work fails");
    expect_nothing_left(f);
}

static void test_no_engine(void **state)
{
    struct fixture *f = *state;
    f->core.mail.state = ENGINE_FAILED;
    f->core.mail.error = strdup("the model is damaged");
    submit(f, &type);
    requests_start_new(&f->core);
    assert_int_equal(calls.n_begin, 0);
    expect(f, 1, PROTO_EV_ERROR, EIO, "the model is damaged");
    expect_nothing_left(f);
}

/* Its job is sent before the engine's thread sees it; @begin is not asked then. */
static void test_early(void **state)
{
    struct fixture *f = *state;
    struct request *r = submit(f, &type);
    assert_int_equal(r->state, REQUEST_NEW);
    r = submit(f, &early_type);
    assert_true(r->type->early(r));
    request_prepare(r); /* as engine_submit does */
    assert_int_equal(r->state, REQUEST_PREPARING);
    deliver(f);
    assert_int_equal(calls.n_begin, 0);
    expect(f, 2, PROTO_EV_TOKENS, 0, NULL);
    requests_start_new(&f->core);
    deliver(f);
    expect(f, 1, PROTO_EV_TOKENS, 0, NULL);
    expect_nothing_left(f);
}

/* While its reader is slow, only a request with a large answer waits. */
static void test_large_answers_wait_for_their_reader(void **state)
{
    struct fixture *f = *state;
    struct request *small = submit(f, &type), *large = submit(f, &large_type);
    small->control.paused = large->control.paused = true;
    requests_start_new(&f->core);
    deliver(f);
    expect(f, 1, PROTO_EV_TOKENS, 0, NULL);
    assert_int_equal(large->state, REQUEST_NEW);
    large->control.paused = false;
    requests_start_new(&f->core);
    deliver(f);
    expect(f, 2, PROTO_EV_TOKENS, 0, NULL);
    expect_nothing_left(f);
}

/* Each type of request that is the engine's is in the table once, with all functions. */
static void test_table(void **state)
{
    static const enum proto_type types[] = {
        PROTO_GENERATE,     PROTO_WARM,         PROTO_INFILL,       PROTO_TOKENIZE,       PROTO_DETOKENIZE,
        PROTO_SESSION_LIST, PROTO_SESSION_SHOW, PROTO_SESSION_FORK, PROTO_SESSION_RENAME, PROTO_SESSION_REMOVE};
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        const struct request_type *t = request_type_of(types[i]);
        assert_non_null(t);
        assert_int_equal(t->proto, types[i]);
        assert_true(t->begin && t->work && t->finish);
        assert_int_equal(t->answers, types[i] == PROTO_GENERATE || types[i] == PROTO_WARM || types[i] == PROTO_INFILL);
    }
    assert_null(request_type_of(PROTO_STATUS));
    assert_null(request_type_of(PROTO_STOP));
    assert_null(request_type_of(PROTO_CANCEL));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_begins_works_and_finishes),
        TEST(test_waits_until_it_may_begin),
        TEST(test_fails_to_begin),
        TEST(test_work_fails),
        TEST(test_no_engine),
        TEST(test_early),
        TEST(test_large_answers_wait_for_their_reader),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
