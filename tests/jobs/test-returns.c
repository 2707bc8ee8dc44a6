/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/returns.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define JOBS 5

/* A pool of one thread, and a gate at which a job stays until it is opened. */
struct fixture {
    struct job_returns returns;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool open;
    unsigned begun;
    unsigned order[JOBS], n; /* the jobs whose @back was called */
    pthread_t back_thread;
};

struct item {
    struct return_job job;
    struct fixture *fixture;
    unsigned number;
};

static int setup(void **state)
{
    static struct fixture f;
    f = (struct fixture){.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};
    f.returns.lock = &f.lock;
    f.returns.wake = &f.wake;
    *state = &f;
    return job_pool_new(&f.returns.pool, 1, NULL, NULL);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    return job_pool_free(f->returns.pool) != NULL;
}

static void run(struct job *j)
{
    struct item *x = (struct item *)return_job_of(j);
    struct fixture *f = x->fixture;
    pthread_mutex_lock(&f->lock);
    f->begun++;
    pthread_cond_signal(&f->wake);
    while (!f->open) pthread_cond_wait(&f->wake, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

static void back(struct return_job *x)
{
    struct item *i = (struct item *)x;
    i->fixture->order[i->fixture->n++] = i->number;
    i->fixture->back_thread = pthread_self();
}

static void send(struct fixture *f, struct item *items, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        items[i] = (struct item){.fixture = f, .number = i};
        jobs_send(&f->returns, &items[i].job, 1000, run, back);
    }
}

/* Wait until the first job runs, or with @open let it go and wait until @finished jobs are. Returns them. */
static struct return_job *wait_for(struct fixture *f, bool open, unsigned finished)
{
    struct return_job *list = NULL;
    pthread_mutex_lock(&f->lock);
    f->open = open;
    pthread_cond_broadcast(&f->wake);
    while (f->begun == 0) pthread_cond_wait(&f->wake, &f->lock);
    for (;;) {
        unsigned n = 0;
        for (struct return_job *x = f->returns.finished; x; x = x->next) n++;
        if (n >= finished) break;
        pthread_cond_wait(&f->wake, &f->lock);
    }
    if (finished) list = jobs_finished(&f->returns);
    pthread_mutex_unlock(&f->lock);
    return list;
}

static void test_delivered_in_the_order_of_their_ends(void **state)
{
    struct fixture *f = *state;
    struct item items[JOBS];
    send(f, items, JOBS);
    assert_int_equal(f->returns.out, JOBS);
    struct return_job *list = wait_for(f, true, JOBS);
    assert_null(f->returns.finished);
    assert_ptr_equal(list, &items[JOBS - 1].job); /* the last one first */
    assert_int_equal(f->n, 0);                    /* nothing is delivered by the pool */
    assert_int_equal(f->returns.out, JOBS);
    jobs_deliver(&f->returns, list);
    assert_int_equal(f->n, JOBS);
    for (unsigned i = 0; i < JOBS; i++) assert_int_equal(f->order[i], i);
    assert_true(pthread_equal(f->back_thread, pthread_self()));
    assert_int_equal(f->returns.out, 0);
}

static void test_a_recalled_job_does_not_come_back(void **state)
{
    struct fixture *f = *state;
    struct item items[3];
    send(f, items, 3);
    wait_for(f, false, 0);
    assert_false(jobs_recall(&items[0].job)); /* it runs */
    assert_true(jobs_recall(&items[1].job));
    assert_int_equal(f->returns.out, 2);
    jobs_deliver(&f->returns, wait_for(f, true, 2));
    assert_false(jobs_recall(&items[2].job)); /* it has run */
    assert_int_equal(f->begun, 2);
    assert_int_equal(f->n, 2);
    assert_int_equal(f->order[0], 0);
    assert_int_equal(f->order[1], 2);
    assert_int_equal(f->returns.out, 0);
}

/* A job may be sent again by its own @back. */
static void again(struct return_job *x)
{
    struct item *i = (struct item *)x;
    jobs_send(&i->fixture->returns, x, 1000, run, back);
}

static void test_sent_again_from_back(void **state)
{
    struct fixture *f = *state;
    struct item x = {.fixture = f, .number = 7};
    jobs_send(&f->returns, &x.job, 1000, run, again);
    jobs_deliver(&f->returns, wait_for(f, true, 1));
    assert_int_equal(f->n, 0);
    assert_int_equal(f->returns.out, 1);
    jobs_deliver(&f->returns, wait_for(f, true, 1));
    assert_int_equal(f->n, 1);
    assert_int_equal(f->order[0], 7);
    assert_int_equal(f->begun, 2);
    assert_int_equal(f->returns.out, 0);
}

/* Runs three times, and then is finished. */
static void run_thrice(struct job *j)
{
    struct item *x = (struct item *)return_job_of(j);
    run(j);
    if (++x->number < 3) jobs_again(&x->job);
}

static void test_runs_again_after_others(void **state)
{
    struct fixture *f = *state;
    struct item x = {.fixture = f}, other = {.fixture = f, .number = 9};
    jobs_send_to(&f->returns, f->returns.pool, &x.job, 1000, run_thrice, back);
    jobs_send(&f->returns, &other.job, 1001, run, back);
    jobs_deliver(&f->returns, wait_for(f, true, 2));
    assert_int_equal(f->begun, 4);
    assert_int_equal(f->n, 2);
    assert_int_equal(f->order[0], 9);
    assert_int_equal(f->order[1], 3);
    assert_int_equal(f->returns.out, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_delivered_in_the_order_of_their_ends),
        TEST(test_a_recalled_job_does_not_come_back),
        TEST(test_sent_again_from_back),
        TEST(test_runs_again_after_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
