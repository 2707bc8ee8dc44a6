/* SPDX-License-Identifier: MIT */
/* A stop keeps what was computed, even if other programs leave the thread that verifies the weights no CPU time, which
 * a thread that waits stands for. */
#include "daemon/engine/state.h"
#include "libcommon/error.h"
#include "tests/engine/harness.h"
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#define PATIENCE 60000 /* ms that a thread waits at most: a test has failed then */

/* What becomes of the verification. */
static struct {
    const struct backend_ops *real;
    bool starved; /* the thread of idle priority gets no CPU time until the cache is freed, */
    bool stuck;   /* or no thread, until it is told to stop; */
    bool damaged; /* the others find damage */
    bool alone;   /* the thread of idle priority cannot be started */
    atomic_bool began;
    atomic_bool freed;      /* the cache */
    atomic_int idle, calls; /* of verify_weights: by the thread of idle priority, by all */
    atomic_int late, held;  /* waited in vain; took the mailbox's lock with idle priority */
    pthread_t test, engine;
} verify;

static bool is_idle(void)
{
    return sched_getscheduler(0) == SCHED_IDLE;
}

static void wait_until(const atomic_bool *flag)
{
    for (int i = 0; !atomic_load(flag); i++) {
        if (i == PATIENCE) {
            atomic_fetch_add(&verify.late, 1);
            return;
        }
        usleep(1000);
    }
}

static int verify_weights(struct backend *b, const atomic_bool *stop)
{
    atomic_fetch_add(&verify.calls, 1);
    atomic_fetch_add(&verify.idle, is_idle());
    if (verify.stuck) {
        wait_until(stop);
        return 1;
    }
    if (is_idle() && verify.starved) {
        wait_until(&verify.freed);
        return atomic_load(stop) ? 1 : verify.real->verify_weights(b, stop);
    }
    if (verify.damaged) return error_say(-EBADMSG, "the weights are damaged");
    return verify.real->verify_weights(b, stop);
}

void __real_background_verify_start(struct background_verify *v, struct core *core);
void __wrap_background_verify_start(struct background_verify *v, struct core *core);

void __wrap_background_verify_start(struct background_verify *v, struct core *core)
{
    static struct backend_ops ops;
    verify.real = core->model.backend->ops;
    ops = *verify.real;
    ops.verify_weights = verify_weights;
    core->model.backend->ops = &ops;
    verify.freed = false;
    verify.idle = verify.calls = 0;
    verify.engine = pthread_self();
    verify.began = true;
    __real_background_verify_start(v, core);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

/* Neither the test nor the engine starts the thread of idle priority, but all others at the beginning. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    const pthread_t self = pthread_self();
    const bool other = !pthread_equal(self, verify.test) && !pthread_equal(self, verify.engine);
    return verify.alone && verify.began && other ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

void __real_mailbox_kick_locked(struct mailbox *m);
void __wrap_mailbox_kick_locked(struct mailbox *m);

/* Whom it wakes can take the CPU of the thread that still holds the lock. */
void __wrap_mailbox_kick_locked(struct mailbox *m)
{
    atomic_fetch_add(&verify.held, is_idle());
    __real_mailbox_kick_locked(m);
}

void __real_kv_cache_free(struct kv_cache *c, uint64_t until);
void __wrap_kv_cache_free(struct kv_cache *c, uint64_t until);

void __wrap_kv_cache_free(struct kv_cache *c, uint64_t until)
{
    __real_kv_cache_free(c, until);
    atomic_store(&verify.freed, true);
}

static int setup(void **state)
{
    memset(&verify, 0, sizeof(verify));
    verify.test = pthread_self();
    int r = harness_setup(state);
    if (r == 0) harness_dirs(*state);
    return r;
}

static int teardown(void **state)
{
    int r = harness_teardown(state);
    return verify.late || verify.held ? -1 : r;
}

/* An engine that answers once. Returns how many tokens of the prompt it had. */
static uint64_t run(struct harness *h, const char *more, struct answer *out)
{
    char prompt[512];
    snprintf(prompt, sizeof(prompt), "%s%s", harness_story, more);
    struct proto_request r = harness_seeded(prompt);
    verify.began = false;
    harness_start(h);
    struct answer *a = harness_run(h, &r);
    assert_done(a, PROTO_STOP_LENGTH);
    const uint64_t cached = a->last.usage_cached;
    if (out) *out = answer_take(a);
    return cached;
}

static int files(const char *dir, const char *end)
{
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        const size_t len = strlen(e->d_name);
        n += len > strlen(end) && strcmp(e->d_name + len - strlen(end), end) == 0;
    }
    if (d) closedir(d);
    return n;
}

/* The first start hashes the model's file, the next one verifies the packed weights. */
static void test_a_thread_without_cpu_time(void **state)
{
    struct harness *h = *state;
    struct answer a[2];
    verify.starved = true;
    for (int i = 0; i < 3; i++) {
        const uint64_t cached = run(h, i < 2 ? "" : " And on it went.", i < 2 ? &a[i] : NULL);
        if (i) assert_true(cached > 32);
        assert_int_equal(h->engine->core.model.backend->weights_mapped, i > 0);
        assert_int_equal(harness_status(h, 0, "disk"), 0);
        const int before = files(h->cache_dir, ".kv");
        harness_stop(h);
        assert_int_equal(verify.idle, 1);
        assert_int_equal(verify.calls, 2);
        assert_int_equal(files(h->packed_dir, ".hobw"), 1);
        if (i != 1) assert_true(files(h->cache_dir, ".kv") > before);
    }
    assert_same(&a[0], &a[1]);
    for (int i = 0; i < 2; i++) answer_fini(&a[i]);
}

static void test_verified_before(void **state)
{
    struct harness *h = *state;
    run(h, "", NULL);
    harness_wait_disk(h);
    harness_stop(h);
    assert_int_equal(verify.calls, 1);
    assert_true(run(h, "", NULL) > 32);
}

static void test_no_idle_thread(void **state)
{
    struct harness *h = *state;
    verify.alone = true;
    for (int i = 0; i < 2; i++) {
        const uint64_t cached = run(h, "", NULL);
        assert_true(i ? cached > 32 : !cached);
        assert_int_equal(harness_status(h, 0, "disk"), 0);
        harness_stop(h);
        assert_int_equal(verify.idle, 0);
        assert_int_equal(verify.calls, 1);
    }
}

/* A stop without time, or with too little. */
static void test_no_time(void **state)
{
    struct harness *h = *state;
    verify.stuck = true;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run(h, "", NULL), 0);
        h->engine = engine_close(h->engine, i ? 50000 : 0);
        harness_stop(h);
        assert_int_equal(files(h->cache_dir, ".kv"), 0);
    }
    assert_int_equal(run(h, "", NULL), 0);
    h->engine = engine_close(h->engine, 0);
}

static void test_damage(void **state)
{
    struct harness *h = *state;
    verify.starved = verify.damaged = true;
    assert_int_equal(run(h, "", NULL), 0);
    harness_stop(h);
    assert_int_equal(verify.idle, 1);
    assert_int_equal(verify.calls, 2);
    assert_int_equal(files(h->cache_dir, ".kv"), 0);
    assert_int_equal(files(h->packed_dir, ".hobw"), 0);
    assert_int_equal(run(h, "", NULL), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_thread_without_cpu_time),
        TEST(test_verified_before),
        TEST(test_no_idle_thread),
        TEST(test_no_time),
        TEST(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
