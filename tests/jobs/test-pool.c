/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/pool.h"
#include "libcommon/error.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define JOBS 60

struct log {
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool open;           /* the gate the first job waits at, so that the others queue up */
    unsigned begun;      /* jobs that have begun to run */
    unsigned n;          /* jobs done */
    uid_t uids[JOBS];    /* in the order they ran */
    unsigned nums[JOBS]; /* each one's number within its uid */
};

struct logged {
    struct job job;
    struct log *log;
    unsigned num;
    bool gate;
};

static void run(struct job *j)
{
    struct logged *x = (struct logged *)((char *)j - offsetof(struct logged, job));
    pthread_mutex_lock(&x->log->lock);
    x->log->begun++;
    pthread_cond_broadcast(&x->log->change);
    while (x->gate && !x->log->open) pthread_cond_wait(&x->log->change, &x->log->lock);
    pthread_mutex_unlock(&x->log->lock);
}

static void done(struct job *j)
{
    struct logged *x = (struct logged *)((char *)j - offsetof(struct logged, job));
    pthread_mutex_lock(&x->log->lock);
    x->log->uids[x->log->n] = j->uid;
    x->log->nums[x->log->n++] = x->num;
    pthread_cond_broadcast(&x->log->change);
    pthread_mutex_unlock(&x->log->lock);
}

static struct logged *job_new(struct log *log, uid_t uid, unsigned num)
{
    struct logged *x = calloc(1, sizeof(*x));
    x->job = (struct job){.uid = uid, .run = run, .done = done};
    x->log = log;
    x->num = num;
    return x;
}

static void wait_for(struct log *log, unsigned n)
{
    pthread_mutex_lock(&log->lock);
    log->open = true;
    pthread_cond_broadcast(&log->change);
    while (log->n < n) pthread_cond_wait(&log->change, &log->lock);
    pthread_mutex_unlock(&log->lock);
}

/* One uid has queued 40 jobs when two others come with 5 each: they are served in turn. */
static void test_lines_take_turns(void **state)
{
    struct log log = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
    struct logged *jobs[JOBS];
    struct job_pool *a = NULL;
    unsigned n = 0;
    assert_int_equal(job_pool_new(&a, 1, NULL, NULL), 0);
    jobs[n] = job_new(&log, 9, 0);
    jobs[n++]->gate = true;
    job_pool_push(a, &jobs[0]->job);
    for (unsigned i = 0; i < 40; i++) job_pool_push(a, &(jobs[n++] = job_new(&log, 1, i))->job);
    for (unsigned i = 0; i < 5; i++) job_pool_push(a, &(jobs[n++] = job_new(&log, 2, i))->job);
    for (unsigned i = 0; i < 5; i++) job_pool_push(a, &(jobs[n++] = job_new(&log, 3, i))->job);
    wait_for(&log, n);
    assert_null(job_pool_free(a));
    unsigned next[4] = {0};
    for (unsigned i = 1; i < n; i++) {
        if (i <= 15) assert_int_equal(log.uids[i], 1 + (i - 1) % 3);
        assert_int_equal(log.nums[i], next[log.uids[i]]++);
    }
    for (unsigned i = 0; i < n; i++) free(jobs[i]);
}

/* One uid's jobs take long, and it has many: another's is served meanwhile. */
static void test_one_uid_never_has_all_threads(void **state)
{
    struct log log = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
    struct logged *jobs[5];
    struct job_pool *a = NULL;
    assert_int_equal(job_pool_new(&a, 2, NULL, NULL), 0);
    for (unsigned i = 0; i < 4; i++) {
        jobs[i] = job_new(&log, 1, i);
        jobs[i]->gate = true;
        job_pool_push(a, &jobs[i]->job);
    }
    job_pool_push(a, &(jobs[4] = job_new(&log, 2, 0))->job);
    pthread_mutex_lock(&log.lock);
    while (log.n == 0) pthread_cond_wait(&log.change, &log.lock); /* the gate is shut */
    assert_int_equal(log.uids[0], 2);
    pthread_mutex_unlock(&log.lock);
    wait_for(&log, 5);
    assert_null(job_pool_free(a));
    for (unsigned i = 0; i < 4; i++) assert_int_equal(log.nums[i + 1], i);
    for (unsigned i = 0; i < 5; i++) free(jobs[i]);
}

static void wait_begun(struct log *log, unsigned n)
{
    pthread_mutex_lock(&log->lock);
    while (log->begun < n) pthread_cond_wait(&log->change, &log->lock);
    pthread_mutex_unlock(&log->lock);
}

/* Side jobs of one uid have half of the threads, beside its main job; the last thread is another uid's. */
static void test_side_jobs_run_beside_others(void **state)
{
    struct log log = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
    struct logged *jobs[8];
    struct job_pool *a = NULL;
    assert_int_equal(job_pool_new(&a, 4, NULL, NULL), 0);
    for (unsigned i = 0; i < 7; i++) {
        jobs[i] = job_new(&log, 1, i);
        jobs[i]->gate = true;
        jobs[i]->job.side = i >= 2; /* behind two main jobs, of which one waits */
        job_pool_push(a, &jobs[i]->job);
    }
    wait_begun(&log, 3);
    job_pool_push(a, &(jobs[7] = job_new(&log, 2, 9))->job);
    pthread_mutex_lock(&log.lock);
    while (log.n == 0) pthread_cond_wait(&log.change, &log.lock); /* the gate is shut */
    assert_int_equal(log.uids[0], 2);
    assert_int_equal(log.begun, 4); /* a main job and two side jobs of the first uid, no more */
    pthread_mutex_unlock(&log.lock);
    assert_true(job_pool_recall(a, &jobs[6]->job));
    wait_for(&log, 7);
    assert_null(job_pool_free(a));
    for (unsigned i = 0; i < 8; i++) free(jobs[i]);
}

static void test_a_waiting_job_is_taken_back(void **state)
{
    struct log log = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
    struct logged *jobs[3];
    struct job_pool *a = NULL;
    assert_int_equal(job_pool_new(&a, 1, NULL, NULL), 0);
    for (unsigned i = 0; i < 3; i++) {
        jobs[i] = job_new(&log, 1, i);
        jobs[i]->gate = i == 0;
        job_pool_push(a, &jobs[i]->job);
    }
    wait_begun(&log, 1);
    assert_false(job_pool_recall(a, &jobs[0]->job));
    assert_true(job_pool_recall(a, &jobs[1]->job));
    assert_false(job_pool_recall(a, &jobs[1]->job));
    wait_for(&log, 2);
    assert_null(job_pool_free(a));
    assert_int_equal(log.nums[1], 2);
    assert_int_equal(log.n, 2);
    for (unsigned i = 0; i < 3; i++) free(jobs[i]);
}

static void test_free_forgets_what_waits(void **state)
{
    struct log log = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
    struct job_pool *a = NULL;
    assert_int_equal(job_pool_new(&a, 2, NULL, NULL), 0);
    struct logged *x = job_new(&log, 1, 0);
    job_pool_push(a, &x->job);
    wait_for(&log, 1);
    assert_null(job_pool_free(a));
    assert_null(job_pool_free(NULL));
    assert_int_equal(log.n, 1);
    free(x);
}

static void fails_with_a_message(struct job *j)
{
    error_say(-ENOMEM, "a message of another job");
}

static void fails_without_a_message(struct job *j)
{
    assert_string_equal(error_text(-ENOMEM), strerror(ENOMEM));
}

/* The message of a job does not explain the same error of a later one. */
static void test_messages_end_with_their_job(void **state)
{
    struct log log = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
    struct job_pool *a = NULL;
    assert_int_equal(job_pool_new(&a, 1, NULL, NULL), 0);
    struct logged *jobs[] = {job_new(&log, 1, 0), job_new(&log, 1, 1)};
    jobs[0]->job.run = fails_with_a_message;
    jobs[1]->job.run = fails_without_a_message;
    for (int i = 0; i < 2; i++) job_pool_push(a, &jobs[i]->job);
    wait_for(&log, 2);
    assert_null(job_pool_free(a));
    for (int i = 0; i < 2; i++) free(jobs[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_take_turns),
        cmocka_unit_test(test_one_uid_never_has_all_threads),
        cmocka_unit_test(test_side_jobs_run_beside_others),
        cmocka_unit_test(test_a_waiting_job_is_taken_back),
        cmocka_unit_test(test_free_forgets_what_waits),
        cmocka_unit_test(test_messages_end_with_their_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
