/* SPDX-License-Identifier: MIT */
/*
 * Random sequences of all operations on a prefix index, compared with the naive model: concurrent requests, evictions,
 * writes that end later or never, removed files, restarts. The naive model has numbers for items (coded.h). After each
 * step the test compares the results of all queries and adds up the pool's references.
 */
#include "daemon/cache/prefix/prefix-node.h"
#include "libcommon/error.h"
#include "tests/cache/prefix/coded.h"
#include "tests/cache/prefix/naive.h"
#include <assert.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h>

#define NAMESPACES 4
#define BLOCKS     26
#define FLIGHTS    4
#define PATTERNS   7
#define SEEDS      12
#define STEPS      700
#define LEARN      6 /* blocks */

static uint64_t seed, rnd_state;
static int step;

static uint32_t rnd(uint32_t n)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rnd_state >> 33) % n;
}

#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        if (!(x)) {                                                                                                    \
            print_error("seed %llu, step %d: %s\n", (unsigned long long)seed, step, #x);                               \
            fail();                                                                                                    \
        }                                                                                                              \
    } while (0)

/* An assert() in the index does not print the seed. */
static void on_abort(int sig)
{
    char line[64];
    int n = snprintf(line, sizeof(line), "seed %llu, step %d\n", (unsigned long long)seed, step);
    if (write(STDERR_FILENO, line, (size_t)n) < 0) _exit(2);
}

/* A sequence that is being computed: tokens[at] are in the index, up to the node with the reference. */
struct flight {
    bool live;
    uint32_t namespace, n, at;
    int32_t tokens[NAIVE_TOKENS];
    struct prefix_node *ref;
};

static struct fixture {
    struct kv_pool *pool;
    struct prefix *p;
    struct naive m;
    struct prefix_namespace namespaces[NAMESPACES];
    struct flight flights[FLIGHTS];
    struct prefix_node *ref[8]; /* further references */
    uint32_t kept[4];           /* blocks that a table refers to; KV_NO_BLOCK: none */
    prefix_hash_fn hash;
    bool runs;        /* most items are of runs */
    uint64_t foreign; /* the next id of a file that this process has not written */
} fixture;

static uint64_t hash_xxh3(const void *bytes, size_t len, uint64_t s)
{
    return XXH3_64bits_withSeed(bytes, len, s);
}

static uint64_t hash_one(const void *bytes, size_t len, uint64_t s)
{
    return 42;
}

static uint64_t hash_few(const void *bytes, size_t len, uint64_t s)
{
    uint64_t h = s;
    for (size_t i = 0; i < len; i++) h = h * 31 + ((const uint8_t *)bytes)[i];
    return h % 7;
}

/* --- tokens: a few blocks that share 0, 1, 16, 20 or 31 tokens --- */

/* A block with the end of a run, a run, and the beginning of a run that the next block may continue. */
static int32_t run_pattern(uint32_t which, uint32_t i)
{
    if (i < 8 && which == 3 && i > 0) return code_of(3, i - 1); /* another kind, another place */
    if (i < 8) return code_of(which == 4 ? 3 : 0, which == 5 ? 9 + i : 8 + i);
    if (i >= 8 && i < 20) return which == 2 && i >= 16 ? code_of(2, i - 16) : code_of(1, i - 8);
    if (i >= 24) return which == 1 && i == 31 ? 8 : code_of(0, i - 24);
    return which == 6 && i == 20 ? 14 : 7;
}

static int32_t pattern(uint32_t which, uint32_t i)
{
    if (fixture.runs) return run_pattern(which, i);
    static const uint32_t differs[PATTERNS] = {99, 31, 16, 1, 0, 0, 20};
    const int32_t base = which == 5 ? 3 : 7;
    return i == differs[which] ? base + 1 + (int32_t)which : base;
}

static uint32_t make_tokens(int32_t *tokens, uint32_t max)
{
    static const uint32_t ends[] = {1, 16, 20, 31}; /* where patterns begin to differ */
    uint32_t n = 1 + rnd(max), which = 0;
    if (rnd(3) == 0) n = (n - 1) / KV_BLOCK * KV_BLOCK + ends[rnd(4)];
    for (uint32_t i = 0; i < n; i++) {
        if (i % KV_BLOCK == 0) which = rnd(3) ? rnd(2) : rnd(PATTERNS);
        tokens[i] = pattern(which, i % KV_BLOCK);
    }
    return n;
}

static uid_t uid_of(uint32_t ns)
{
    return ns < NAIVE_UIDS ? ns : rnd(NAIVE_UIDS);
}

static struct place *any_place(void)
{
    return fixture.m.n ? &fixture.m.places[rnd(fixture.m.n)] : NULL;
}

/* Items @at to @n of the codes; valid until the next call. */
static struct items items_of(const int32_t *codes, uint32_t at, uint32_t n)
{
    static struct coded c;
    return items_from(coded_items(&c, codes, n), at);
}

/* The tokens of a node are codes[n]. */
static bool has_codes(const struct prefix_info *info, const int32_t *codes, uint32_t n)
{
    const struct items t = {.ids = info->tokens, .n = info->n, .runs = info->runs, .n_runs = info->n_runs};
    int32_t own[KV_BLOCK];
    coded_from(&t, own);
    return info->n >= n && memcmp(own, codes, n * sizeof(*codes)) == 0;
}

static struct place *place_of(const struct prefix_node *n)
{
    struct prefix_info info;
    prefix_info(n, &info);
    struct place *e = naive_by_id(&fixture.m, info.id);
    CHECK(e);
    return e;
}

/* --- comparison --- */

static void compare_places(void)
{
    uint32_t refs[BLOCKS] = {0}, evictable = 0;
    struct prefix_stats want[NAIVE_UIDS + 1] = {0}, got;
    for (uint32_t i = 0; i < fixture.m.n; i++) {
        const struct place *e = &fixture.m.places[i], *parent = naive_parent(&fixture.m, e);
        const struct prefix_node *node = prefix_by_id(fixture.p, e->id);
        CHECK(node);
        struct prefix_info info;
        prefix_info(node, &info);
        CHECK(memcmp(&info.namespace, &fixture.namespaces[e->namespace], sizeof(info.namespace)) == 0);
        CHECK(info.uid == e->uid && info.n == place_last(e) && info.block == e->block && info.on_disk == e->disk);
        CHECK(has_codes(&info, e->tokens + e->n - info.n, info.n));
        CHECK(node->uses == e->uses);
        CHECK(info.parent.high == (parent ? parent->id.high : 0) && info.parent.low == (parent ? parent->id.low : 0));
        CHECK(prefix_block(node) == e->block);
        CHECK(prefix_parent(node) == (parent ? prefix_by_id(fixture.p, parent->id) : NULL));
        if (e->block != KV_NO_BLOCK) {
            refs[e->block]++;
            evictable += !naive_pinned(&fixture.m, e);
        }
        for (uint32_t k = 0; k < 2; k++) {
            struct prefix_stats *s = &want[k ? NAIVE_UIDS : e->uid];
            s->nodes++;
            s->blocks_memory += e->block != KV_NO_BLOCK;
            s->blocks_disk += e->disk;
        }
    }
    for (uint32_t u = 0; u <= NAIVE_UIDS; u++) {
        if (u < NAIVE_UIDS) want[NAIVE_UIDS].evictions += want[u].evictions = fixture.m.evictions[u];
        prefix_stats_get(fixture.p, u < NAIVE_UIDS ? u : (uid_t)-1, &got);
        CHECK(got.nodes == want[u].nodes && got.blocks_memory == want[u].blocks_memory);
        CHECK(got.blocks_disk == want[u].blocks_disk && got.evictions == want[u].evictions);
    }
    CHECK(prefix_evictable(fixture.p) == evictable);
    uint32_t used = 0;
    for (uint32_t i = 0; i < 4; i++)
        if (fixture.kept[i] != KV_NO_BLOCK) refs[fixture.kept[i]]++;
    for (uint32_t b = 0; b < BLOCKS; b++) {
        CHECK(kv_pool_refs(fixture.pool, b) == refs[b]);
        used += refs[b] > 0;
    }
    CHECK(kv_pool_free_blocks(fixture.pool) == BLOCKS - used);
}

static void compare_find(void)
{
    int32_t tokens[NAIVE_TOKENS];
    const uint32_t n = make_tokens(tokens, NAIVE_TOKENS), ns = rnd(NAMESPACES);
    struct naive_match want;
    struct prefix_match got;
    naive_find(&fixture.m, ns, tokens, n, &want);
    prefix_find(fixture.p, &fixture.namespaces[ns], items_of(tokens, 0, n), &got);
    CHECK(got.n == want.n && got.n_partial == want.n_partial && got.n_disk == want.n_disk);
    const struct place *e = got.node ? place_of(got.node) : NULL;
    CHECK(!e == !got.n && (!e || (e->n == got.n && place_in_memory(e) && place_begins(e, ns, tokens, n))));
    CHECK(!got.partial == !got.n_partial && got.n_partial < KV_BLOCK);
    if (got.partial) {
        e = place_of(got.partial);
        CHECK(place_in_memory(e) && e->namespace == ns && e->n >= got.n + got.n_partial);
        CHECK(memcmp(e->tokens, tokens, (got.n + got.n_partial) * sizeof(*tokens)) == 0);
    }
    CHECK((got.miss == PREFIX_ALL) == want.all);
    if (want.surely_evicted) CHECK(got.miss == PREFIX_EVICTED);
    if (fixture.hash == hash_xxh3 && got.miss == PREFIX_EVICTED) CHECK(want.surely_evicted || want.maybe_evicted);

    /* prefix_child returns the nodes that n_disk counts. */
    uint32_t at = got.n, common;
    const struct prefix_node *node = got.node;
    for (;;) {
        struct prefix_node *child =
            prefix_child(fixture.p, &fixture.namespaces[ns], node, items_of(tokens, at, n), &common);
        CHECK(common == naive_child(&fixture.m, ns, tokens, at, n) && !child == !common);
        struct prefix_info info;
        if (child) prefix_info(child, &info);
        if (child) CHECK(prefix_parent(child) == node && has_codes(&info, tokens + at, common));
        at += common;
        if (common < KV_BLOCK) break;
        node = child;
    }
    CHECK(at == got.n + (got.n_disk ? got.n_disk : got.n_partial));
}

/* --- steps --- */

static bool leave(void *ctx, const struct prefix_info *info)
{
    struct place *e = naive_by_id(&fixture.m, info->id);
    CHECK(e && e->block == info->block && info->on_disk == e->disk && !e->writing);
    CHECK(kv_pool_refs(fixture.pool, info->block) > 0);
    CHECK(naive_victim(&fixture.m, e));
    const bool write = rnd(2);
    naive_evict(&fixture.m, e, write && !e->disk);
    naive_tidy(&fixture.m);
    (*(uint32_t *)ctx)++;
    return write;
}

/* Evicts one by one: the callback is not called for a node that is being written, so that the model finds it only by
 * the missing block. */
static void evict(uint32_t blocks)
{
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t told = 0, leaves = 0;
        for (uint32_t k = 0; k < fixture.m.n; k++) leaves += naive_leaf(&fixture.m, &fixture.m.places[k]);
        const uint32_t gone = prefix_evict(fixture.p, 1, leave, &told);
        CHECK(gone == (leaves > 0));
        if (!gone) return;
        if (told) continue;
        struct place *victim = NULL;
        for (uint32_t k = 0; k < fixture.m.n; k++) {
            struct place *e = &fixture.m.places[k];
            const struct prefix_node *n = prefix_by_id(fixture.p, e->id);
            CHECK(n);
            if (e->block == n->block) continue;
            CHECK(!victim && e->writing);
            victim = e;
        }
        CHECK(victim && naive_victim(&fixture.m, victim));
        naive_evict(&fixture.m, victim, true);
        naive_tidy(&fixture.m);
    }
}

/* True: the place was evicted, as far as the hash can tell; a colliding hash cannot. */
static bool was_evicted(const struct place *e)
{
    bool found = fixture.hash != hash_xxh3;
    for (uint32_t i = 0; i < fixture.m.n_ghosts; i++)
        found |= fixture.m.ghosts[i].namespace == e->namespace && fixture.m.ghosts[i].n == e->n &&
                 memcmp(fixture.m.ghosts[i].tokens, e->tokens, e->n * sizeof(*e->tokens)) == 0;
    return found;
}

static void drop_ref(struct prefix_node *n)
{
    struct place *e = place_of(n);
    CHECK(e->refs > 0);
    e->refs--;
    naive_tidy(&fixture.m);
    prefix_unref(fixture.p, n);
}

static void take_ref(struct prefix_node *n)
{
    place_of(n)->refs++;
    prefix_ref(fixture.p, n);
}

static void flight_end(struct flight *f)
{
    if (f->ref) {
        if (rnd(2)) {
            naive_touch(&fixture.m, place_of(f->ref), false);
            prefix_touch(fixture.p, f->ref);
        }
        drop_ref(f->ref);
    }
    *f = (struct flight){0};
}

static void flight_start(struct flight *f)
{
    struct prefix_match match;
    f->live = true;
    f->namespace = rnd(NAMESPACES);
    f->n = make_tokens(f->tokens, NAIVE_TOKENS);
    prefix_find(fixture.p, &fixture.namespaces[f->namespace], items_of(f->tokens, 0, f->n), &match);
    f->at = match.n;
    f->ref = match.node;
    if (!f->ref) return;
    take_ref(f->ref);
    naive_touch(&fixture.m, place_of(f->ref), true);
    prefix_use(fixture.p, f->ref);
}

/* Adds the next full block, or the partial one at the end. */
static void flight_step(struct flight *f)
{
    uint32_t block;
    if (f->at == f->n) {
        flight_end(f);
        return;
    }
    if (kv_pool_take(fixture.pool, &block) < 0) {
        evict(1 + rnd(3));
        if (kv_pool_take(fixture.pool, &block) < 0) {
            flight_end(f);
            return;
        }
    }
    const uint32_t n = f->n - f->at < KV_BLOCK ? f->n - f->at : KV_BLOCK, to = f->at + n;
    struct place *e = naive_covering(&fixture.m, f->namespace, f->tokens, to);
    const bool known = naive_at(&fixture.m, f->namespace, f->tokens, to) != NULL;
    const uid_t uid = uid_of(f->namespace);
    struct prefix_node *node = NULL;
    struct prefix_info info;
    const int r = prefix_add(fixture.p, &fixture.namespaces[f->namespace], f->ref, items_of(f->tokens, f->at, to),
                             block, uid, &node);
    CHECK(r == (e != NULL));
    prefix_info(node, &info);
    if (e) {
        e = place_of(node);
        CHECK(place_in_memory(e) && e->n >= to && memcmp(e->tokens, f->tokens, to * sizeof(*f->tokens)) == 0);
        CHECK(e->n == to || !naive_at(&fixture.m, f->namespace, f->tokens, to) ||
              !place_in_memory(naive_at(&fixture.m, f->namespace, f->tokens, to)));
        naive_add_use(&fixture.m, e);
    } else {
        e = naive_enter(&fixture.m, f->namespace, f->tokens, to, block, uid);
        if (!known) {
            CHECK(!naive_by_id(&fixture.m, info.id));
            e->id = info.id;
            e->uses = node->uses; /* includes the uses before an eviction, as far as the index remembers */
            CHECK(e->uses == 1 || (place_last(e) == KV_BLOCK && was_evicted(e)));
        }
        CHECK(e->id.high == info.id.high && e->id.low == info.id.low);
        naive_tidy(&fixture.m);
    }
    take_ref(node);
    if (f->ref) drop_ref(f->ref);
    f->ref = node;
    f->at = to;
    uint32_t *keep = &fixture.kept[rnd(4)];
    if (*keep == KV_NO_BLOCK && !rnd(4))
        *keep = block;
    else
        kv_pool_unref(fixture.pool, block);
    if (n < KV_BLOCK) flight_end(f);
}

static void ref_or_unref(void)
{
    struct prefix_node **h = &fixture.ref[rnd(8)];
    struct place *e = any_place();
    if (*h) {
        drop_ref(*h);
        *h = NULL;
    } else if (e) {
        *h = prefix_by_id(fixture.p, e->id);
        take_ref(*h);
    }
}

/* The first info->n of the codes; valid until the next call of items_of. */
static void set_tokens(struct prefix_info *info, const int32_t *codes)
{
    const struct items t = items_of(codes, 0, info->n);
    memcpy(info->tokens, t.ids, t.n * sizeof(*t.ids));
    info->runs = t.runs;
    info->n_runs = t.n_runs;
}

static void adopt(void)
{
    struct prefix_info info = {.id = {1, ++fixture.foreign}, .uid = rnd(NAIVE_UIDS), .block = 0};
    struct place *parent = rnd(4) ? any_place() : NULL;
    uint32_t ns = rnd(NAMESPACES), at = 0;
    int32_t tokens[NAIVE_TOKENS], all[NAIVE_TOKENS];
    int want = 0;
    if (parent) {
        info.parent = parent->id;
        at = parent->n;
        memcpy(all, parent->tokens, at * sizeof(*all));
        if (parent->n % KV_BLOCK || (rnd(8) && parent->namespace != ns)) {
            if (parent->n % KV_BLOCK) want = -EBADMSG;
            ns = parent->namespace;
        }
        if (parent->namespace != ns) want = -EBADMSG;
    }
    if (at + KV_BLOCK > NAIVE_TOKENS) return;
    info.namespace = fixture.namespaces[ns];
    info.n = make_tokens(tokens, KV_BLOCK);
    if (rnd(2)) info.n = KV_BLOCK;
    for (uint32_t i = 0, which = rnd(PATTERNS); i < info.n; i++) all[at + i] = pattern(which, i);
    set_tokens(&info, all + at);
    if (!rnd(16)) info.parent = (struct prefix_id){1, UINT64_MAX}, want = 1;
    if (want == 0 && naive_at(&fixture.m, ns, all, at + info.n)) want = -EEXIST;
    if (!rnd(16)) info.n = rnd(2) ? 0 : KV_BLOCK + 1, want = -EBADMSG;
    const struct place *other = rnd(16) ? NULL : any_place();
    if (other && want != -EBADMSG) info.id = other->id, want = -EEXIST;
    CHECK(prefix_disk_add(fixture.p, &info) == want);
    if (want) return;
    struct place *e = &fixture.m.places[fixture.m.n++];
    *e = (struct place){.namespace = ns, .n = at + info.n, .id = info.id, .uid = info.uid, .block = KV_NO_BLOCK};
    memcpy(e->tokens, all, e->n * sizeof(*all));
    e->disk = true;
    e->uses = 1;
    e->used = ++fixture.m.clock;
}

static void to_write(void)
{
    const bool newest = rnd(2);
    const uint64_t young = rnd(2) ? rnd(40) : 0;
    struct prefix_info info;
    uint64_t best = 0;
    bool any = false;
    for (uint32_t i = 0; i < fixture.m.n; i++) {
        const struct place *e = &fixture.m.places[i];
        if (!naive_writable(&fixture.m, e) || e->used + young > fixture.m.clock) continue;
        if (!any || (newest ? e->used > best : e->used < best)) best = e->used;
        any = true;
    }
    CHECK(prefix_disk_begin_write(fixture.p, newest, young, &info) == any);
    if (!any) return;
    struct place *e = naive_by_id(&fixture.m, info.id);
    CHECK(e && naive_writable(&fixture.m, e) && e->used == best && info.block == e->block);
    e->writing = true;
}

static void end_write(void)
{
    struct place *e = any_place();
    const struct prefix_id nobody = {7, 7};
    if (!e) return;
    if (!rnd(10)) {
        prefix_disk_written(fixture.p, nobody);
        prefix_disk_write_failed(fixture.p, nobody);
        prefix_disk_removed(fixture.p, nobody);
        prefix_mark_tail(fixture.p, nobody, true);
        return;
    }
    for (uint32_t i = 0; i < 8 && !e->writing; i++) e = any_place();
    if (!e->writing) return;
    const struct prefix_id id = e->id;
    e->writing = false;
    if (rnd(4)) {
        e->disk = true;
        prefix_disk_written(fixture.p, id);
    } else {
        prefix_disk_write_failed(fixture.p, id);
    }
    naive_tidy(&fixture.m);
}

static void lose(void)
{
    struct prefix_info info;
    struct place *e = any_place();
    bool any = false;
    uint64_t oldest = UINT64_MAX;
    for (uint32_t i = 0; i < fixture.m.n; i++) {
        if (!naive_disk_leaf(&fixture.m, &fixture.m.places[i])) continue;
        any = true;
        if (fixture.m.places[i].used < oldest) oldest = fixture.m.places[i].used;
    }
    CHECK(prefix_disk_victim(fixture.p, &info) == any);
    if (any) {
        struct place *v = naive_by_id(&fixture.m, info.id);
        CHECK(v && naive_disk_leaf(&fixture.m, v) && v->used == oldest);
        if (rnd(3)) e = v; /* else any file, or none, is removed */
    }
    if (!e) return;
    const struct prefix_id id = e->id;
    naive_disk_removed(&fixture.m, e);
    naive_tidy(&fixture.m);
    prefix_disk_removed(fixture.p, id);
}

static void mark(void)
{
    struct place *e = any_place();
    if (!e) return;
    const struct prefix_id id = e->id;
    const bool tail = rnd(2);
    if (tail)
        e->tails++;
    else if (e->tails)
        e->tails--;
    naive_tidy(&fixture.m);
    prefix_mark_tail(fixture.p, id, tail);
}

static void touch(void)
{
    struct place *e = any_place();
    if (!e) return;
    naive_touch(&fixture.m, e, false);
    prefix_touch(fixture.p, prefix_by_id(fixture.p, e->id));
}

static uint32_t rank(uid_t uid, uint32_t uses, uint64_t age)
{
    const struct prefix_owner *o = prefix_owner_find(fixture.p, uid);
    uint32_t i = 0;
    CHECK(o);
    if (!o->score) return 0;
    while (o->score->order[i].class != eviction_score_class(uses) || o->score->order[i].age != eviction_score_age(age))
        i++;
    return i;
}

/* Makes an empty index and model. LEARN blocks are enough for scores, from the first use on. */
static void begin(void)
{
    fixture.m = (struct naive){.rank = rank};
    assert_int_equal(prefix_new(&fixture.p, fixture.pool, fixture.hash), 0);
    fixture.p->learn_from = LEARN;
}

/* So few uses give no scores: shuffles the order, which the index must follow. */
static void learn_anything(void)
{
    for (uid_t uid = 0; uid < NAIVE_UIDS; uid++) {
        const struct prefix_owner *o = prefix_owner_find(fixture.p, uid);
        for (uint32_t i = SCORE_CELLS; o && o->score && i-- > 1;) {
            const uint32_t k = rnd(i + 1);
            const struct eviction_score_cell x = o->score->order[i];
            o->score->order[i] = o->score->order[k];
            o->score->order[k] = x;
        }
    }
}

static void end_all(void)
{
    for (uint32_t i = 0; i < FLIGHTS; i++) flight_end(&fixture.flights[i]);
    for (uint32_t i = 0; i < 8; i++) {
        if (fixture.ref[i]) drop_ref(fixture.ref[i]);
        fixture.ref[i] = NULL;
    }
}

/* Restart: files are added in any order; a file without its parent is not added. */
static void restart(void)
{
    static struct naive old;
    end_all();
    fixture.p = prefix_free(fixture.p);
    old = fixture.m;
    begin();
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 0; i < old.n; i++) {
            struct place *e = &old.places[i], *parent = naive_parent(&old, e);
            if (!e->disk) continue;
            struct prefix_info info = {
                .id = e->id, .namespace = fixture.namespaces[e->namespace], .uid = e->uid, .n = place_last(e)};
            set_tokens(&info, e->tokens + e->n - info.n);
            if (parent) info.parent = parent->id;
            const bool known = !parent || naive_by_id(&fixture.m, parent->id);
            CHECK(prefix_disk_add(fixture.p, &info) == (known ? 0 : 1));
            if (!known) continue;
            struct place *now = &fixture.m.places[fixture.m.n++];
            *now = *e;
            now->block = KV_NO_BLOCK;
            now->writing = false;
            now->tails = 0;
            now->uses = 1;
            now->used = ++fixture.m.clock;
            e->disk = false;
            more = true;
        }
    }
}

static void random_step(void)
{
    struct flight *f = &fixture.flights[rnd(FLIGHTS)];
    uint32_t *kept = &fixture.kept[rnd(4)];
    switch (rnd(16)) {
    case 0:
        if (!rnd(3)) learn_anything();
        evict(1 + rnd(4));
        break;
    case 1:
        ref_or_unref();
        break;
    case 2:
        if (rnd(4) == 0 && fixture.m.n < 60) adopt();
        break;
    case 3:
        to_write();
        break;
    case 4:
    case 5:
        end_write();
        break;
    case 6:
        lose();
        break;
    case 7:
        mark();
        break;
    case 8:
        touch();
        break;
    case 9:
        if (*kept != KV_NO_BLOCK) kv_pool_unref(fixture.pool, *kept);
        *kept = KV_NO_BLOCK;
        break;
    case 10:
        if (rnd(20) == 0) restart();
        break;
    default:
        if (f->live)
            flight_step(f);
        else
            flight_start(f);
    }
}

static void run(uint64_t with_seed, prefix_hash_fn hash)
{
    fixture = (struct fixture){.hash = hash, .runs = with_seed % 2};
    rnd_state = seed = with_seed;
    for (uint32_t i = 0; i < NAMESPACES; i++) fixture.namespaces[i].bytes[i] = 1;
    for (uint32_t i = 0; i < 4; i++) fixture.kept[i] = KV_NO_BLOCK;
    assert_int_equal(kv_pool_new(&fixture.pool, BLOCKS), 0);
    begin();
    for (step = 0; step < STEPS; step++) {
        random_step();
        prefix_check(fixture.p);
        compare_places();
        compare_find();
    }
    end_all();
    for (uint32_t i = 0; i < 4; i++)
        if (fixture.kept[i] != KV_NO_BLOCK) kv_pool_unref(fixture.pool, fixture.kept[i]);
    prefix_free(fixture.p);
    kv_pool_free(fixture.pool); /* asserts that no block has a reference */
}

static void test_with_xxh3(void **state)
{
    for (uint64_t s = 1; s <= SEEDS; s++) run(s, hash_xxh3);
}

static void test_with_a_hash_that_always_collides(void **state)
{
    for (uint64_t s = 101; s <= 100 + SEEDS; s++) run(s, hash_one);
}

static void test_with_a_hash_of_seven_values(void **state)
{
    for (uint64_t s = 201; s <= 200 + SEEDS; s++) run(s, hash_few);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_with_xxh3),
        cmocka_unit_test(test_with_a_hash_that_always_collides),
        cmocka_unit_test(test_with_a_hash_of_seven_values),
    };
    signal(SIGABRT, on_abort);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
