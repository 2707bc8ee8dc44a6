/* SPDX-License-Identifier: MIT */
/*
 * Answers that are taken back: random sequences sample, are led astray, return to a random position and continue. From
 * there on tokens, events, logits and text are, bit for bit, those of the same sequence that never went beyond. Some of
 * the prompts have runs of embeddings that a shift meets.
 */
#include "daemon/sequence/sequence.h"
#include "daemon/sequence/truncate.h"
#include "tests/engine/harness.h"
#include <errno.h>
#include <stdio.h>

#define PROMPT 40
#define ANSWER 150
#define VOCAB  512
#define STOPS  6
#define ROUNDS 24

enum { START, CHANNEL, MESSAGE, END, RETURN, CALL, MARKS }; /* the last tokens of the vocabulary */

/* A cache over a tiny model, without an engine. */
struct fixture {
    struct loaded model;
    struct kv_cache cache;
    struct sample_scratch *scratch;
    uint32_t blocks; /* of the pool */
};

/* A sequence, as a request would set it up. */
struct one {
    struct seq *all[1];
    struct seq_group group;
    struct seq *seq;
    bool ended;
};

/* After each token of the answer. */
struct logged {
    int32_t id;
    int result; /* of seq_push */
    enum proto_reason reason;
    char events[256];
    size_t text_len, markup_len, answer_len;
    uint32_t end, known;
    float row[VOCAB]; /* from which it was sampled */
};

static struct logged whole[ANSWER]; /* of the sequence that never returns */
static uint32_t n_whole;
/* how often it returned */
static unsigned returns, from_end, across_shift, across_run, inside_character, held, to_prompt;

static void start(struct fixture *f)
{
    struct engine_config config;
    struct tiny t;
    memset(f, 0, sizeof(*f));
    tiny_init(&t);
    t.harmony = true;
    engine_config_init(&config);
    config.kv_bytes = 1 << 20;
    assert_int_equal(harness_load(&f->model, &t, &config), 0);
    assert_true(f->model.vocab <= VOCAB);
    assert_int_equal(kv_cache_new(&f->cache, f->model.backend, &(struct spill_config){0}, NULL), 0);
    assert_int_equal(sample_scratch_new(&f->scratch, f->model.vocab), 0);
    f->blocks = kv_pool_total(f->cache.pools[0]);
}

static void stop(struct fixture *f)
{
    prefix_check(f->cache.prefix);
    assert_int_equal(kv_pool_free_blocks(f->cache.pools[0]) + prefix_evictable(f->cache.prefix), f->blocks);
    sample_scratch_free(f->scratch);
    kv_cache_free(&f->cache, 0);
    loaded_fini(&f->model);
}

/* --- a random sequence; the same after the same seed --- */

static void set_output(struct fixture *f, struct seq *s)
{
    struct proto_text stops[STOPS];
    char text[STOPS][3];
    for (unsigned i = 0; i < STOPS; i++) {
        text[i][0] = (char)('a' + harness_draw(26));
        text[i][1] = (char)('a' + harness_draw(26));
        text[i][2] = (char)('a' + harness_draw(26));
        stops[i] = (struct proto_text){text[i], 2 + harness_draw(2)};
    }
    const struct output_request q = {
        .stop = stops, .n_stop = harness_draw(STOPS + 1), .max_lines = harness_draw(4) ? 0 : 3 + harness_draw(6)};
    assert_int_equal(output_init(&s->output, f->model.tokenizer, &q), 0);
}

static void set_sampling(struct fixture *f, struct seq *s)
{
    struct sample_params *p = &s->sampling.params;
    struct sample_bias bias[MARKS];
    for (unsigned i = 0; i < MARKS; i++) bias[i] = (struct sample_bias){(int32_t)(f->model.vocab - MARKS + i), 5};
    sample_params_init(p);
    p->temperature = harness_draw(6) ? 1.5f : 0;
    if (harness_draw(2)) p->mirostat = 5;
    if (p->mirostat > 0) p->mirostat_eta = 0.3f;
    if (harness_draw(2)) p->repeat = 1.2f;
    if (harness_draw(2)) p->presence = 0.5f;
    p->repeat_n = 8 + harness_draw(60);
    s->sampling.seed = harness_draw(1000);
    assert_int_equal(sampling_start(&s->sampling, bias, harness_draw(2) ? MARKS : 0, f->model.eog,
                                    harness_draw(3) ? f->model.n_eog : 0),
                     0);
}

static void push_run(struct fixture *f, struct prompt *p, uint32_t n)
{
    struct item_run run = {.n = n, .kind = ITEM_IMAGE};
    struct embeddings *e;
    for (unsigned i = 0; i < sizeof(run.digest); i++) run.digest[i] = (uint8_t)harness_draw(256);
    assert_int_equal(embeddings_new(&e, n, f->model.backend->hparams.dim), 0);
    for (uint32_t i = 0; i < n * e->dim; i++) e->values[i] = (float)harness_draw(200) / 100 - 1;
    assert_int_equal(prompt_push_run(p, run, 0, e), 0);
    embeddings_unref(e);
}

/* @runs: the first shift would cut one at the end of the items that stay, and one at the beginning of the rest. */
static void set_prompt(struct fixture *f, struct seq *s, bool runs)
{
    struct prompt *p = &s->prompt;
    while (p->tokens.n < PROMPT)
        if (runs && p->tokens.n == 20)
            push_run(f, p, 8);
        else if (runs && p->tokens.n == 33)
            push_run(f, p, 5);
        else
            assert_int_equal(tokens_push(&p->tokens, (int32_t)harness_draw(250), 0), 0);
    s->n_prompt = PROMPT;
}

static void set_context(struct seq_context *c, bool runs)
{
    *c = (struct seq_context){.policy = PROTO_CONTEXT_REFUSE, .ctx = 512, .batch = 512};
    if (harness_draw(2)) *c = (struct seq_context){PROTO_CONTEXT_SHIFT, .ctx = 128, .keep = 32, .batch = 512};
    if (runs) *c = (struct seq_context){PROTO_CONTEXT_SHIFT, .ctx = 48, .keep = 24, .batch = 512};
}

static void one_new(struct fixture *f, struct one *o, unsigned seed, uint8_t namespace)
{
    memset(o, 0, sizeof(*o));
    o->group = (struct seq_group){.seqs = o->all, .n = 1, .left = 1};
    assert_int_equal(seq_new(&o->seq, NULL, &o->group, 0), 0);
    struct seq *s = o->seq;
    harness_seed = seed;
    s->state = SEQ_RUNNING;
    memset(&s->reuse.namespace, namespace, sizeof(s->reuse.namespace));
    s->max_tokens = ANSWER - harness_draw(10);
    set_context(&s->context, seed % 3 == 2);
    set_prompt(f, s, seed % 3 == 2);
    set_output(f, s);
    set_sampling(f, s);
    assert_int_equal(reuse_begin(&f->cache, s), 0);
}

static void one_end(struct fixture *f, struct one *o)
{
    reuse_end(&f->cache, o->seq);
    o->seq = seq_free(o->seq);
}

/* --- its steps --- */

static void preempt(struct fixture *f, struct seq *s)
{
    reuse_end(&f->cache, s);
    assert_int_equal(reuse_begin(&f->cache, s), 0);
}

/* Compute what is not, in a step for each stretch. @row: the logits of the last token. */
static void compute(struct fixture *f, struct seq *s, float *row)
{
    static float logits[VOCAB] __attribute__((aligned(64)));
    const struct items all = seq_items(s);
    const uint32_t *table = s->kv.tables[0].ids;
    assert_true(s->kv.n_tokens < all.n);
    while (s->kv.n_tokens < all.n) {
        uint8_t want[PROMPT + ANSWER] = {0};
        const struct items left = items_from(all, s->kv.n_tokens);
        struct batch_entry e = {
            .blocks = &table, .pos = s->kv.n_tokens, .n = items_stretch(&left), .tokens = left.ids, .want = want};
        assert_true(e.n > 0 && e.n <= sizeof(want));
        if (*left.ids == ITEM_EMBD) e.embd = seq_embd(s, e.pos);
        if (e.embd) e.tokens = NULL;
        want[e.n - 1] = WANT_LOGITS;
        assert_int_equal(f->model.backend->ops->forward(f->model.backend, &e, 1, logits, NULL), 0);
        s->kv.n_tokens += e.n;
    }
    reuse_advance(&f->cache, s);
    memcpy(row, logits, f->model.vocab * sizeof(*row));
}

static void push(struct fixture *f, struct one *o, int32_t id, struct logged *x)
{
    struct seq *s = o->seq;
    struct output_step out = {0};
    size_t n = 0;
    x->id = id;
    x->reason = PROTO_STOP_EOS;
    x->result = seq_push(s, id, &out, &x->reason);
    assert_true(x->result >= 0);
    x->events[0] = '\0';
    for (size_t i = 0; i < out.n && n < sizeof(x->events); i++)
        n += (size_t)snprintf(x->events + n, sizeof(x->events) - n, "%s:%s|", out.events[i].channel,
                              out.events[i].text.data);
    output_step_fini(&out);
    x->text_len = s->prompt.text.len;
    x->markup_len = s->prompt.markup.len;
    x->answer_len = s->output.answer.len;
    x->end = s->prompt.tokens.ends[s->prompt.tokens.n - 1];
    x->known = seq_known(s);
    o->ended = x->result == 1;
    if (x->result == 2) { /* shifted: its KV is of other positions */
        assert_int_equal(seq_truncate_kv(&f->cache, s, s->kv.n_tokens / KV_BLOCK * KV_BLOCK), 0);
        preempt(f, s);
    }
}

static void sample(struct fixture *f, struct one *o, struct logged *x)
{
    struct seq *s = o->seq;
    int32_t id;
    compute(f, s, x->row);
    assert_int_equal(sampling_pick(&s->sampling, f->scratch, (struct logits){.row = x->row}, s->prompt.tokens.ids,
                                   s->prompt.tokens.n, &id),
                     0);
    push(f, o, id, x);
}

/* A token that it would not have sampled. */
static void stray(struct fixture *f, struct one *o)
{
    struct seq *s = o->seq;
    struct logged x;
    int32_t id = (int32_t)harness_draw(f->model.vocab);
    compute(f, s, x.row);
    assert_int_equal(logits_chain_accept(&s->sampling.chain, id), 0);
    s->sampling.position++;
    push(f, o, id, &x);
}

/* --- comparing --- */

static void assert_logged(const struct fixture *f, const struct logged *a, const struct logged *b)
{
    assert_memory_equal(a->row, b->row, f->model.vocab * sizeof(*a->row));
    assert_int_equal(a->id, b->id);
    assert_int_equal(a->result, b->result);
    assert_int_equal(a->reason, b->reason);
    assert_string_equal(a->events, b->events);
    assert_int_equal(a->text_len, b->text_len);
    assert_int_equal(a->markup_len, b->markup_len);
    assert_int_equal(a->answer_len, b->answer_len);
    assert_int_equal(a->end, b->end);
    assert_int_equal(a->known, b->known);
}

/* Sample up to @n tokens, which are those of the whole answer. */
static void continues(struct fixture *f, struct one *o, uint32_t n)
{
    static struct logged x;
    for (; n && !o->ended; n--) {
        uint32_t at = o->seq->generated;
        assert_true(at < n_whole);
        sample(f, o, &x);
        assert_logged(f, &x, &whole[at]);
    }
}

/* Return to the first @n tokens of the answer. */
static void returns_to(struct fixture *f, struct one *o, uint32_t n)
{
    struct seq *s = o->seq;
    uint64_t shifted = s->context.shifted;
    if (n >= s->generated) return;
    from_end += o->ended;
    assert_int_equal(seq_truncate(&f->cache, s, PROMPT + n), 0);
    o->ended = false;
    returns++;
    across_shift += s->context.shifted != shifted;
    across_run += s->context.shifted != shifted && s->prompt.runs.n;
    inside_character += s->output.detok.n_pending > 0;
    held += s->output.stop.held.len > 0;
    to_prompt += n == 0;
    assert_int_equal(s->generated, n);
    assert_int_equal(s->sampling.position, n);
    assert_int_equal(s->prompt.tokens.n, PROMPT + n);
    assert_true(s->kv.n_tokens < seq_known(s));
    assert_true(s->kv.tables[0].n_blocks >= kv_table_blocks(seq_positions(s)));
    assert_int_equal(s->prompt.text.len, n ? whole[n - 1].text_len : 0);
    assert_int_equal(s->prompt.markup.len, n ? whole[n - 1].markup_len : 0);
    assert_int_equal(s->output.answer.len, n ? whole[n - 1].answer_len : 0);
    assert_int_equal(s->prompt.tokens.ends[PROMPT + n - 1], n ? whole[n - 1].end : 0);
    if (n) assert_int_equal(seq_known(s), whole[n - 1].known);
}

static void assert_same_text(const struct buf *a, const struct buf *b)
{
    assert_int_equal(a->len, b->len);
    if (a->len) assert_memory_equal(a->data, b->data, a->len);
}

static void play(struct fixture *f, unsigned seed)
{
    struct one a, b;
    one_new(f, &a, seed, 1);
    for (n_whole = 0; !a.ended; n_whole++) {
        assert_true(n_whole < ANSWER);
        sample(f, &a, &whole[n_whole]);
    }
    one_new(f, &b, seed, seed % 2 ? 1 : 2); /* half of them find what the first one computed */
    harness_seed = seed + 1000;
    for (unsigned i = 0; i < 40; i++) {
        uint32_t at = b.seq->generated;
        continues(f, &b, harness_draw(20));
        if (harness_draw(3) == 0) at = b.seq->generated;
        if (harness_draw(2)) {
            at = b.seq->generated;
            for (uint32_t n = harness_draw(60); n && !b.ended; n--) stray(f, &b);
        }
        if (harness_draw(6) == 0) preempt(f, b.seq);
        returns_to(f, &b, harness_draw(4) ? at - (at ? harness_draw(at < 12 ? at : 12) : 0) : harness_draw(at + 1));
    }
    continues(f, &b, ANSWER);
    assert_true(b.ended && b.seq->generated == n_whole);
    assert_same_text(&a.seq->prompt.text, &b.seq->prompt.text);
    assert_same_text(&a.seq->prompt.markup, &b.seq->prompt.markup);
    assert_same_text(&a.seq->output.answer, &b.seq->output.answer);
    one_end(f, &a);
    one_end(f, &b);
}

static void test_as_if_never_beyond(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    for (unsigned seed = 0; seed < ROUNDS; seed++) play(&f, seed);
    stop(&f);
    assert_true(returns > 200 && from_end && across_shift && across_run && inside_character && held && to_prompt);
}

/* The KV of a context that has rotated cannot be had back: after a preemption the tokens can. */
static void test_rotated(void **state)
{
    (void)state;
    struct fixture f;
    struct one o;
    start(&f);
    one_new(&f, &o, 3, 1);
    struct seq *s = o.seq;
    s->context = (struct seq_context){.policy = PROTO_CONTEXT_REFUSE, .ctx = 512, .batch = 512};
    while (!o.ended && s->generated < 20) stray(&f, &o);
    assert_true(s->generated > 4);
    uint32_t n = s->prompt.tokens.n;
    s->context.policy = PROTO_CONTEXT_ROTATE;
    s->context.ctx = s->kv.n_tokens - 1;
    assert_int_equal(seq_truncate(&f.cache, s, n - 3), -EOPNOTSUPP);
    assert_int_equal(s->prompt.tokens.n, n);
    assert_int_equal(s->sampling.position, s->generated);
    s->context.ctx = 512;
    reuse_end(&f.cache, s);
    s->context.ctx = 64;
    assert_int_equal(seq_truncate(&f.cache, s, n - 3), 0);
    assert_int_equal(s->prompt.tokens.n, n - 3);
    assert_int_equal(s->sampling.position, s->generated);
    o.seq = seq_free(s);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_if_never_beyond),
        cmocka_unit_test(test_rotated),
    };
    return cmocka_run_group_tests_name("truncate-answer", tests, NULL, NULL);
}
