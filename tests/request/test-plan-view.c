/* SPDX-License-Identifier: MIT */
/* The plan is kept up to date by events. Here many come in random order, and each time the scheduler is called, its
 * state must be the one that is gathered anew from all sequences. */
#include "daemon/engine/state.h"
#include "daemon/request/request.h"
#include "tests/engine/harness.h"
#include <poll.h>
#include <unistd.h>

#define ROUNDS      8
#define ROUNDS_MOST 80 /* a slow machine needs more to meet every kind */
#define TURNS       160
#define CONNS       6
#define USERS       5
#define MOST        512 /* sequences at once */

/* --- a state gathered anew --- */

struct gathered {
    struct seq *seqs[MOST];
    struct sched_req reqs[MOST];
    struct user *users[USERS + 1];
    uint32_t n, n_users, n_queued, n_ready;
    uint32_t group; /* of KV */
};

static uint32_t user_of(struct gathered *g, struct user *u)
{
    for (uint32_t i = 0; i < g->n_users; i++)
        if (g->users[i] == u) return i;
    g->users[g->n_users] = u;
    return g->n_users++;
}

static enum sched_class class_of(const struct proto_request *p)
{
    enum proto_priority x = p->gen.priority;
    if (x == PROTO_PRIORITY_INFILL || (x == PROTO_PRIORITY_UNSET && p->type == PROTO_INFILL)) return SCHED_CLASS_INFILL;
    return x == PROTO_PRIORITY_BATCH ? SCHED_CLASS_BATCH : SCHED_CLASS_INTERACTIVE;
}

/* Cached tokens of one that waits: at least those that the sequence has which it waits for, and not the last one. */
static uint32_t cached(const struct seq *s)
{
    uint32_t n = s->sched.found, last = seq_known(s) - 1;
    if (s->sched.with && s->sched.with->reuse.indexed > n)
        n = s->sched.with->reuse.indexed < s->sched.with_n ? s->sched.with->reuse.indexed : s->sched.with_n;
    return n < last ? n : last;
}

static uint32_t blocks_of(const struct core *core, const struct seq *s, uint32_t group)
{
    uint32_t held = s->kv.tables[group].n_blocks, most;
    bool waits = s->state == SEQ_WAITING;
    if (group == 0) return waits ? seq_blocks(s) - reuse_shared(s) : held;
    most = seq_group_blocks(s, &core->cache.backend->hparams.groups[group]);
    return waits || held > most ? most : held;
}

static uint32_t free_blocks(const struct core *core, uint32_t group)
{
    if (group == 0) return kv_pool_free_blocks(core->cache.pools[0]) + prefix_evictable(core->cache.prefix);
    uint32_t held = 0, all = kv_pool_total(core->cache.pools[group]);
    for (const struct seq *s = core->seqs.head; s; s = s->next)
        if (s->kv.tables[group].n_blocks) held += blocks_of(core, s, group);
    return held < all ? all - held : 0;
}

/* The group with the smallest share of free blocks. */
static uint32_t tightest(const struct core *core)
{
    double least = 2;
    uint32_t best = 0;
    for (uint32_t i = 0; i < core->cache.n_groups; i++) {
        double share = (double)free_blocks(core, i) / kv_pool_total(core->cache.pools[i]);
        if (share >= least) continue;
        least = share;
        best = i;
    }
    return best;
}

static void gather(const struct core *core, struct gathered *g)
{
    *g = (struct gathered){.group = tightest(core)};
    for (struct seq *s = core->seqs.head; s; s = s->next) {
        const struct request_control *c = &s->request->control;
        bool waits = s->state == SEQ_WAITING;
        if (s->state > SEQ_RUNNING) continue;
        g->n_queued += waits && !s->times.admitted && !c->internal;
        g->n_ready += s->state == SEQ_RUNNING && !c->paused;
        g->reqs[g->n] = (struct sched_req){
            .arrival = s->sched.arrival,
            .last_step = s->sched.last_step,
            .since = s->sched.since,
            .paused_ms = c->paused ? s->sched.paused_at / 1000 : 0,
            .user = user_of(g, s->request->user),
            .computed = waits                      ? cached(s)
                        : s->state == SEQ_FETCHING ? seq_known(s)
                                                   : s->kv.n_tokens,
            .known = seq_known(s),
            .spent = s->sched.spent,
            .redone = s->sched.redone,
            .draft = s->speculation.n_draft,
            .chance = s->speculation.guessed ? s->speculation.chance : NULL,
            .blocks = blocks_of(core, s, g->group),
            .group = SCHED_NONE,
            .class = class_of(&s->request->proto),
            .running = !waits,
            .decoding = s->generated,
            .paused = c->paused,
        };
        g->seqs[g->n++] = s;
    }
}

static uint32_t index_of(const struct gathered *g, const struct seq *s)
{
    uint32_t i = 0;
    while (i < g->n && g->seqs[i] != s) i++;
    return i;
}

static void find_groups(struct gathered *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const struct seq *s = g->seqs[i];
        uint32_t t = s->sched.with ? index_of(g, s->sched.with) : g->n;
        struct sched_req *mine = &g->reqs[i], *its = &g->reqs[t];
        if (t == g->n || s->sched.with_n <= mine->computed) continue;
        mine->group = t;
        mine->shared = s->sched.with_n - mine->computed;
        if (s->sched.with_n <= its->computed || its->group != SCHED_NONE) continue;
        its->group = t;
        its->shared = s->sched.with_n - its->computed;
    }
}

/* --- comparing; in the engine's thread --- */

static struct checks {
    const struct core *core; /* NULL: none is compared */
    char wrong[160];         /* the first difference */
    /* how often the states that were compared had one of these */
    unsigned decide, step, positions, refuse, grouped, paused, siblings, fetching, preempted, users, drafts;
    unsigned kv_groups[2]; /* it showed blocks of this group */
    uint64_t view;         /* the last one compared, and who waited after it */
    uint32_t n_waited;
    struct {
        struct user *user;
        bool waited;
    } waited[USERS + 1];
} checks;

static void differ(const char *field, uint64_t got, uint64_t want, uint32_t i)
{
    if (checks.wrong[0]) return;
    snprintf(checks.wrong, sizeof(checks.wrong), "view %llu: %s of %u is %llu, not %llu",
             (unsigned long long)checks.core->plan.views, field, i, (unsigned long long)got, (unsigned long long)want);
}

#define SAME(field, got, want, i)                                                                                      \
    do {                                                                                                               \
        if ((got) != (want)) differ(field, (uint64_t)(got), want, i);                                                  \
    } while (0)

static void compare_req(const struct sched_req *a, const struct sched_req *b, uint32_t i)
{
    SAME("arrival", a->arrival, b->arrival, i);
    SAME("last_step", a->last_step, b->last_step, i);
    SAME("since", a->since, b->since, i);
    SAME("paused_ms", a->paused_ms, b->paused_ms, i);
    SAME("user", a->user, b->user, i);
    SAME("computed", a->computed, b->computed, i);
    SAME("known", a->known, b->known, i);
    SAME("stretch", a->stretch, b->stretch, i);
    SAME("whole", a->whole, b->whole, i);
    SAME("draft", a->draft, b->draft, i);
    SAME("chance", (uintptr_t)a->chance, (uintptr_t)b->chance, i);
    SAME("spent", a->spent, b->spent, i);
    SAME("redone", a->redone, b->redone, i);
    SAME("blocks", a->blocks, b->blocks, i);
    SAME("group", a->group, b->group, i);
    SAME("shared", a->shared, b->shared, i);
    SAME("class", a->class, b->class, i);
    SAME("running", a->running, b->running, i);
    SAME("decoding", a->decoding, b->decoding, i);
    SAME("paused", a->paused, b->paused, i);
}

static bool waited_before(const struct user *u)
{
    for (uint32_t i = 0; checks.core->plan.views == checks.view + 1 && i < checks.n_waited; i++)
        if (checks.waited[i].user == u) return checks.waited[i].waited;
    return false; /* the last view had none of its sequences */
}

static void compare_users(const struct gathered *g, const struct sched_state *st)
{
    SAME("n_users", st->n_users, g->n_users, 0);
    for (uint32_t i = 0; i < g->n_users && i < st->n_users; i++) {
        const struct user *u = g->users[i];
        SAME("user's place", (uintptr_t)checks.core->plan.users[i], (uintptr_t)u, i);
        SAME("served", st->users[i].served, u->account.served, i);
        SAME("waited", st->users[i].waited, waited_before(u), i);
    }
}

static void note_waited(const struct sched_state *st)
{
    const struct plan *p = &checks.core->plan;
    checks.view = p->views;
    checks.n_waited = st->n_users;
    for (uint32_t i = 0; i < st->n_users; i++) {
        checks.waited[i].user = p->users[i];
        checks.waited[i].waited = st->users[i].waited;
    }
}

static void note_kinds(const struct gathered *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const struct seq *s = g->seqs[i];
        checks.grouped += g->reqs[i].group != SCHED_NONE;
        checks.paused += g->reqs[i].paused;
        checks.siblings += s->state == SEQ_WAITING && s->nth;
        checks.fetching += s->state == SEQ_FETCHING;
        checks.drafts += g->reqs[i].draft > 0;
        checks.preempted += s->state == SEQ_WAITING && s->times.admitted;
    }
    checks.users += g->n_users > 2;
    checks.kv_groups[g->group] += g->n > 0;
}

static void compare(const struct sched_state *st)
{
    static struct gathered g;
    const struct core *core = checks.core;
    if (!core) return;
    const struct plan *p = &core->plan;
    gather(core, &g);
    find_groups(&g);
    SAME("n", st->n, g.n, 0);
    SAME("n_queued", p->n_queued, g.n_queued, 0);
    SAME("n_ready", p->n_ready, g.n_ready, 0);
    SAME("KV group", p->group, g.group, 0);
    SAME("free_blocks", st->free_blocks, free_blocks(core, g.group), 0);
    for (uint32_t i = 0; i < g.n && i < st->n; i++) {
        SAME("sequence", (uintptr_t)p->seqs[i], (uintptr_t)g.seqs[i], i);
        compare_req(&st->reqs[i], &g.reqs[i], i);
    }
    compare_users(&g, st);
    note_kinds(&g);
    note_waited(st);
}

/* --- the scheduler, as the daemon calls it --- */

uint32_t __real_sched_decide(const struct sched_config *c, struct sched_book *b, const struct sched_state *s,
                             void *scratch, struct sched_action *out);
uint32_t __wrap_sched_decide(const struct sched_config *c, struct sched_book *b, const struct sched_state *s,
                             void *scratch, struct sched_action *out);
uint32_t __wrap_sched_decide(const struct sched_config *c, struct sched_book *b, const struct sched_state *s,
                             void *scratch, struct sched_action *out)
{
    compare(s);
    checks.decide++;
    uint32_t n = __real_sched_decide(c, b, s, scratch, out);
    if (checks.core) note_waited(s);
    return n;
}

uint32_t __real_sched_step(const struct sched_config *c, const struct sched_book *b, const struct sched_state *s,
                           void *scratch, struct sched_run *out, struct sched_load *load);
uint32_t __wrap_sched_step(const struct sched_config *c, const struct sched_book *b, const struct sched_state *s,
                           void *scratch, struct sched_run *out, struct sched_load *load);
uint32_t __wrap_sched_step(const struct sched_config *c, const struct sched_book *b, const struct sched_state *s,
                           void *scratch, struct sched_run *out, struct sched_load *load)
{
    compare(s);
    checks.step++;
    return __real_sched_step(c, b, s, scratch, out, load);
}

void __real_sched_positions(const struct sched_config *c, const struct sched_state *s, void *scratch, uint32_t *pos);
void __wrap_sched_positions(const struct sched_config *c, const struct sched_state *s, void *scratch, uint32_t *pos);
void __wrap_sched_positions(const struct sched_config *c, const struct sched_state *s, void *scratch, uint32_t *pos)
{
    compare(s);
    checks.positions++;
    __real_sched_positions(c, s, scratch, pos);
}

uint32_t __real_sched_refuse(const struct sched_state *s, const bool *preempted, uint32_t queue, uint32_t user,
                             enum sched_class class, void *scratch);
uint32_t __wrap_sched_refuse(const struct sched_state *s, const bool *preempted, uint32_t queue, uint32_t user,
                             enum sched_class class, void *scratch);
uint32_t __wrap_sched_refuse(const struct sched_state *s, const bool *preempted, uint32_t queue, uint32_t user,
                             enum sched_class class, void *scratch)
{
    compare(s);
    checks.refuse++;
    return __real_sched_refuse(s, preempted, queue, user, class, scratch);
}

/* --- a drafter --- */

/* Propose what followed the last token when it came before. */
static uint32_t propose(void *ctx, struct seq *s, int32_t *out, float *chance, uint32_t max)
{
    const int32_t *ids = seq_ids(s);
    uint32_t known = seq_known(s), n = 0;
    (void)ctx;
    for (uint32_t i = known - 1; i-- > 0;) {
        if (ids[i] != ids[known - 1]) continue;
        while (n < max && n < 4 && i + 1 + n < known) {
            out[n] = ids[i + 1 + n];
            n++;
        }
        break;
    }
    return n;
}

static void play_drafts(struct drafter *d)
{
    *d = (struct drafter){.propose = propose, .pasts = d->pasts, .always = true};
}

/* --- events --- */

static struct proto_text words(unsigned n)
{
    unsigned kept = harness_seed; /* many have a common prefix */
    struct proto_text t = {0};
    struct buf b = BUF_INIT;
    harness_seed = kept % 4;
    for (unsigned i = 0; i < n; i++) assert_int_equal(buf_printf(&b, "%s ", harness_word()), 0);
    harness_seed = kept;
    assert_int_equal(buf_printf(&b, "%u", harness_draw(50)), 0);
    t.data = buf_steal(&b, &t.len);
    return t;
}

static struct proto_request any(void)
{
    static const enum proto_type types[] = {PROTO_GENERATE, PROTO_GENERATE, PROTO_GENERATE, PROTO_WARM, PROTO_INFILL};
    static const char *const sessions[] = {"a", "b", "c"};
    struct proto_request r = harness_simple(types[harness_draw(5)]);
    struct proto_generate *g = &r.gen;
    g->sampling.seed = 1;
    g->sampling.temperature = (float)harness_draw(2);
    g->max_tokens = 1 + harness_draw(60);
    g->ignore_eos = harness_draw(2);
    g->priority = (enum proto_priority)harness_draw(4);
    if (harness_draw(8) == 0) g->timeout_ms = harness_draw(40);
    if (r.type == PROTO_INFILL) {
        g->infill.prefix = words(harness_draw(80));
        g->infill.suffix = words(1 + harness_draw(80));
        return r;
    }
    g->raw = true;
    g->prompt = words(1 + harness_draw(200));
    g->context = (enum proto_context)harness_draw(4);
    if (harness_draw(4) == 0) {
        assert_int_equal(proto_text_set(&g->session, sessions[harness_draw(3)], 1), 0);
        g->detach = harness_draw(2);
    } else if (harness_draw(3) == 0) {
        g->n = 1 + harness_draw(6);
    }
    return r;
}

static void submit(struct engine *e, uint64_t id, uint32_t *live)
{
    struct proto_request r = any();
    r.id = id;
    if (engine_submit(e, id % CONNS, 1000 + id % USERS, &r) == 0)
        ++*live;
    else
        proto_request_fini(&r);
}

static void disturb(struct engine *e, uint64_t last)
{
    uint64_t id = 1 + harness_draw((unsigned)last);
    if (harness_draw(4) == 0) engine_cancel(e, id % CONNS, id);
    if (harness_draw(6) == 0) engine_abandon(e, id % CONNS, id);
    if (harness_draw(3) == 0) engine_pause(e, harness_draw(CONNS), harness_draw(3) == 0);
    if (harness_draw(30) == 0) engine_shed(e);
}

static void play(struct harness *h, bool drafts)
{
    uint32_t live = 0;
    uint64_t id = 0;
    harness_start(h);
    harness_wait_disk(h);
    harness_hold(h);
    checks.core = &h->engine->core; /* nothing waits or runs yet */
    if (drafts) play_drafts(&h->engine->core.drafter);
    harness_go(h);
    for (unsigned i = 0; i < TURNS && !checks.wrong[0]; i++) {
        for (unsigned n = harness_draw(5) ? harness_draw(2) : harness_draw(8); n; n--) submit(h->engine, ++id, &live);
        if (id) disturb(h->engine, id);
        usleep(harness_draw(4) * 500);
        harness_drop_events(h, &live);
    }
    for (; id; id--) engine_cancel(h->engine, id % CONNS, id);
    while (live && !checks.wrong[0]) {
        struct pollfd p = {.fd = engine_fd(h->engine), .events = POLLIN};
        assert_true(poll(&p, 1, 60000) > 0);
        harness_drop_events(h, &live);
    }
    harness_stop(h);
    checks.core = NULL;
    if (checks.wrong[0]) fail_msg("%s", checks.wrong);
}

/* Every kind of sequence and of question to the scheduler has occurred. */
static bool has_all_kinds(void)
{
    return checks.decide && checks.step && checks.positions && checks.refuse && checks.grouped && checks.paused &&
           checks.siblings && checks.fetching && checks.preempted && checks.users && checks.drafts;
}

static void play_rounds(struct harness *h, const char *arch)
{
    struct tiny t;
    harness_fini(h);
    tiny_init(&t);
    t.arch = arch;
    t.ctx = 256;
    t.fim = "texts";
    harness_init(h, &t);
    harness_dirs(h);
    for (unsigned i = 0; i < ROUNDS || (i < ROUNDS_MOST && !has_all_kinds()); i++) {
        harness_seed = i;
        h->config.parallel = 1 + 3 * (i % 3);
        h->config.queue = i % 2 ? 6 : 64;
        h->config.kv_bytes = i % 4 < 2 ? 600 << 10 : 4 << 20;
        h->config.batch_tokens = i % 3 == 2 ? 9 : 64;
        play(h, i % 2);
    }
    assert_true(has_all_kinds());
}

static void test_kept_as_gathered(void **state)
{
    play_rounds(*state, NULL);
}

static void test_two_kv_groups(void **state)
{
    checks = (struct checks){0};
    play_rounds(*state, "gemma3");
    assert_true(checks.kv_groups[0] && checks.kv_groups[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kept_as_gathered, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_two_kv_groups, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests_name("plan-view", tests, NULL, NULL);
}
