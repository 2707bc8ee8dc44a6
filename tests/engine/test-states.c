/* SPDX-License-Identifier: MIT */
/* A model with recurrent layers: its answers are bit for bit those of a request that nothing was computed for before,
 * whatever is found, evicted, preempted, forked, drafted or read from disk; and a conversation computes little more
 * than its new tokens. */
#include "daemon/engine/state.h"
#include "tests/engine/harness.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* @share: percent of the memory for states. With the default they are so small that there is one at each block. */
static int setup_share(void **state, uint32_t share)
{
    struct harness *h = calloc(1, sizeof(*h));
    struct tiny t;
    tiny_init(&t);
    t.arch = "lfm2";
    t.ctx = 2048;
    harness_init(h, &t);
    h->config.batch_tokens = 64;
    h->config.state_share = share;
    *state = h;
    return 0;
}

static int setup(void **state)
{
    return setup_share(state, 33);
}

/* States are as rare as where they are large. */
static int setup_rare(void **state)
{
    return setup_share(state, 1);
}

static int teardown(void **state)
{
    harness_fini(*state);
    free(*state);
    return 0;
}

/* No answer runs: the index is sound, and all blocks are free after everything is evicted. */
static void check_blocks(struct harness *h)
{
    struct kv_cache *c = &h->engine->core.cache;
    harness_hold(h);
    prefix_check(c->prefix);
    for (uint32_t g = kv_cache_pools(c); g-- > 0;) {
        assert_true(kv_cache_make_room(c, g, kv_pool_total(c->pools[g])));
        prefix_check(c->prefix);
    }
    harness_go(h);
}

static struct proto_request ask(unsigned seed, unsigned words, const char *tail, unsigned tokens)
{
    char doc[8192];
    harness_text(doc, sizeof(doc) - 64, seed, words);
    strcat(doc, tail);
    struct proto_request r = harness_raw(doc);
    r.gen.sampling.temperature = 1;
    r.gen.sampling.seed = 7;
    r.gen.max_tokens = tokens;
    r.gen.ignore_eos = true;
    return r;
}

/* The request, and the same in a namespace of its own. Returns how much the first found; *computed: the rest of its
 * prompt. */
static uint64_t both(struct harness *h, unsigned seed, unsigned words, const char *tail, unsigned tokens,
                     uint64_t *computed)
{
    static unsigned cold;
    char salt[16];
    struct proto_request r = ask(seed, words, tail, tokens), s = ask(seed, words, tail, tokens);
    snprintf(salt, sizeof(salt), "cold %u", cold++);
    assert_int_equal(proto_text_set(&s.gen.salt, salt, strlen(salt)), 0);
    struct answer a = answer_take(harness_run(h, &r));
    harness_forget(h);
    struct answer *b = harness_run(h, &s);
    assert_done(&a, PROTO_STOP_LENGTH);
    assert_done(b, PROTO_STOP_LENGTH);
    assert_int_equal(b->last.usage_cached, 0);
    assert_same(&a, b);
    uint64_t found = a.last.usage_cached;
    if (computed) *computed = a.last.usage_prompt - found;
    harness_forget(h);
    answer_fini(&a);
    return found;
}

/* Prompts that begin alike: the same, longer, shorter, another end. */
static void test_found(void **state)
{
    struct harness *h = *state;
    uint64_t left;
    harness_start(h);
    assert_true(h->engine->core.cache.state);
    assert_int_equal(both(h, 1, 150, "", 300, NULL), 0);
    uint64_t again = both(h, 1, 150, "", 40, &left);
    assert_true(again > 200 && left <= KV_BLOCK);
    both(h, 1, 150, " and then", 40, &left);
    assert_true(left <= 2 * KV_BLOCK + 12);
    uint64_t less = both(h, 1, 60, " or", 40, NULL);
    if (h->config.state_share > 1) assert_true(less > 60 && less < again);
    assert_true(less < again);
    check_blocks(h);
    assert_int_equal(both(h, 1, 150, "", 40, NULL), 0); /* all was evicted */
    check_blocks(h);
}

/* One pass over a whole prompt, as a GPU's, stores states up to its end. */
static void test_found_after_a_large_pass(void **state)
{
    struct harness *h = *state;
    uint64_t left;
    h->config.batch_tokens = 2048;
    harness_start(h);
    assert_int_equal(both(h, 1, 700, "", 10, &left), 0);
    assert_true(left > 40 * KV_BLOCK); /* more than those that a pass stores at distances */
    both(h, 1, 700, " and then", 10, &left);
    assert_true(left <= 2 * KV_BLOCK + 12);
    both(h, 1, 670, " or", 10, &left);
    assert_true(left <= 5 * KV_BLOCK);
}

/* States alone are evicted: a shorter hit, or none, and the same bits. */
static void test_evicted_states(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct kv_cache *c = &h->engine->core.cache;
    both(h, 3, 200, "", 30, NULL);
    uint64_t all = both(h, 3, 200, "", 30, NULL);
    for (uint32_t i = 0; i < 20; i++) {
        harness_hold(h);
        assert_true(prefix_state_evict(c->prefix, 1 + i % 5));
        prefix_check(c->prefix);
        harness_go(h);
        assert_true(both(h, 3, 200, i % 2 ? " more" : "", 30, NULL) <= all + KV_BLOCK);
    }
    harness_hold(h);
    prefix_state_evict(c->prefix, UINT32_MAX);
    harness_go(h);
    assert_int_equal(both(h, 3, 200, "", 30, NULL), 0);
    check_blocks(h);
}

/* With a pool of few states and blocks. */
static void test_small_pool(void **state)
{
    struct harness *h = *state;
    h->config.kv_bytes = 220000;
    h->config.ctx = 512;
    h->config.state_share = 5;
    h->config.parallel = 2;
    harness_start(h);
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < 6; i++) both(h, 10 + i, 40 + 20 * (i % 4), "", 40 + 30 * (i % 3), NULL);
    check_blocks(h);
}

/* Conversations of a session; each turn computes what is new and less than a block. Once more after restarts. */
static void test_conversation(void **state)
{
    struct harness *h = *state;
    uint64_t before = 0;
    harness_dirs(h);
    for (int round = 0; round < 3; round++) {
        harness_start(h);
        harness_wait_disk(h);
        for (unsigned turn = 0; turn < 5; turn++) {
            char text[256];
            harness_text(text, sizeof(text), 100 * (unsigned)round + turn, 20);
            struct proto_request r = harness_user("talk", text);
            r.gen.max_tokens = 50;
            r.gen.ignore_eos = true;
            struct answer *a = harness_run(h, &r);
            assert_done(a, PROTO_STOP_LENGTH);
            uint64_t computed = a->last.usage_prompt - a->last.usage_cached, new = a->last.usage_prompt - before;
            if (computed > new + KV_BLOCK)
                print_error("round %d, turn %u: %llu of %llu computed\n", round, turn, (unsigned long long)computed,
                            (unsigned long long)new);
            assert_true(computed <= new + KV_BLOCK);
            before = a->last.usage_prompt + a->last.usage_completion;
            harness_forget(h);
        }
        harness_stop(h);
    }
}

/* After a restart the states come from disk, and the bits are the same. */
static void test_restart(void **state)
{
    struct harness *h = *state;
    harness_dirs(h);
    for (int round = 0; round < 3; round++) {
        harness_start(h);
        harness_wait_disk(h);
        uint64_t found = both(h, 5, 250, "", 100, NULL), less = both(h, 5, 250, " or not", 20, NULL);
        assert_true(round ? found > 200 && less > 200 : !found);
        harness_stop(h);
    }
}

/* Calls @damage with a descriptor of each file of a state; or removes it, if that is NULL. Returns how many there were.
 */
static unsigned damage_states(struct harness *h, void (*damage)(int fd, off_t size))
{
    char dir[128];
    unsigned n = 0;
    snprintf(dir, sizeof(dir), "%s/states", h->cache_dir);
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) {
        struct stat st;
        int fd = e->d_name[0] == '.' ? -1 : openat(dirfd(d), e->d_name, O_RDWR);
        if (fd < 0) continue;
        assert_int_equal(fstat(fd, &st), 0);
        if (damage) damage(fd, st.st_size);
        close(fd);
        n++;
    }
    closedir(d);
    return n;
}

static void flip(int fd, off_t at)
{
    uint8_t byte;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
}

static void flip_state(int fd, off_t size)
{
    flip(fd, size - 1);
}

static void flip_identity(int fd, off_t size)
{
    (void)size;
    flip(fd, 16);
}

static void flip_token(int fd, off_t size)
{
    (void)size;
    flip(fd, 88);
}

static void tear(int fd, off_t size)
{
    assert_int_equal(ftruncate(fd, size / 2), 0);
}

static void tear_zero(int fd, off_t size)
{
    assert_int_equal(ftruncate(fd, size / 2), 0);
    assert_int_equal(ftruncate(fd, size), 0);
}

static void empty(int fd, off_t size)
{
    (void)size;
    assert_int_equal(ftruncate(fd, 0), 0);
}

/* Damaged files are ignored and removed; the bits are the same. States without their KV are removed at the start. */
static void test_damage(void **state)
{
    void (*const kinds[])(int, off_t) = {flip_state, flip_identity, flip_token, tear, tear_zero, empty};
    struct harness *h = *state;
    harness_dirs(h);
    for (unsigned i = 0; i <= sizeof(kinds) / sizeof(*kinds); i++) {
        harness_start(h);
        harness_wait_disk(h);
        uint64_t found = both(h, 5, 250, "", 40, NULL);
        assert_int_equal(found, 0);
        assert_true(both(h, 5, 250, "", 40, NULL) > 200);
        if (i) assert_true(harness_status(h, 0, "disk_damaged") > 0);
        harness_stop(h);
        if (i < sizeof(kinds) / sizeof(*kinds)) assert_true(damage_states(h, kinds[i]) > 0);
    }
    char command[256];
    assert_true(damage_states(h, NULL) > 0);
    snprintf(command, sizeof(command), "rm -f %s/*.kv", h->cache_dir);
    assert_int_equal(system(command), 0);
    harness_start(h);
    assert_int_equal(damage_states(h, NULL), 0);
}

/* Many at once, several answers each, with common beginnings and too little memory for all: they are preempted. */
static void test_together(void **state)
{
    struct harness *h = *state;
    uint64_t ids[2][6];
    h->config.kv_bytes = 400000;
    h->config.ctx = 1024;
    h->forgetful = true;
    harness_start(h);
    for (int k = 0; k < 2; k++) {
        harness_hold(h);
        h->engine->core.plan.config.quantum = 32; /* so that there is a preemption in any case */
        for (unsigned i = 0; i < 6; i++) {
            struct proto_request r = ask(30 + i % 2, 60, i % 3 ? " x" : " yes", 60 + 40 * i);
            r.gen.n = 1 + i % 4;
            r.gen.sampling.seed = 100 + i;
            ids[k][i] = harness_submit_as(h, 1 + i, 1000 + i % 2, &r);
            if (k == 0) continue;
            harness_go(h); /* alone */
            for (unsigned n = 0; n < 1 + i % 4; n++) assert_done(harness_wait(h, ids[k][i] + n), PROTO_STOP_LENGTH);
            harness_hold(h);
        }
        harness_go(h);
        for (unsigned i = 0; i < 6 && k == 0; i++)
            for (unsigned n = 0; n < 1 + i % 4; n++) assert_done(harness_wait(h, ids[k][i] + n), PROTO_STOP_LENGTH);
    }
    for (unsigned i = 0; i < 6; i++)
        for (unsigned n = 0; n < 1 + i % 4; n++) assert_same(&h->answers[ids[0][i] + n], &h->answers[ids[1][i] + n]);
    assert_true(harness_status(h, 0, "preemptions") > 0);
    check_blocks(h);
}

/* Proposes what follows the same token earlier, with errors. */
static uint32_t propose(void *ctx, struct seq *s, int32_t *out, float *chance, uint32_t max)
{
    const struct tokens *t = &s->prompt.tokens;
    unsigned *calls = ctx;
    uint32_t n = 1 + ++*calls % 11;
    const struct answer *a = *(const struct answer *const *)(calls + 2);
    if (n > max) n = max;
    for (uint32_t i = 0; i < n; i++) {
        size_t at = t->n - s->n_prompt + i;
        out[i] = at < a->n && (*calls + i) % 7 ? a->ids[at] : 5;
        chance[i] = 1;
    }
    return n;
}

/* Drafts whose tokens are accepted and refused at any place. */
static void test_drafts(void **state)
{
    struct harness *h = *state;
    harness_start(h);
    struct core *core = &h->engine->core;
    struct proto_request r = ask(40, 50, "", 400), s = ask(40, 50, "", 400);
    struct answer a = answer_take(harness_run(h, &r));
    struct {
        unsigned calls, pad;
        const struct answer *known;
    } ctx = {.known = &a};
    assert_done(&a, PROTO_STOP_LENGTH);
    harness_hold(h);
    core->drafter.propose = propose;
    core->drafter.ctx = &ctx;
    core->drafter.read = NULL;
    core->drafter.computed = NULL;
    core->drafter.accepted = NULL;
    core->drafter.always = true;
    harness_go(h);
    struct answer *b = harness_run(h, &s);
    assert_same(&a, b);
    assert_true(b->last.usage_drafted > 100 && b->last.usage_accepted > 50);
    assert_true(b->last.usage_accepted < b->last.usage_drafted);
    answer_fini(&a);
    check_blocks(h);
}

/* A context that shifts is computed anew; one that would rotate is refused. */
static void test_context(void **state)
{
    struct harness *h = *state;
    h->config.ctx = 256;
    harness_start(h);
    struct proto_request r = ask(50, 60, "", 500), s = ask(50, 60, "", 500), x = ask(50, 60, "", 500);
    r.gen.context = s.gen.context = PROTO_CONTEXT_SHIFT;
    x.gen.context = PROTO_CONTEXT_ROTATE;
    assert_int_equal(proto_text_set(&s.gen.salt, "s", 1), 0);
    struct answer a = answer_take(harness_run(h, &r));
    assert_done(&a, PROTO_STOP_LENGTH);
    assert_same(&a, harness_run(h, &s));
    assert_error(harness_run(h, &x), EOPNOTSUPP, "recurrent");
    answer_fini(&a);
    check_blocks(h);
}

/* Batches have no more slots than half of the states, but all that others have. */
static void test_slots_of_batches(void **state)
{
    struct harness *h = *state;
    static const uint32_t parallel[] = {1, 2, 4, 1000};
    h->config.kv_bytes = 400000;
    for (int i = 0; i < 4; i++) {
        h->config.parallel = parallel[i];
        harness_start(h);
        struct core *core = &h->engine->core;
        const struct sched_config *c = &core->plan.config;
        const uint32_t half = kv_pool_total(core->cache.pools[core->cache.state]) / 2;
        const uint32_t most = half > parallel[i] ? half : parallel[i];
        assert_true(half > 4);
        assert_int_equal(c->parallel, parallel[i]);
        assert_int_equal(c->parallel_batch, 4 * parallel[i] < most ? 4 * parallel[i] : most);
        assert_int_equal(c->parallel_most, 12 * parallel[i] < most ? 12 * parallel[i] : most);
        harness_stop(h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_found, setup, teardown),
        cmocka_unit_test_setup_teardown(test_found, setup_rare, teardown),
        cmocka_unit_test_setup_teardown(test_found_after_a_large_pass, setup, teardown),
        cmocka_unit_test_setup_teardown(test_evicted_states, setup, teardown),
        cmocka_unit_test_setup_teardown(test_evicted_states, setup_rare, teardown),
        cmocka_unit_test_setup_teardown(test_small_pool, setup, teardown),
        cmocka_unit_test_setup_teardown(test_conversation, setup, teardown),
        cmocka_unit_test_setup_teardown(test_conversation, setup_rare, teardown),
        cmocka_unit_test_setup_teardown(test_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restart, setup_rare, teardown),
        cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_together, setup, teardown),
        cmocka_unit_test_setup_teardown(test_together, setup_rare, teardown),
        cmocka_unit_test_setup_teardown(test_drafts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_drafts, setup_rare, teardown),
        cmocka_unit_test_setup_teardown(test_context, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slots_of_batches, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
