/* SPDX-License-Identifier: MIT */
#include "tests/cache/fixture.h"
#include "libcommon/error.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static struct fixture *fixture_of(const struct backend *b)
{
    return (struct fixture *)((char *)b - offsetof(struct fixture, backend));
}

static int kv_read(struct backend *b, uint32_t group, uint32_t block, void *out)
{
    struct fixture *f = fixture_of(b);
    assert_in_range(group, 0, b->hparams.n_groups - 1);
    const bool is_state = group && group == f->cache.state;
    if (is_state)
        f->state_reads++;
    else if (group == 0)
        f->reads++;
    if (f->broken) return error_say(-EIO, "the device has failed");
    const void *from = is_state ? f->states[block] : group ? f->windows[block] : f->blocks[block];
    memcpy(out, from, kv_group_payload(&b->hparams.groups[group]));
    return 0;
}

static int kv_identity(const struct backend *b, uint8_t out[16])
{
    memset(out, 7, 16);
    return fixture_of(b)->unknown;
}

static const struct backend_ops ops = {.kv_read = kv_read, .kv_identity = kv_identity};

int fixture_setup(void **state)
{
    struct fixture *f = *state = calloc(1, sizeof(*f));
    if (!f || folder_make(f->top, "cache") < 0) return -1;
    snprintf(f->state_dir, sizeof(f->state_dir), "%s/state", f->top);
    snprintf(f->cache_dir, sizeof(f->cache_dir), "%s/cache", f->top);
    f->config = (struct spill_config){.cache_dir = f->cache_dir, .state_dir = f->state_dir, .cache_bytes = 1 << 20};
    f->backend = (struct backend){.ops = &ops, .kv_blocks = {FIXTURE_BLOCKS}};
    f->backend.hparams.groups[0].bytes_per_token = FIXTURE_PAYLOAD / KV_BLOCK;
    f->backend.hparams.n_groups = 1;
    pthread_mutex_init(&f->lock, NULL);
    pthread_mutex_init(&f->hold, NULL);
    pthread_cond_init(&f->wake, NULL);
    f->jobs.lock = &f->lock;
    f->jobs.wake = &f->wake;
    return job_pool_new(&f->jobs.pool, 2, NULL, NULL);
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    if (f->cache.pools[0]) fixture_close(f, 0);
    job_pool_free(f->jobs.pool);
    pthread_cond_destroy(&f->wake);
    pthread_mutex_destroy(&f->hold);
    pthread_mutex_destroy(&f->lock);
    int r = folder_remove(f->top);
    free(f);
    return r;
}

void fixture_recurrent(struct fixture *f)
{
    f->backend.hparams.groups[1] = (struct kv_group){.kind = KV_STATE, .state_bytes = FIXTURE_STATE};
    f->backend.hparams.n_groups = 2;
    f->backend.kv_blocks[1] = FIXTURE_STATES;
}

void fixture_windowed(struct fixture *f)
{
    f->backend.hparams.groups[1] =
        (struct kv_group){.kind = KV_WINDOW, .window = KV_BLOCK, .bytes_per_token = FIXTURE_WINDOW / KV_BLOCK};
    f->backend.hparams.n_groups = 2;
    f->backend.kv_blocks[1] = FIXTURE_BLOCKS;
}

void fixture_open(struct fixture *f)
{
    f->cache = (struct kv_cache){0};
    assert_int_equal(kv_cache_new(&f->cache, &f->backend, &f->config, &f->jobs), 0);
    f->cache.may_keep = true;
}

void fixture_close(struct fixture *f, uint64_t until)
{
    while (fixture_deliver(f)) continue;
    prefix_check(f->cache.prefix);
    kv_cache_free(&f->cache, until);
    assert_null(f->cache.pools[0]);
}

static void fill(int32_t tokens[KV_BLOCK], int32_t token)
{
    for (uint32_t i = 0; i < KV_BLOCK; i++) tokens[i] = token;
}

struct prefix_node *fixture_add(struct fixture *f, struct prefix_node *parent, int32_t token)
{
    struct kv_cache *c = &f->cache;
    struct prefix_node *node;
    int32_t tokens[KV_BLOCK];
    uint32_t block;
    fill(tokens, token);
    assert_int_equal(kv_pool_take(c->pools[0], &block), 0);
    memset(f->blocks[block], token, FIXTURE_PAYLOAD);
    if (parent) prefix_ref(c->prefix, parent);
    assert_int_equal(
        prefix_add(c->prefix, &c->public_namespace, parent, items_tokens(tokens, KV_BLOCK), block, 1000, &node), 0);
    if (parent) prefix_unref(c->prefix, parent);
    kv_pool_unref(c->pools[0], block);
    return node;
}

void fixture_add_window(struct fixture *f, struct prefix_node *n, int32_t value)
{
    struct kv_cache *c = &f->cache;
    uint32_t block;
    assert_int_equal(kv_pool_take(c->pools[1], &block), 0);
    memset(f->windows[block], value, FIXTURE_WINDOW);
    prefix_window_attach(c->prefix, n, 1, block, KV_BLOCK);
    kv_pool_unref(c->pools[1], block);
}

void fixture_add_state(struct fixture *f, struct prefix_node *n, int32_t value)
{
    struct kv_cache *c = &f->cache;
    uint32_t block;
    assert_int_equal(kv_pool_take(c->pools[c->state], &block), 0);
    memset(f->states[block], value, FIXTURE_STATE);
    assert_true(prefix_state_attach(c->prefix, n, block, PREFIX_STATE_TURN));
    kv_pool_unref(c->pools[c->state], block);
}

struct prefix_node *fixture_find(struct fixture *f, int32_t token)
{
    int32_t tokens[KV_BLOCK];
    uint32_t n;
    fill(tokens, token);
    struct prefix_node *x =
        prefix_child(f->cache.prefix, &f->cache.public_namespace, NULL, items_tokens(tokens, KV_BLOCK), &n);
    return n == KV_BLOCK ? x : NULL;
}

bool fixture_on_disk(struct fixture *f, int32_t token)
{
    struct prefix_node *x = fixture_find(f, token);
    struct prefix_info info = {0};
    if (x) prefix_info(x, &info);
    return info.on_disk;
}

void fixture_check_file(struct fixture *f, int32_t token)
{
    uint8_t want[FIXTURE_PAYLOAD], got[FIXTURE_PAYLOAD];
    struct prefix_info info;
    struct prefix_node *x = fixture_find(f, token);
    assert_non_null(x);
    prefix_info(x, &info);
    assert_true(info.on_disk);
    memset(want, token, sizeof(want));
    assert_int_equal(disk_read(spill_disk(&f->cache), &info, got), 0);
    assert_memory_equal(got, want, sizeof(got));
}

void fixture_fail_writes(bool fail)
{
    struct rlimit l;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = fail ? 16 : l.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

static void wait_for_release(struct job *j)
{
    struct fixture *f = (struct fixture *)((char *)j - offsetof(struct fixture, holder));
    pthread_mutex_lock(&f->hold);
    pthread_mutex_unlock(&f->hold);
}

static void released(struct job *j)
{
}

void fixture_hold(struct fixture *f)
{
    f->holder = (struct job){.uid = (uid_t)-1, .uncharged = true, .run = wait_for_release, .done = released};
    pthread_mutex_lock(&f->hold);
    job_pool_push(f->jobs.pool, &f->holder); /* as the jobs of the cache, whose uid has one at a time */
}

void fixture_release(struct fixture *f)
{
    pthread_mutex_unlock(&f->hold);
}

unsigned fixture_deliver(struct fixture *f)
{
    unsigned n = 0, out = f->jobs.out;
    while (n < out) {
        pthread_mutex_lock(&f->lock);
        while (!f->jobs.finished) pthread_cond_wait(&f->wake, &f->lock);
        struct return_job *list = jobs_finished(&f->jobs);
        pthread_mutex_unlock(&f->lock);
        for (const struct return_job *x = list; x; x = x->next) n++;
        jobs_deliver(&f->jobs, list);
    }
    return n;
}
