/* SPDX-License-Identifier: MIT */
#include "tests/sequence/scripted-runs.h"
#include "daemon/backend/cpu/cpu.h"
#include "daemon/request/prepare.h"
#include "daemon/request/request.h"
#include <pthread.h>
#include <xxhash.h>

/* Items of a prompt that are runs. */
static const struct {
    uint32_t at, n;
} places[] = {{FIRST_RUN, 20}, {30, 40}, {70, 30}, {129, 1}, {140, 90}, {231, 25}, {400, 70}};

struct run_script script;

static struct {
    pthread_mutex_t lock;
    struct {
        uint8_t digest[16];
        struct embeddings *e;
    } all[512]; /* [n] */
    uint32_t n;
    struct prompt last;
} store = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct embeddings *known(const uint8_t digest[16])
{
    struct embeddings *found = NULL;
    pthread_mutex_lock(&store.lock);
    for (uint32_t i = 0; i < store.n && !found; i++)
        if (memcmp(store.all[i].digest, digest, 16) == 0) found = embeddings_ref(store.all[i].e);
    pthread_mutex_unlock(&store.lock);
    return found;
}

static void remember(const uint8_t digest[16], struct embeddings *e)
{
    pthread_mutex_lock(&store.lock);
    assert_true(store.n < sizeof(store.all) / sizeof(*store.all));
    memcpy(store.all[store.n].digest, digest, 16);
    store.all[store.n++].e = embeddings_ref(e);
    pthread_mutex_unlock(&store.lock);
}

void script_reset(void)
{
    for (uint32_t i = 0; i < store.n; i++) embeddings_unref(store.all[i].e);
    store.n = 0;
    prompt_fini(&store.last);
    script = (struct run_script){0};
}

/* The embeddings of ids[n], held, as the model's first layer gets them from the ids. */
static struct embeddings *embed(const struct loaded *m, const int32_t *ids, uint32_t n, uint8_t digest[16])
{
    const struct cpu *c = (const struct cpu *)m->backend;
    const struct hparams *y = &c->base.hparams;
    XXH128_canonical_t sum;
    XXH128_canonicalFromHash(&sum, XXH3_128bits(ids, n * sizeof(*ids)));
    memcpy(digest, sum.digest, 16);
    struct embeddings *e = known(digest);
    if (e) return e;
    assert_int_equal(embeddings_new(&e, n, y->dim), 0);
    for (uint32_t i = 0; i < n; i++) {
        float *x = e->values + (size_t)i * y->dim;
        weights_embed(&c->weights, (uint32_t)ids[i], x);
        if (y->scale.embedding != 1) c->kern->scale(x, y->scale.embedding, y->dim);
    }
    remember(digest, e);
    return e;
}

/* The items from @at on that become a run; 0: none. */
static uint32_t run_at(const struct tokens *t, size_t at)
{
    if (script.at_end && at + 40 == t->n) return 40;
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
        if (places[i].at == at && at + places[i].n + (script.at_end ? 40 : 0) < t->n) return places[i].n;
    return 0;
}

static void replace(struct prompt *p, const struct loaded *m)
{
    struct tokens old = p->tokens;
    p->tokens = (struct tokens){0};
    for (size_t i = 0; i < old.n;) {
        uint32_t n = i < p->keep ? 0 : run_at(&old, i);
        if (n == 0) {
            assert_int_equal(tokens_push(&p->tokens, old.ids[i], old.ends[i]), 0);
            i++;
            continue;
        }
        const uint32_t kind = script.kind ? script.kind : n % 3 ? ITEM_IMAGE : ITEM_SOUND;
        struct item_run run = {.n = n, .kind = kind};
        struct embeddings *e = embed(m, old.ids + i, n, run.digest);
        assert_int_equal(prompt_push_run(p, run, old.ends[i + n - 1], e), 0);
        embeddings_unref(e);
        i += n;
    }
    const struct items items = prompt_items(p);
    assert_true(items.n == old.n && items_check(&items));
    tokens_fini(&old);
}

int __real_prepare_request(struct request *r);
int __wrap_prepare_request(struct request *r);

int __wrap_prepare_request(struct request *r)
{
    int result = __real_prepare_request(r);
    struct prompt *p = &request_first(r)->prompt;
    if (result < 0 || !script.runs) return result;
    for (uint32_t i = 0; i < p->runs.n; i++) {
        assert_null(p->runs.embd[i]); /* a session has no embeddings */
        if (!script.forget) p->runs.embd[i] = known(p->runs.runs[i].digest);
    }
    replace(p, &r->core->model);
    pthread_mutex_lock(&store.lock);
    prompt_fini(&store.last);
    assert_int_equal(prompt_copy(&store.last, p), 0);
    pthread_mutex_unlock(&store.lock);
    return 0;
}

const struct prompt *script_prompt(void)
{
    return store.last.tokens.n ? &store.last : NULL;
}

struct answer *script_ask(struct harness *h, bool runs, uid_t uid, const char *first, const char *second)
{
    script.runs = runs;
    return harness_run_seeded(h, uid, first, second);
}

void kept_take(struct kept *k, struct harness *h)
{
    k->n = h->n;
    for (uint64_t i = 1; i <= k->n; i++) {
        k->answers[i] = answer_take(&h->answers[i]);
    }
}

void kept_compare(struct kept *k, struct harness *h)
{
    assert_int_equal(k->n, h->n);
    for (uint64_t i = 1; i <= k->n; i++) {
        assert_int_equal(h->answers[i].last.type, PROTO_EV_DONE);
        assert_same(&k->answers[i], &h->answers[i]);
        answer_fini(&k->answers[i]);
    }
}
