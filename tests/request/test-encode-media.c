/* SPDX-License-Identifier: MIT */
/*
 * Also decode-media, encode-work, encode-turn and media-room: images through the engine, from their files to the bits
 * of the answer, with a small random encoder. The answers are compared with those to the same prompt whose embeddings
 * the test has computed alone.
 */
#include "daemon/encoder/encoder.h"
#include "daemon/engine/state.h"
#include "daemon/media/media-helper.h"
#include "daemon/request/encode-media.h"
#include "daemon/request/media-room.h"
#include "daemon/request/prepare.h"
#include "daemon/request/request.h"
#include "tests/engine/harness.h"
#include "tests/model/encoder-file.h"
#include "tests/model/model-file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>
#include <xxhash.h>

enum { ITEMS = ENCODER_FILE_ITEMS, DIM = 64, FILES = 40, FILE_MOST = 400 };

static struct {
    atomic_bool stuck;  /* no encoding gets on */
    atomic_bool shut;   /* no file is decoded */
    atomic_uint slices; /* that were asked for */
    bool direct;        /* prompts get embeddings that were computed here */
    bool split;         /* an image is two runs with a token between them */
    uint32_t at;        /* tokens before the first image; 10 more before each other */
    struct encoder *encoder;
    char *mmproj;
    struct media_helper *helper;
} script;

/* --- files --- */

static void put_big(uint8_t **to, uint32_t v)
{
    for (int i = 24; i >= 0; i -= 8) *(*to)++ = (uint8_t)(v >> i);
}

static void put_chunk(uint8_t **to, const char *type, const uint8_t *data, uint32_t n)
{
    put_big(to, n);
    uint8_t *from = *to;
    memcpy(*to, type, 4);
    if (n) memcpy(*to + 4, data, n);
    *to += 4 + n;
    uint32_t crc = UINT32_MAX;
    for (const uint8_t *x = from; x < *to; x++) {
        crc ^= *x;
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    put_big(to, ~crc);
}

/* A PNG file of 6x5 pixels that @seed determines; stored, not compressed. */
static size_t png(uint8_t out[FILE_MOST], unsigned seed)
{
    enum { W = 6, H = 5, RAW = H * (1 + 3 * W) };
    static const uint8_t magic[] = {0x89, 'P', 'N', 'G', 13, 10, 26, 10},
                         head[] = {0, 0, 0, W, 0, 0, 0, H, 8, 2, 0, 0, 0};
    uint8_t z[11 + RAW] = {0x78, 1, 1, RAW, 0, (uint8_t)~RAW, 0xff}, *to = z + 7, *end = out;
    uint32_t a = 1, b = 0;
    for (int i = 0; i < RAW; i++) to[i] = i % (1 + 3 * W) ? (uint8_t)(seed * 37 + (unsigned)i * (seed + 11)) : 0;
    for (int i = 0; i < RAW; i++) {
        a = (a + to[i]) % 65521;
        b = (b + a) % 65521;
    }
    to += RAW;
    put_big(&to, b << 16 | a);
    memcpy(end, magic, sizeof(magic));
    end += sizeof(magic);
    put_chunk(&end, "IHDR", head, sizeof(head));
    put_chunk(&end, "IDAT", z, sizeof(z));
    put_chunk(&end, "IEND", NULL, 0);
    return (size_t)(end - out);
}

/* --- the prompt --- */

static void digest_of(const struct media_source *s, uint32_t part, uint8_t out[16])
{
    struct {
        uint8_t source[16], identity[16];
        uint32_t part;
    } all = {.part = part};
    XXH128_canonical_t sum;
    memcpy(all.source, s->digest, 16);
    encoder_identity(script.encoder, all.identity);
    XXH128_canonicalFromHash(&sum, XXH3_128bits(&all, 36));
    memcpy(out, sum.digest, 16);
}

static struct embeddings *encode_alone(const struct media_source *s)
{
    struct encoding *x;
    struct media m;
    struct embeddings *e;
    assert_int_equal(media_helper_decode(script.helper, blob_data(s->file), blob_size(s->file), &m), 0);
    assert_int_equal(encoding_new(&x, script.encoder, m.data, m.width, m.height), 0);
    int r;
    int __real_encoding_step(struct encoding *, struct compute_pool *);
    while ((r = __real_encoding_step(x, NULL)) > 0) continue;
    assert_int_equal(r, 0);
    assert_int_equal(embeddings_new(&e, ITEMS, DIM), 0);
    memcpy(e->values, encoding_result(x), ITEMS * DIM * sizeof(float));
    encoding_free(x);
    media_fini(&m);
    return e;
}

static void push_part(struct prompt *p, const struct media_source *s, const struct embeddings *all, uint32_t from,
                      uint32_t n)
{
    struct item_run run = {.n = n, .kind = ITEM_IMAGE};
    struct embeddings *e = NULL;
    digest_of(s, from, run.digest);
    if (all) {
        assert_int_equal(embeddings_new(&e, n, DIM), 0);
        memcpy(e->values, all->values + from * DIM, n * DIM * sizeof(float));
    }
    assert_int_equal(prompt_push_run(p, run, p->tokens.n ? p->tokens.ends[p->tokens.n - 1] : 0, e), 0);
    embeddings_unref(e);
}

static void push_image(struct prompt *p, struct media_source *s)
{
    struct embeddings *all = script.direct ? encode_alone(s) : NULL;
    if (script.split) push_part(p, s, all, 0, 1);
    if (script.split) assert_int_equal(tokens_push(&p->tokens, 65, p->tokens.ends[p->tokens.n - 1]), 0);
    push_part(p, s, all, script.split, ITEMS - script.split);
    if (!script.direct) assert_int_equal(prompt_push_media(p, s, 1 + script.split), 0);
    embeddings_unref(all);
}

int __real_prepare_request(struct request *r);
int __wrap_prepare_request(struct request *r);

int __wrap_prepare_request(struct request *r)
{
    const size_t n = r->n_sources;
    r->n_sources = 0; /* a raw prompt has no images otherwise */
    int result = __real_prepare_request(r);
    r->n_sources = n;
    struct prompt *p = &request_first(r)->prompt;
    struct tokens old = p->tokens;
    if (result < 0 || !n) return result;
    p->tokens = (struct tokens){0};
    for (size_t i = 0, at = 0; i < old.n; i++) {
        for (; at < n && i == script.at + 10 * at; at++) push_image(p, r->sources[at]);
        assert_int_equal(tokens_push(&p->tokens, old.ids[i], old.ends[i]), 0);
    }
    assert_true(script.direct || p->n_media == n);
    tokens_fini(&old);
    return 0;
}

int __real_encoding_step(struct encoding *x, struct compute_pool *pool);
int __wrap_encoding_step(struct encoding *x, struct compute_pool *pool);

int __wrap_encoding_step(struct encoding *x, struct compute_pool *pool)
{
    atomic_fetch_add(&script.slices, 1);
    if (!script.stuck) return __real_encoding_step(x, pool);
    usleep(200);
    return 1;
}

int __real_media_helper_decode(struct media_helper *h, const uint8_t *data, size_t n, struct media *m);
int __wrap_media_helper_decode(struct media_helper *h, const uint8_t *data, size_t n, struct media *m);

int __wrap_media_helper_decode(struct media_helper *h, const uint8_t *data, size_t n, struct media *m)
{
    while (script.shut) usleep(200);
    return __real_media_helper_decode(h, data, n, m);
}

/* --- requests --- */

static void add_file(struct proto_message *m, const void *data, size_t n)
{
    m->media = realloc(m->media, (m->n_media + 1) * sizeof(*m->media));
    assert_non_null(m->media);
    m->media[m->n_media] = (struct proto_media){.kind = PROTO_MEDIA_IMAGE};
    assert_int_equal(blob_new(&m->media[m->n_media++].file, data, n), 0);
}

/* A prompt of @words words, with the images @from … @from + n - 1. */
static struct proto_request ask(unsigned text, unsigned from, unsigned n, unsigned words)
{
    char doc[4096];
    uint8_t file[FILE_MOST];
    harness_text(doc, sizeof(doc), text, words);
    struct proto_request r = harness_seeded(doc);
    r.gen.messages = calloc(1, sizeof(*r.gen.messages));
    assert_non_null(r.gen.messages);
    r.gen.n_messages = 1;
    for (unsigned i = 0; i < n; i++) add_file(r.gen.messages, file, png(file, from + i));
    return r;
}

static uint64_t submit(struct harness *h, uid_t uid, unsigned text, unsigned from, unsigned n)
{
    struct proto_request r = ask(text, from, n, 60);
    return harness_submit_as(h, uid, uid, &r);
}

static struct answer *run(struct harness *h, uid_t uid, unsigned text, unsigned from, unsigned n)
{
    struct answer *a = harness_wait(h, submit(h, uid, text, from, n));
    assert_done(a, PROTO_STOP_LENGTH);
    return a;
}

static long long encoded(struct harness *h)
{
    return harness_status(h, 0, "media_encoded");
}

static void start(struct harness *h)
{
    assert_int_equal(media_helper_new(&script.helper, HOBD_DECODE), 0);
    h->config.media.helper = script.helper;
    h->config.media.mmproj = script.mmproj;
    harness_start(h);
}

static void stop(struct harness *h)
{
    harness_stop(h);
    script.helper = media_helper_free(script.helper);
}

static int teardown(void **state)
{
    script.stuck = script.shut = script.direct = script.split = false;
    script.at = 5;
    harness_stop(*state);
    script.helper = media_helper_free(script.helper);
    return harness_teardown(state);
}

/* The answer with embeddings that come from here. */
static struct answer expect(struct harness *h, uid_t uid, unsigned text, unsigned from, unsigned n)
{
    script.direct = true;
    struct answer *a = run(h, uid, text, from, n);
    script.direct = false;
    assert_int_equal(a->last.n_media, n);
    return answer_take(a);
}

static void evict_all(struct harness *h)
{
    harness_hold(h);
    struct kv_cache *c = &h->engine->core.cache;
    assert_true(kv_cache_make_room(c, 0, kv_pool_total(c->pools[0])));
    harness_go(h);
}

/* --- tests --- */

static void assert_usage(const struct answer *a, unsigned n, unsigned tokens, bool cached)
{
    assert_int_equal(a->last.n_media, n);
    for (unsigned i = 0; i < n; i++) {
        const struct proto_media_usage *u = &a->last.media[i];
        assert_true(u->kind == PROTO_MEDIA_IMAGE && u->tokens == tokens && u->cached == cached);
        assert_true((u->encode_ms > 0) == !cached);
    }
}

static void compare(struct harness *h, uid_t uid, unsigned n)
{
    long long before = encoded(h);
    struct answer want = expect(h, uid, 1, 0, n), other = expect(h, uid, 2, 0, n);
    assert_int_equal(encoded(h), before);
    struct answer *cold = run(h, uid + 1, 1, 0, n);
    assert_same(&want, cold);
    assert_usage(cold, n, ITEMS, false);
    assert_int_equal(cold->last.usage_cached, 0);
    assert_int_equal(encoded(h), before + n);
    struct answer *warm = run(h, uid + 1, 1, 0, n);
    assert_same(&want, warm);
    assert_usage(warm, n, ITEMS, true);
    assert_int_equal(warm->last.usage_cached, warm->last.usage_prompt - 1);
    struct answer *elsewhere = run(h, uid + 1, 2, 0, n);
    assert_same(&other, elsewhere);
    assert_usage(elsewhere, n, ITEMS, true);
    assert_int_equal(elsewhere->last.usage_cached, 0);
    evict_all(h);
    assert_same(&want, run(h, uid + 1, 1, 0, n));
    assert_int_equal(encoded(h), before + n); /* memory has them */
    assert_same(&want, run(h, uid + 2, 1, 0, n));
    assert_int_equal(encoded(h), before + 2 * n); /* users do not share */
    answer_fini(&want);
    answer_fini(&other);
}

static void test_same_bits(void **state)
{
    struct harness *h = *state;
    static const uint32_t batches[] = {512, 9, 1};
    for (uint32_t b = 0; b < 3; b++) {
        h->config.batch_tokens = batches[b];
        h->config.threads = 1 + b;
        script.split = b == 1;
        start(h);
        compare(h, 1000, 1);
        compare(h, 1010, 5);
        assert_all_blocks_free(h);
        stop(h);
    }
}

/* A model that computes images whole, and has a KV group of its own for windows. */
static void test_whole_images(void **state)
{
    struct harness h;
    struct tiny t;
    tiny_init(&t);
    t.arch = "gemma3";
    t.ctx = 2048;
    t.dim = DIM;
    harness_init(&h, &t);
    h.config.batch_tokens = 7;
    start(&h);
    compare(&h, 1000, 4);
    stop(&h);
    harness_fini(&h);
}

/* A file that was decoded before needs no decoder. */
static void test_known_files(void **state)
{
    struct harness *h = *state;
    start(h);
    struct answer want = expect(h, 900, 2, 0, 1);
    run(h, 1000, 1, 0, 1);
    media_helper_stop(script.helper);
    assert_same(&want, run(h, 1000, 2, 0, 1));
    assert_usage(&h->answers[h->n], 1, ITEMS, true);
    struct proto_request r = ask(1, 1, 1, 60);
    assert_error(harness_wait(h, harness_submit_as(h, 1, 1000, &r)), ECANCELED, "file 1 of 1: decoding: ");
    r = ask(2, 0, 1, 60); /* another user's */
    assert_error(harness_wait(h, harness_submit_as(h, 1, 1001, &r)), ECANCELED, "file 1 of 1: decoding: ");
    answer_fini(&want);
    stop(h);
}

/* Beside other answers, with and without images, in few blocks. */
static void test_beside_others(void **state)
{
    struct harness *h = *state;
    struct answer want[6];
    uint64_t ids[6];
    h->config.batch_tokens = 64;
    h->forgetful = true;
    start(h);
    for (unsigned i = 0; i < 6; i++) want[i] = expect(h, 900 + i, 1 + i, 3 * i, i % 4);
    stop(h);
    h->config.parallel = 2;
    h->config.kv_bytes = 30 * 2 * 32 * 2 * 2 * 16 * 2;
    start(h);
    harness_hold(h);
    for (unsigned i = 0; i < 6; i++) ids[i] = submit(h, 1000 + i % 3, 1 + i, 3 * i, i % 4);
    harness_go(h);
    for (unsigned i = 0; i < 6; i++) {
        assert_done(harness_wait(h, ids[i]), PROTO_STOP_LENGTH);
        assert_same(&want[i], &h->answers[ids[i]]);
        answer_fini(&want[i]);
    }
    assert_all_blocks_free(h);
    stop(h);
}

/* Two prompts of one user wait for the same image. */
static void test_one_encoding_for_two(void **state)
{
    struct harness *h = *state;
    start(h);
    struct answer one = expect(h, 900, 1, 7, 1), two = expect(h, 900, 2, 7, 1);
    script.stuck = true;
    uint64_t a = submit(h, 1000, 1, 7, 1), b = submit(h, 1000, 2, 7, 1), c = submit(h, 1001, 1, 7, 1);
    harness_wait_any(h, a);
    harness_wait_any(h, b);
    harness_wait_any(h, c);
    script.stuck = false;
    assert_same(&one, harness_wait(h, a));
    assert_same(&two, harness_wait(h, b));
    assert_same(&one, harness_wait(h, c));
    assert_int_equal(encoded(h), 2);
    answer_fini(&one);
    answer_fini(&two);
    stop(h);
}

/* One whose prompt is the same waits for the KV of the one that waits for the image. */
static void test_same_prompt_waits(void **state)
{
    struct harness *h = *state;
    start(h);
    script.stuck = true;
    uint64_t a = submit(h, 1000, 1, 7, 1);
    harness_wait_any(h, a);
    uint64_t b = submit(h, 1000, 1, 7, 1);
    harness_wait_any(h, b);
    script.stuck = false;
    assert_done(harness_wait(h, a), PROTO_STOP_LENGTH);
    struct answer *second = harness_wait(h, b);
    assert_done(second, PROTO_STOP_LENGTH);
    assert_same(&h->answers[a], second);
    assert_true(second->last.usage_cached > ITEMS);
    assert_int_equal(encoded(h), 1);
    stop(h);
}

static void test_cancel_and_late(void **state)
{
    struct harness *h = *state;
    start(h);
    struct answer want = expect(h, 900, 3, 1, 2);
    script.stuck = true;
    uint64_t a = submit(h, 1000, 1, 1, 2), b = submit(h, 1000, 3, 1, 2);
    struct proto_request late = ask(2, 9, 1, 60);
    late.gen.timeout_ms = 50;
    uint64_t c = harness_submit_as(h, 1, 1002, &late);
    struct answer *stream = harness_run_seeded(h, 1003, "Once upon a time", ""); /* others notice nothing */
    assert_done(stream, PROTO_STOP_LENGTH);
    harness_wait_any(h, a);
    engine_cancel(h->engine, 1000, a);
    assert_done(harness_wait(h, a), PROTO_STOP_CANCEL);
    for (unsigned i = 0; i < 2; i++)
        assert_true(!h->answers[a].last.media[i].cached && h->answers[a].last.media[i].encode_ms == 0);
    assert_error(harness_wait(h, c), ETIMEDOUT, "the time limit of 50 ms passed");
    assert_false(h->answers[b].ended);
    script.stuck = false;
    assert_same(&want, harness_wait(h, b));
    assert_int_equal(encoded(h), 2);
    assert_all_blocks_free(h);
    script.stuck = true;
    harness_wait_any(h, submit(h, 1000, 4, 20, 3)); /* ends with the engine */
    answer_fini(&want);
    stop(h);
}

/* The only slot is taken from one whose encoding takes long. */
static void test_preempted(void **state)
{
    struct harness *h = *state;
    h->config.parallel = 1;
    h->forgetful = true;
    start(h);
    struct answer want = expect(h, 900, 1, 3, 1);
    script.stuck = true;
    uint64_t a = submit(h, 1000, 1, 3, 1);
    harness_wait_any(h, a);
    assert_done(harness_run_seeded(h, 1001, "Once upon a time", ""), PROTO_STOP_LENGTH);
    assert_true(harness_status(h, 0, "preemptions") > 0);
    assert_false(h->answers[a].ended);
    script.stuck = false;
    assert_same(&want, harness_wait(h, a));
    assert_int_equal(encoded(h), 1);
    answer_fini(&want);
    stop(h);
}

/* Memory for one image; then for none. */
static void test_eviction(void **state)
{
    struct harness *h = *state;
    for (unsigned room = 1; room < 2; room--) {
        h->config.media.cache_bytes = room * (ITEMS * DIM * sizeof(float) + sizeof(struct embeddings));
        start(h);
        struct answer want = expect(h, 900, 1, 0, 2);
        assert_same(&want, run(h, 1000, 1, 0, 2));
        evict_all(h);
        assert_same(&want, run(h, 1000, 1, 0, 2)); /* the files are known, but were dropped */
        assert_in_range(encoded(h), 3, 4);
        assert_int_equal(harness_status(h, 0, "pixel_bytes"), 0);
        assert_true(harness_status(h, 0, "cache_bytes") <= (long long)h->config.media.cache_bytes);
        answer_fini(&want);
        stop(h);
    }
}

/* Until all jobs that were sent have run. While the engine's thread is held. */
static void wait_jobs(struct harness *h)
{
    struct mailbox *m = &h->engine->core.mail;
    for (unsigned out = 1, back = 0; out > back; usleep(200)) {
        pthread_mutex_lock(&m->lock);
        back = 0;
        for (const struct return_job *x = m->returns.finished; x; x = x->next) back++;
        out = m->returns.out;
        pthread_mutex_unlock(&m->lock);
    }
}

/* Files of two users are decoded again when both cancel: the one of a third is next. */
static void test_cancel_while_decoding(void **state)
{
    struct harness *h = *state;
    uint64_t ids[3];
    h->config.media.cache_bytes = 0;
    start(h);
    struct answer want = expect(h, 900, 1, 3, 1);
    run(h, 1000, 1, 0, 2); /* the files become known */
    run(h, 1001, 1, 2, 1);
    run(h, 1002, 1, 3, 1);
    evict_all(h);
    long long before = encoded(h);
    script.shut = true;
    harness_hold(h);
    for (unsigned i = 0; i < 3; i++) ids[i] = submit(h, 1000 + i, 1, i ? 1 + i : 0, i ? 1 : 2);
    harness_turn(h);
    harness_turn(h); /* all have begun, */
    wait_jobs(h);    /* and the threads that will decode, which are busy then, have looked up their files */
    harness_go(h);
    for (unsigned i = 0; i < 3; i++) harness_wait_any(h, ids[i]);
    for (unsigned i = 0; i < 2; i++) engine_cancel(h->engine, 1000 + i, ids[i]);
    for (unsigned i = 0; i < 2; i++) assert_done(harness_wait(h, ids[i]), PROTO_STOP_CANCEL);
    assert_false(h->answers[ids[2]].ended);
    script.shut = false;
    assert_same(&want, harness_wait(h, ids[2]));
    assert_int_equal(encoded(h), before + 1);
    assert_all_blocks_free(h);
    answer_fini(&want);
    stop(h);
}

static unsigned damage_files(const struct harness *h)
{
    char dir[128], path[400];
    unsigned n = 0;
    snprintf(dir, sizeof(dir), "%s/media", h->cache_dir);
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *x; (x = readdir(d));) {
        if (x->d_name[0] == '.') continue;
        snprintf(path, sizeof(path), "%s/%s", dir, x->d_name);
        int fd = open(path, O_WRONLY);
        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, "!", 1, 200), 1);
        close(fd);
        n++;
    }
    closedir(d);
    return n;
}

static void test_restart(void **state)
{
    struct harness *h = *state;
    harness_dirs(h);
    start(h);
    struct answer want = expect(h, 900, 1, 0, 3), other = expect(h, 900, 2, 0, 3);
    assert_same(&want, run(h, 1000, 1, 0, 3));
    stop(h);
    start(h);
    struct answer *a = run(h, 1000, 2, 0, 3);
    assert_same(&other, a);
    assert_usage(a, 3, ITEMS, true);
    assert_int_equal(a->last.usage_cached, 0);
    assert_int_equal(encoded(h), 0);
    assert_same(&other, run(h, 1001, 2, 0, 3));
    assert_int_equal(encoded(h), 3);
    stop(h);
    assert_int_equal(damage_files(h), 6);
    start(h);
    evict_all(h);
    assert_same(&want, run(h, 1000, 1, 0, 3));
    assert_in_range(encoded(h), 0, 3); /* the KV may have been on disk */
    struct answer third = expect(h, 900, 5, 0, 3);
    assert_same(&third, run(h, 1002, 5, 0, 3));
    long long before = encoded(h);
    assert_same(&third, run(h, 1001, 5, 0, 3));
    assert_int_equal(encoded(h), before + 3); /* damaged, so that they are encoded again */
    answer_fini(&want);
    answer_fini(&other);
    answer_fini(&third);
    stop(h);
}

static void test_many_images(void **state)
{
    struct harness *h = *state;
    start(h);
    struct proto_request r = ask(1, 0, FILES, 500);
    r.gen.max_tokens = 2;
    uint64_t id = harness_submit_as(h, 1, 1000, &r);
    assert_done(harness_run_seeded(h, 1001, "Once upon a time", ""), PROTO_STOP_LENGTH);
    struct answer *a = harness_wait(h, id);
    assert_done(a, PROTO_STOP_LENGTH);
    assert_usage(a, FILES, ITEMS, false);
    assert_int_equal(encoded(h), FILES);
    assert_true(a->last.usage_prompt > FILES * ITEMS);
    stop(h);
}

static void assert_refused(struct harness *h, const void *data, size_t n, int error, const char *part)
{
    struct proto_request r = ask(1, 0, 1, 60);
    add_file(r.gen.messages, data, n);
    assert_error(harness_wait(h, harness_submit(h, &r)), error, part);
}

static void test_bad_files(void **state)
{
    struct harness *h = *state;
    uint8_t file[FILE_MOST], wide[FILE_MOST];
    static const char wav[] = "RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0data\x08\0\0\0"
                              "\0\0\0\x40\0\x80\xff\x7f";
    size_t n = png(file, 1);
    start(h);
    assert_refused(h, file, n - 20, EINVAL, "file 2 of 2: image: PNG: ");
    assert_refused(h, "hello", 5, EINVAL, "file 2 of 2: ");
    assert_refused(h, wav, sizeof(wav) - 1, EINVAL, "file 2 of 2: it is a sound, not an image");
    png(wide, 1);
    memset(wide + 16, 0x7f, 4);
    assert_refused(h, wide, n, EINVAL, "file 2 of 2: image: PNG: ");
    assert_int_equal(encoded(h), 0);
    assert_int_equal(harness_status(h, 0, "pixel_bytes"), 0);
    run(h, 1000, 1, 0, 2);
    stop(h);
    script.helper = NULL;
    h->config.media.helper = NULL;
    harness_start(h);
    assert_refused(h, file, n, EOPNOTSUPP, "hobd-decode is missing or did not start");
    harness_stop(h);
    h->config.media.mmproj = NULL;
    harness_start(h);
    assert_refused(h, file, n, EOPNOTSUPP, "has no encoder of images");
    harness_stop(h);
}

/* The file of an encoder for another model ends the start with an error message. */
static void test_wrong_encoder(void **state)
{
    struct harness *h = *state;
    struct buf b = BUF_INIT;
    encoder_file_bytes(&b, &encoder_file_gemma3, DIM / 2, 1);
    h->config.media.mmproj = model_file_write(b.data, b.len);
    buf_fini(&b);
    const char *why = NULL;
    assert_int_equal(engine_new(&h->engine, &h->config), 0);
    while (engine_state(h->engine, &why) == ENGINE_LOADING) usleep(1000);
    assert_non_null(why);
    assert_non_null(strstr(why, "it is for another model"));
    assert_ptr_equal(strstr(why, h->config.media.mmproj), why);
    harness_stop(h);
    unlink(h->config.media.mmproj);
    free(h->config.media.mmproj);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_same_bits),
        cmocka_unit_test(test_whole_images),
        TEST(test_known_files),
        TEST(test_beside_others),
        TEST(test_one_encoding_for_two),
        TEST(test_same_prompt_waits),
        TEST(test_cancel_and_late),
        TEST(test_preempted),
        TEST(test_eviction),
        TEST(test_cancel_while_decoding),
        TEST(test_restart),
        TEST(test_many_images),
        TEST(test_bad_files),
        TEST(test_wrong_encoder),
    };
    struct buf b = BUF_INIT;
    encoder_file_bytes(&b, &encoder_file_gemma3, DIM, 1);
    script.at = 5;
    script.mmproj = model_file_write(b.data, b.len);
    buf_fini(&b);
    const struct encoder_config config = {.cpu = getenv("HOB_CPU")};
    if (encoder_open(&script.encoder, script.mmproj, &config) < 0) return 1;
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    encoder_close(script.encoder);
    unlink(script.mmproj);
    free(script.mmproj);
    return r;
}
