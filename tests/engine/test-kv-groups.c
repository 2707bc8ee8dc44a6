/* SPDX-License-Identifier: MIT */
/* A model with two KV groups, one of them windowed and trimmed: its answers are bit for bit those of the same model
 * with one group, whatever is found, evicted, preempted or read from disk, and the windowed blocks in use stay few. */
#include "daemon/engine/state.h"
#include "tests/engine/harness.h"
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#define WINDOW 70 /* of gemma3 and gemma4 in tiny-arch*.c */

/* The same model twice: in one group, and in two. */
struct pair {
    struct harness one, two;
    uint64_t block; /* bytes, in all layers of one group */
};

static int setup_of(void **state, const char *arch, uint64_t block)
{
    struct pair *p = calloc(1, sizeof(*p));
    struct harness *all[] = {&p->one, &p->two};
    struct tiny t;
    tiny_init(&t);
    t.arch = arch;
    t.ctx = 2048;
    for (int i = 0; i < 2; i++) {
        harness_init(all[i], &t);
        all[i]->config.kv_bytes = 300 * block;
        all[i]->config.batch_tokens = 64;
        all[i]->config.one_group = i == 0;
    }
    p->block = block;
    *state = p;
    return 0;
}

static int setup(void **state)
{
    return setup_of(state, "gemma3", 2u * 7 * 2 * 24 * 2 * KV_BLOCK);
}

/* The last layers use the KV of others. KV has two sizes; in one group it takes the larger one in all layers. */
static int setup_gemma4(void **state)
{
    return setup_of(state, "gemma4", 2u * 5 * 2 * 32 * 2 * KV_BLOCK);
}

static int teardown(void **state)
{
    struct pair *p = *state;
    harness_fini(&p->one);
    harness_fini(&p->two);
    free(p);
    return 0;
}

static void start(struct pair *p)
{
    harness_start(&p->one);
    harness_start(&p->two);
    assert_int_equal(p->one.engine->core.cache.n_groups, 1);
    assert_int_equal(p->two.engine->core.cache.n_groups, 2);
}

/* Blocks of the windowed group that sequences hold now. In harness_hold. */
static uint32_t held(const struct core *core)
{
    uint32_t n = 0;
    for (const struct seq *s = core->seqs.head; s; s = s->next)
        for (uint32_t i = 0; i < s->kv.tables[1].n_blocks; i++) n += s->kv.tables[1].ids[i] != KV_NO_BLOCK;
    return n;
}

/* No answer runs: the index is sound, and all blocks are free after everything is evicted. */
static void check_blocks(struct harness *h)
{
    struct core *core = &h->engine->core;
    struct kv_cache *c = &core->cache;
    harness_hold(h);
    prefix_check(c->prefix);
    for (uint32_t g = 0; g < c->n_groups; g++) {
        assert_true(kv_cache_make_room(c, g, kv_pool_total(c->pools[g])));
        prefix_check(c->prefix);
    }
    harness_go(h);
}

static void text(char *out, size_t size, unsigned seed, unsigned words)
{
    size_t n = 0;
    harness_seed = seed;
    for (unsigned i = 0; i < words && n + 10 < size; i++)
        n += (size_t)snprintf(out + n, size - n, " %s", harness_word());
}

static struct proto_request ask(unsigned seed, unsigned words, const char *tail, unsigned tokens)
{
    char doc[8192];
    text(doc, sizeof(doc) - 64, seed, words);
    strcat(doc, tail);
    struct proto_request r = harness_raw(doc);
    r.gen.sampling.temperature = 1;
    r.gen.sampling.seed = 7;
    r.gen.max_tokens = tokens;
    r.gen.ignore_eos = true;
    return r;
}

/* The same request to both. Returns how much the second found. */
static uint64_t both(struct pair *p, unsigned seed, unsigned words, const char *tail, unsigned tokens)
{
    struct proto_request r = ask(seed, words, tail, tokens), s = ask(seed, words, tail, tokens);
    struct answer *a = harness_run(&p->one, &r), *b = harness_run(&p->two, &s);
    assert_done(a, PROTO_STOP_LENGTH);
    assert_done(b, PROTO_STOP_LENGTH);
    assert_same(a, b);
    uint64_t found = b->last.usage_cached;
    if (!p->two.cache_dir[0]) assert_true(found <= a->last.usage_cached); /* files have other names */
    harness_forget(&p->one);
    harness_forget(&p->two);
    return found;
}

/* A long answer, found again with a longer prompt and a shorter one. */
static void test_found(void **state)
{
    struct pair *p = *state;
    start(p);
    assert_int_equal(both(p, 1, 150, "", 700), 0);
    uint64_t again = both(p, 1, 150, "", 40);
    assert_true(again > 200); /* to the token */
    assert_true(both(p, 1, 150, " and then", 40) + 12 > again);
    /* Where nothing ended, the first hit is lost with the windowed blocks, and later ones are not. */
    uint64_t less = both(p, 1, 60, " or", 40);
    assert_true(less < 100);
    less = both(p, 1, 60, " if", 40);
    assert_true(less > 60 && less < again);
    check_blocks(&p->two);
    assert_int_equal(both(p, 1, 150, "", 40), 0); /* all was evicted */
    check_blocks(&p->two);
}

/* The windowed blocks in use stay few while the answer grows, and the others do not. */
static void test_trimmed(void **state)
{
    struct pair *p = *state;
    start(p);
    struct core *core = &p->two.engine->core;
    const uint32_t most = (WINDOW + 64) / KV_BLOCK + 2;
    struct proto_request r = ask(2, 100, "", 1200), s = ask(2, 100, "", 1200);
    uint64_t id = harness_submit(&p->two, &s);
    uint32_t last = 0, looks = 0;
    for (unsigned texts = 1; texts < 1000; texts += 150) {
        harness_wait_texts(&p->two, id, texts);
        harness_hold(&p->two);
        struct seq *q = core->seqs.head;
        if (q && q->state == SEQ_RUNNING) {
            assert_true(q->kv.n_tokens >= last);
            last = q->kv.n_tokens;
            assert_int_equal(q->kv.tables[0].n_blocks, seq_blocks(q));
            assert_in_range(held(core), 1, most);
            if (last > 400) assert_int_equal(q->kv.tables[1].ids[(last - WINDOW) / KV_BLOCK - 5], KV_NO_BLOCK);
            prefix_check(core->cache.prefix);
            looks++;
        }
        harness_go(&p->two);
    }
    assert_true(looks > 0);
    assert_same(harness_run(&p->one, &r), harness_wait(&p->two, id));
    check_blocks(&p->two);
}

/* Windowed blocks of the end of a prompt are evicted: a shorter hit, or none, and the same bits. */
static void test_evicted_window(void **state)
{
    struct pair *p = *state;
    start(p);
    struct core *core = &p->two.engine->core;
    both(p, 3, 200, "", 30);
    uint64_t all = both(p, 3, 200, "", 30), found = all;
    for (int i = 0; i < 30; i++) {
        harness_hold(&p->two);
        uint32_t n = prefix_window_evict(core->cache.prefix, 1, 1 + (uint32_t)i % 4, NULL, NULL);
        prefix_check(core->cache.prefix);
        harness_go(&p->two);
        assert_true(n > 0);
        found = both(p, 3, 200, i % 2 ? " more" : "", 30);
        assert_true(found <= all + 10);
    }
    harness_hold(&p->two);
    prefix_window_evict(core->cache.prefix, 1, UINT32_MAX, NULL, NULL);
    harness_go(&p->two);
    assert_int_equal(both(p, 3, 200, "", 30), 0);
    /* A last block that is not whole is not indexed again beside a longer one. */
    assert_true(both(p, 3, 200, "", 30) + KV_BLOCK > all);
    check_blocks(&p->two);
}

/* A pool that holds a few of many prompts. */
static void test_eviction(void **state)
{
    struct pair *p = *state;
    p->one.config.kv_bytes = p->two.config.kv_bytes = 60 * p->block;
    start(p);
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < 8; i++) both(p, 10 + i, 60 + 20 * (i % 4), "", 60 + 30 * (i % 3));
    check_blocks(&p->two);
}

/* Many at once, several answers each, with common beginnings and too little memory for all: they are preempted. */
static void test_together(void **state)
{
    struct pair *p = *state;
    struct harness *all[] = {&p->one, &p->two};
    uint64_t ids[2][6];
    p->one.config.kv_bytes = p->two.config.kv_bytes = 40 * p->block;
    p->one.forgetful = p->two.forgetful = true;
    start(p);
    for (int k = 0; k < 2; k++) {
        harness_hold(all[k]);
        all[k]->engine->core.plan.config.quantum = 32; /* so that there is a preemption in any case */
        for (unsigned i = 0; i < 6; i++) {
            struct proto_request r = ask(30 + i % 2, 60, i % 3 ? " x" : " yes", 100 + 60 * i);
            r.gen.n = 1 + i % 4;
            r.gen.sampling.seed = 100 + i;
            ids[k][i] = harness_submit_as(all[k], 1 + i, 1000 + i % 2, &r);
        }
        harness_go(all[k]);
        for (unsigned i = 0; i < 6; i++)
            for (unsigned n = 0; n < 1 + i % 4; n++)
                assert_done(harness_wait(all[k], ids[k][i] + n), PROTO_STOP_LENGTH);
    }
    for (unsigned i = 0; i < 6; i++)
        for (unsigned n = 0; n < 1 + i % 4; n++)
            assert_same(&p->one.answers[ids[0][i] + n], &p->two.answers[ids[1][i] + n]);
    assert_true(harness_status(&p->two, 0, "preemptions") > 0);
    check_blocks(&p->two);
}

/* Sessions, and all of it again after a restart from disk. */
static void test_restart(void **state)
{
    struct pair *p = *state;
    struct harness *all[] = {&p->one, &p->two};
    for (int k = 0; k < 2; k++) harness_dirs(all[k]);
    for (int round = 0; round < 3; round++) {
        start(p);
        for (int k = 0; k < 2; k++) harness_wait_disk(all[k]);
        uint64_t found = both(p, 5, 250, "", 300);
        assert_true(round ? found > 300 : !found);
        for (unsigned i = 0; i < 2; i++) {
            struct proto_request r = harness_user("talk", i ? "Go on." : harness_story);
            struct proto_request s = harness_user("talk", i ? "Go on." : harness_story);
            r.gen.max_tokens = s.gen.max_tokens = 90;
            struct answer *a = harness_run(&p->one, &r), *b = harness_run(&p->two, &s);
            assert_same(a, b);
            if (round || i) assert_true(b->last.usage_cached > 50);
        }
        for (int k = 0; k < 2; k++) harness_stop(all[k]);
    }
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Removes every @nth file of a block. */
static void remove_files(const char *dir, int nth)
{
    struct dirent **names;
    int n = scandir(dir, &names, NULL, by_name);
    assert_true(n > 10);
    for (int i = 0; i < n; free(names[i++])) {
        char path[512];
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
        if (i % nth == 0 && strstr(names[i]->d_name, ".kv")) assert_int_equal(unlink(path), 0);
    }
    free(names);
}

/* Files of a long chain are missing, some when the daemon starts and some when it reads them. */
static void test_lost_files(void **state)
{
    struct pair *p = *state;
    struct harness *all[] = {&p->one, &p->two};
    for (int k = 0; k < 2; k++) harness_dirs(all[k]);
    for (int round = 0; round < 6; round++) {
        start(p);
        for (int k = 0; k < 2; k++) harness_wait_disk(all[k]);
        if (round > 2) /* the index has been made */
            for (int k = 0; k < 2; k++) remove_files(all[k]->cache_dir, 23 - 3 * round);
        uint64_t found = both(p, 6, 300, "", 400);
        assert_true(round != 1 || found > 500);
        both(p, 6, 300, " and then more of it", 50);
        harness_hold(&p->two);
        prefix_check(p->two.engine->core.cache.prefix);
        harness_go(&p->two);
        for (int k = 0; k < 2; k++) harness_stop(all[k]);
        if (round == 1)
            for (int k = 0; k < 2; k++) remove_files(all[k]->cache_dir, 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_found, setup, teardown),
        cmocka_unit_test_setup_teardown(test_trimmed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_evicted_window, setup, teardown),
        cmocka_unit_test_setup_teardown(test_eviction, setup, teardown),
        cmocka_unit_test_setup_teardown(test_together, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_found, setup_gemma4, teardown),
        cmocka_unit_test_setup_teardown(test_trimmed, setup_gemma4, teardown),
        cmocka_unit_test_setup_teardown(test_together, setup_gemma4, teardown),
        cmocka_unit_test_setup_teardown(test_restart, setup_gemma4, teardown),
        cmocka_unit_test_setup_teardown(test_lost_files, setup_gemma4, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
