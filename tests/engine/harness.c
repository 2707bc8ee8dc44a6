/* SPDX-License-Identifier: MIT */
#include "tests/engine/harness.h"
#include "daemon/engine/state.h"
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/* A new file with @t in it, and the settings that all have. */
static void write_model(const struct tiny *t, char path[64], struct engine_config *c)
{
    snprintf(path, 64, "/tmp/hob-engine-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(tiny_write(t, path), 0);
    c->model_path = path;
    c->threads = 1;
    c->cpu = getenv("HOB_CPU");
}

int harness_load(struct loaded *m, const struct tiny *t, const struct engine_config *c)
{
    char path[64];
    struct engine_config own;
    engine_config_init(&own);
    own.kv_bytes = 4 << 20;
    if (c) own = *c;
    write_model(t, path, &own);
    memset(m, 0, sizeof(*m));
    int r = load_model(m, &own, NULL, NULL);
    unlink(path);
    return r;
}

void harness_init(struct harness *h, const struct tiny *t)
{
    struct tiny own;
    memset(h, 0, sizeof(*h));
    if (!t) {
        tiny_init(&own);
        own.ctx = 2048;
        t = &own;
    }
    engine_config_init(&h->config);
    write_model(t, h->path, &h->config);
    h->config.model_name = (char *)"tiny";
    h->config.kv_bytes = 4 << 20;
}

void harness_start(struct harness *h)
{
    const char *why = NULL;
    assert_int_equal(engine_new(&h->engine, &h->config), 0);
    while (engine_state(h->engine, &why) == ENGINE_LOADING) {
        struct pollfd p = {.fd = engine_fd(h->engine), .events = POLLIN};
        poll(&p, 1, -1);
        struct engine_event ev;
        assert_false(engine_poll(h->engine, &ev));
    }
    if (why) print_message("engine: %s\n", why);
    assert_null(why);
}

struct answer answer_take(struct answer *a)
{
    struct answer out = *a;
    assert_true(a->ended);
    *a = (struct answer){.ended = true};
    return out;
}

void answer_fini(struct answer *a)
{
    buf_fini(&a->text);
    free(a->ids);
    free(a->logprobs);
    proto_event_fini(&a->last);
    memset(a, 0, sizeof(*a));
}

void harness_forget(struct harness *h)
{
    assert_true(h->answers[h->n].ended);
    answer_fini(&h->answers[h->n--]);
}

void harness_stop(struct harness *h)
{
    if (h->held) harness_go(h); /* a test has failed */
    h->engine = engine_close(h->engine, 60000000);
    for (int i = 0; i < ANSWERS; i++) answer_fini(&h->answers[i]);
    h->n = 0;
}

static struct {
    _Atomic(struct core *) wanted; /* whose thread shall stop; NULL: none */
    sem_t stands, go;
} hold;

/* Once: a thread may not have seen the last harness_go when the next harness_hold begins. */
__attribute__((constructor)) static void hold_begin(void)
{
    sem_init(&hold.stands, 0, 0);
    sem_init(&hold.go, 0, 0);
}

void __real_requests_start_new(struct core *core);
void __wrap_requests_start_new(struct core *core);

void __wrap_requests_start_new(struct core *core)
{
    struct core *mine = core;
    if (atomic_compare_exchange_strong(&hold.wanted, &mine, NULL)) {
        sem_post(&hold.stands);
        sem_wait(&hold.go);
    }
    __real_requests_start_new(core);
}

static void hold_wait(struct harness *h)
{
    engine_pause(h->engine, UINT64_MAX, false); /* which makes a turn */
    while (sem_wait(&hold.stands) < 0) continue;
}

void harness_hold(struct harness *h)
{
    hold.wanted = &h->engine->core;
    hold_wait(h);
    h->held = true;
}

void harness_go(struct harness *h)
{
    h->held = false;
    sem_post(&hold.go);
}

void harness_fini(struct harness *h)
{
    harness_stop(h);
    unlink(h->path);
    if (!h->dir[0]) return;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", h->dir);
    assert_int_equal(system(command), 0);
}

void harness_dirs(struct harness *h)
{
    snprintf(h->dir, sizeof(h->dir), "/tmp/hob-dirs-XXXXXX");
    assert_non_null(mkdtemp(h->dir));
    snprintf(h->state_dir, sizeof(h->state_dir), "%s/state", h->dir);
    snprintf(h->cache_dir, sizeof(h->cache_dir), "%s/cache", h->dir);
    h->config.state_dir = h->state_dir;
    h->config.cache_dir = h->cache_dir;
    snprintf(h->packed_dir, sizeof(h->packed_dir), "%s/packed", h->dir);
    h->config.packed.dir = h->packed_dir;
}

long long harness_status(struct harness *h, uid_t uid, const char *key)
{
    char name[64];
    struct proto_request r = harness_simple(PROTO_STATUS);
    struct answer *a = harness_wait(h, harness_submit_as(h, 1, uid, &r));
    snprintf(name, sizeof(name), "\"%s\":", key);
    assert_int_equal(a->last.type, PROTO_EV_STATUS);
    const char *at = strstr(a->last.status.data, name);
    assert_non_null(at);
    at += strlen(name);
    long long value = strncmp(at, "true", 4) == 0 ? 1 : atoll(at);
    harness_forget(h); /* it can be asked any number of times */
    return value;
}

void harness_wait_disk(struct harness *h)
{
    while (!harness_status(h, 0, "disk")) usleep(1000);
}

unsigned harness_seed;

unsigned harness_draw(unsigned n)
{
    harness_seed = harness_seed * 1103515245 + 12345;
    return harness_seed / 65536 % n;
}

const char *harness_word(void)
{
    static const char *const words[] = {"the", "house", "sea", "and", "you", "once", "upon", "a", "time", "little"};
    return words[harness_draw(10)];
}

void harness_text(char *out, size_t size, unsigned seed, unsigned words)
{
    size_t n = 0;
    harness_seed = seed;
    for (unsigned i = 0; i < words && n + 10 < size; i++)
        n += (size_t)snprintf(out + n, size - n, " %s", harness_word());
}

const char harness_story[] = "Once upon a time there was a little house by the sea, and in it lived you and I.";

int harness_setup(void **state)
{
    struct harness *h = malloc(sizeof(*h));
    if (!h) return -1;
    *state = h;
    harness_init(h, NULL);
    return 0;
}

int harness_teardown(void **state)
{
    harness_fini(*state);
    free(*state);
    return 0;
}

struct proto_request harness_simple(enum proto_type type)
{
    struct proto_request r = {.type = type};
    proto_generate_init(&r.gen);
    return r;
}

static struct proto_request generate(void)
{
    struct proto_request r = harness_simple(PROTO_GENERATE);
    r.gen.sampling.temperature = 0;
    r.gen.max_tokens = 16;
    r.gen.logprobs = true;
    return r;
}

struct proto_request harness_raw(const char *prompt)
{
    struct proto_request r = generate();
    r.gen.raw = true;
    assert_int_equal(proto_text_set(&r.gen.prompt, prompt, strlen(prompt)), 0);
    return r;
}

struct proto_request harness_seeded(const char *prompt)
{
    struct proto_request r = harness_raw(prompt);
    r.gen.sampling.temperature = 1;
    r.gen.sampling.seed = 7;
    r.gen.max_tokens = 40;
    r.gen.ignore_eos = true;
    return r;
}

struct proto_request harness_user(const char *session, const char *content)
{
    struct proto_request r = generate();
    r.gen.messages = calloc(1, sizeof(*r.gen.messages));
    assert_non_null(r.gen.messages);
    r.gen.n_messages = 1;
    assert_int_equal(proto_text_set(&r.gen.messages[0].role, "user", 4), 0);
    assert_int_equal(proto_text_set(&r.gen.messages[0].content, content, strlen(content)), 0);
    if (session) assert_int_equal(proto_text_set(&r.gen.session, session, strlen(session)), 0);
    return r;
}

uint64_t harness_submit_as(struct harness *h, uint64_t conn, uid_t uid, struct proto_request *r)
{
    uint32_t n = r->gen.n ? r->gen.n : 1;
    assert_true(h->n + n < ANSWERS);
    r->id = h->n + 1;
    assert_int_equal(engine_submit(h->engine, conn, uid, r), 0);
    h->n += n;
    return h->n + 1 - n;
}

uint64_t harness_submit(struct harness *h, struct proto_request *r)
{
    return harness_submit_as(h, 1, 1000, r);
}

static void note_text(struct answer *a, const struct proto_event *ev)
{
    a->texts++;
    if (ev->text.len) assert_int_equal(buf_append(&a->text, ev->text.data, ev->text.len), 0);
    for (size_t i = 0; i < ev->tokens.n; i++) {
        a->ids = realloc(a->ids, (a->n + 1) * sizeof(*a->ids));
        a->logprobs = realloc(a->logprobs, (a->n + 1) * sizeof(*a->logprobs));
        assert_true(a->ids && a->logprobs);
        a->ids[a->n] = ev->tokens.ids[i];
        a->logprobs[a->n++] = ev->tokens.logprobs[i];
    }
}

static void note(struct harness *h, struct engine_event *e)
{
    struct proto_event *ev = &e->ev;
    assert_true(ev->id > 0 && ev->id <= h->n);
    assert_true(ev->id + ev->index <= h->n);
    struct answer *a = &h->answers[ev->id + ev->index];
    assert_false(a->ended);
    a->events++;
    if (ev->type == PROTO_EV_TEXT) note_text(a, ev);
    if (ev->type == PROTO_EV_QUEUED) a->queued[a->queued_n++ % 64] = ev->position;
    if (ev->type == PROTO_EV_PREFILL) {
        if (a->prefill_n++ == 0) a->prefill_first = ev->done;
        assert_true((ev->done >= a->prefill_last || h->forgetful) && ev->done <= ev->total);
        a->prefill_last = ev->done;
        a->prefill_total = ev->total;
    }
    a->ended = ev->type == PROTO_EV_DONE || ev->type == PROTO_EV_ERROR || e->last;
    if (a->ended) assert_true(e->last == !ev->more);
    if (a->ended)
        a->last = *ev;
    else
        proto_event_fini(ev);
}

/* One event, waiting for it. A test that hangs here for a minute has failed. */
static void take(struct harness *h)
{
    struct engine_event e;
    while (!engine_poll(h->engine, &e)) {
        struct pollfd p = {.fd = engine_fd(h->engine), .events = POLLIN};
        int r = poll(&p, 1, 60000);
        if (r == 0) fail_msg("no event within a minute");
        assert_true(r > 0 || errno == EINTR);
    }
    note(h, &e);
}

void harness_turn(struct harness *h)
{
    struct engine_event e;
    hold.wanted = &h->engine->core; /* before it goes, or it could miss a turn */
    sem_post(&hold.go);
    hold_wait(h);
    while (engine_poll(h->engine, &e)) note(h, &e);
}

struct answer *harness_wait(struct harness *h, uint64_t id)
{
    while (!h->answers[id].ended) take(h);
    return &h->answers[id];
}

struct answer *harness_wait_texts(struct harness *h, uint64_t id, unsigned texts)
{
    while (!h->answers[id].ended && h->answers[id].texts < texts) take(h);
    return &h->answers[id];
}

struct answer *harness_wait_any(struct harness *h, uint64_t id)
{
    while (h->answers[id].events == 0) take(h);
    return &h->answers[id];
}

struct answer *harness_run(struct harness *h, struct proto_request *r)
{
    return harness_wait(h, harness_submit(h, r));
}

uint64_t harness_occupy(struct harness *h, uint64_t conn)
{
    struct proto_request r = harness_raw(harness_story);
    r.gen.max_tokens = 1u << 30;
    r.gen.context = PROTO_CONTEXT_ROTATE;
    r.gen.ignore_eos = true;
    uint64_t id = harness_submit_as(h, conn, 1000, &r);
    harness_wait_texts(h, id, 1);
    return id;
}

void harness_drop_events(struct harness *h, uint32_t *live)
{
    struct engine_event e;
    while (engine_poll(h->engine, &e)) {
        *live -= e.last;
        proto_event_fini(&e.ev);
    }
}

void assert_all_blocks_free(struct harness *h)
{
    assert_int_equal(harness_status(h, 0, "kv_blocks_free") + harness_status(h, 0, "kv_blocks_unused"),
                     harness_status(h, 0, "kv_blocks"));
}

struct answer *harness_run_seeded(struct harness *h, uid_t uid, const char *first, const char *second)
{
    char both[8192];
    snprintf(both, sizeof(both), "%s%s", first, second);
    struct proto_request r = harness_seeded(both);
    struct answer *a = harness_wait(h, harness_submit_as(h, 1, uid, &r));
    assert_done(a, PROTO_STOP_LENGTH);
    return a;
}

void assert_done(const struct answer *a, enum proto_reason reason)
{
    assert_true(a->ended);
    if (a->last.type == PROTO_EV_ERROR) print_message("error: %s\n", a->last.message.data);
    assert_int_equal(a->last.type, PROTO_EV_DONE);
    assert_int_equal(a->last.reason, reason);
}

void assert_error(const struct answer *a, int code, const char *part)
{
    assert_true(a->ended);
    assert_int_equal(a->last.type, PROTO_EV_ERROR);
    assert_int_equal(a->last.code, code);
    assert_non_null(a->last.message.data);
    if (!strstr(a->last.message.data, part)) print_message("says: %s\n", a->last.message.data);
    assert_non_null(strstr(a->last.message.data, part));
}

void assert_same(const struct answer *a, const struct answer *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->ids, b->ids, a->n * sizeof(*a->ids));
    assert_memory_equal(a->logprobs, b->logprobs, a->n * sizeof(*a->logprobs));
}
