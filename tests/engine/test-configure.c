/* SPDX-License-Identifier: MIT */
/* Covers configure.c and model-watcher.c: what changes around an engine that runs. */
#include "libcommon/error.h"
#include "tests/engine/harness.h"
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A disk that takes its time: stat(2) of @path comes back after @go. */
static struct {
    const char *path; /* NULL: it is quick */
    pthread_t loop;   /* who must never wait for it */
    sem_t came, go;
} disk;

int __wrap_stat(const char *path, struct stat *st);
int __wrap_stat64(const char *path, struct stat *st);

int __wrap_stat(const char *path, struct stat *st)
{
    if (disk.path && strcmp(path, disk.path) == 0) {
        if (pthread_equal(pthread_self(), disk.loop)) fail_msg("the loop's thread waits for a disk");
        sem_post(&disk.came);
        sem_wait(&disk.go);
    }
    return fstatat(AT_FDCWD, path, st, 0);
}

int __wrap_stat64(const char *path, struct stat *st) /* its name where off_t has 64 bits by a macro */
{
    return __wrap_stat(path, st);
}

static char *status_of(struct harness *h, uid_t uid)
{
    struct proto_request r = harness_simple(PROTO_STATUS);
    return strdup(harness_wait(h, harness_submit_as(h, 1, uid, &r))->last.status.data);
}

static void assert_says(struct harness *h, uid_t uid, const char *part, bool yes)
{
    char *s = status_of(h, uid);
    if ((strstr(s, part) != NULL) != yes) fail_msg("'%s' %s '%s'", s, yes ? "lacks" : "has", part);
    free(s);
}

/* Values that are read at each use count from now on; those of the start stay. */
static void test_limits_change(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct engine_config c = h->config;
    c.queue = 3;
    c.parallel += 5;
    c.queue_timeout_usec = 1;
    assert_int_equal(engine_configure(h->engine, &c, NULL), 0);
    assert_int_equal(harness_status(h, 0, "queue"), 3);
    assert_int_equal(harness_status(h, 0, "parallel"), h->config.parallel);
    /* And requests still run. */
    struct proto_request r = harness_raw("x");
    r.gen.max_tokens = 4;
    c.queue_timeout_usec = 600000000;
    assert_int_equal(engine_configure(h->engine, &c, NULL), 0);
    assert_done(harness_run(h, &r), PROTO_STOP_LENGTH);
}

/* Without a draft model nothing could propose. */
static void test_draft_of_no_model(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct engine_config c = h->config;
    c.speculation.mode = PROTO_SPECULATE_LOOKUP;
    assert_int_equal(engine_check(h->engine, &c), 0);
    c.speculation.mode = PROTO_SPECULATE_DRAFT;
    assert_int_equal(engine_check(h->engine, &c), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "'draft' needs a draft model (--draft)"));
}

static void test_notes(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    assert_says(h, 0, "restart_pending", false);
    assert_int_equal(engine_configure(h->engine, &h->config, "ctx, kv-type"), 0);
    assert_says(h, 0, "\"restart_pending\":\"ctx, kv-type\"", true);
    assert_says(h, 1234, "restart_pending", false);
    engine_configure_failed(h->engine, "x:1: no");
    assert_says(h, 0, "\"restart_pending\":\"ctx, kv-type\"", true);
    assert_says(h, 0, "\"reload_failed\":\"x:1: no\"", true);
    assert_says(h, 1234, "reload_failed", false);
    assert_int_equal(engine_configure(h->engine, &h->config, NULL), 0);
    assert_says(h, 0, "restart_pending", false);
    assert_says(h, 0, "reload_failed", false);
}

static void test_model_file(void **state)
{
    struct harness *h = *state;
    char aside[80];
    harness_start(h);
    assert_says(h, 1234, "model_changed", false);
    snprintf(aside, sizeof(aside), "%s.old", h->path);
    assert_int_equal(rename(h->path, aside), 0);
    assert_says(h, 1234, "model file was removed after it was loaded", true);
    /* Back again: it is the same file. */
    assert_int_equal(rename(aside, h->path), 0);
    assert_says(h, 1234, "model_changed", false);
    /* One more name, or other rights, make it no other file. */
    assert_int_equal(link(h->path, aside), 0);
    assert_int_equal(chmod(h->path, 0400), 0);
    assert_int_equal(unlink(aside), 0);
    assert_says(h, 1234, "model_changed", false);
    assert_int_equal(utimensat(AT_FDCWD, h->path, (struct timespec[2]){{.tv_nsec = UTIME_OMIT}, {.tv_sec = 5}}, 0), 0);
    assert_says(h, 1234, "\"model_changed\":\"model file changed after it was loaded; restart hobd to use it\"", true);
}

static uint64_t ask(struct harness *h)
{
    struct proto_request r = harness_simple(PROTO_STATUS);
    return harness_submit_as(h, 1, 0, &r);
}

/* Who asks waits for what the disk says, nobody else does; and when it says nothing, that one is answered without. */
static void test_slow_disk(void **state)
{
    struct harness *h = *state;
    char aside[80];
    harness_start(h);
    snprintf(aside, sizeof(aside), "%s.old", h->path);
    assert_int_equal(rename(h->path, aside), 0);
    sem_init(&disk.came, 0, 0);
    sem_init(&disk.go, 0, 0);
    disk.loop = pthread_self();
    disk.path = h->path;
    uint64_t first = ask(h);
    sem_wait(&disk.came);
    uint64_t second = ask(h);
    assert_null(strstr(harness_wait(h, second)->last.status.data, "model_changed"));
    struct proto_request r = harness_raw("x");
    assert_done(harness_run(h, &r), PROTO_STOP_LENGTH);
    assert_null(strstr(harness_wait(h, first)->last.status.data, "model_changed"));
    sem_post(&disk.go);
    for (bool gone = false; !gone;) { /* it may still be on its way */
        char *s = status_of(h, 0);
        gone = strstr(s, "model file was removed");
        free(s);
        sem_post(&disk.go);
    }
    disk.path = NULL;
    sem_post(&disk.go);
    assert_int_equal(rename(aside, h->path), 0);
}

/* The engine ends while a request waits for the disk. */
static void test_end_while_looking(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    sem_init(&disk.came, 0, 0);
    sem_init(&disk.go, 0, 1);
    disk.loop = pthread_self();
    disk.path = h->path;
    ask(h);
    harness_stop(h);
    disk.path = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_limits_change, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_draft_of_no_model, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_notes, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_model_file, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_slow_disk, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_end_while_looking, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
