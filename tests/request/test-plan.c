/* SPDX-License-Identifier: MIT */
/* Requests with a common beginning: who waits for whom, and who computes it when the one that did has ended. */
#include "daemon/request/core.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MOST  8
#define WORDS 160
#define B     KV_BLOCK

/* A core that has nothing but sequences. */
struct fixture {
    struct core core;
    struct seq seqs[MOST];
    int32_t ids[MOST][WORDS];
    uint32_t n;
};

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct fixture));
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

/* A request that waits, its first @same tokens as those of @other (NULL: of nobody). */
static struct seq *add(struct fixture *f, const struct seq *other, uint32_t same)
{
    struct seq *s = &f->seqs[f->n];
    int32_t *ids = f->ids[f->n++];
    for (uint32_t i = 0; i < WORDS; i++) ids[i] = i < same ? other->prompt.tokens.ids[i] : (int32_t)(1000 * f->n + i);
    s->state = SEQ_WAITING;
    s->sched.arrival = f->n;
    s->prompt.tokens.ids = ids;
    s->prompt.tokens.n = WORDS;
    seq_list_push(&f->core.seqs, s);
    return s;
}

static struct seq *join(struct fixture *f, const struct seq *other, uint32_t same)
{
    struct seq *s = add(f, other, same);
    plan_join(&f->core, s);
    return s;
}

static void end(struct fixture *f, struct seq *s)
{
    s->state = SEQ_ENDED;
    plan_part(&f->core, s);
}

static void assert_waits(const struct seq *s, const struct seq *with, uint32_t n)
{
    assert_ptr_equal(s->sched.with, with);
    assert_int_equal(s->sched.with_n, n);
}

static void test_longest_beginning(void **state)
{
    struct fixture *f = *state;
    struct seq *a = join(f, NULL, 0), *b = join(f, a, 2 * B + 5), *c = join(f, b, 3 * B), *d = join(f, a, B - 1);
    assert_waits(a, NULL, 0);
    assert_waits(b, a, 2 * B); /* whole blocks */
    assert_waits(c, b, 3 * B);
    assert_waits(d, NULL, 0);
    assert_waits(join(f, a, WORDS), a, WORDS);
    assert_waits(join(f, b, 2 * B), a, 2 * B); /* of equals the first */
}

static void test_who_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct seq *a = join(f, NULL, 0), *b = add(f, a, 2 * B);
    plan_join(&f->core, a);
    assert_waits(a, NULL, 0); /* b came later */
    a->state = SEQ_SAVING;
    plan_join(&f->core, b);
    assert_waits(b, NULL, 0);
    a->state = SEQ_RUNNING;
    plan_join(&f->core, b);
    assert_waits(b, a, 2 * B);
    a->generated = 1; /* its prompt is computed */
    plan_join(&f->core, b);
    assert_waits(b, NULL, 0);
    a->generated = 0;
    a->reuse.namespace.bytes[0] ^= 1; /* nothing of it is for b */
    plan_join(&f->core, b);
    assert_waits(b, NULL, 0);
}

/* One of those who waited computes, and the rest wait for that one: for what all three have in common. */
static void test_one_inherits(void **state)
{
    struct fixture *f = *state;
    struct seq *a = join(f, NULL, 0), *b = join(f, a, 2 * B), *c = join(f, a, 3 * B), *d = join(f, a, B);
    struct seq *other = join(f, NULL, 0), *apart = join(f, other, 4 * B);
    end(f, a);
    assert_waits(b, NULL, 0);
    assert_waits(c, b, 2 * B);
    assert_waits(d, b, B);
    assert_waits(apart, other, 4 * B);
    end(f, b);
    assert_waits(c, NULL, 0);
    assert_waits(d, c, B);
    end(f, c);
    assert_waits(d, NULL, 0);
}

/* The heir has an earlier one to wait for: then it does, and the rest wait for the heir. */
static void test_heir_waits_for_another(void **state)
{
    struct fixture *f = *state;
    struct seq *early = join(f, NULL, 0), *a = join(f, early, B), *b = join(f, a, 3 * B), *c = join(f, a, 2 * B);
    assert_waits(a, early, B);
    end(f, a);
    assert_waits(b, early, B);
    assert_waits(c, b, 2 * B);
    early->generated = 1;
    plan_part(&f->core, early);
    assert_waits(b, NULL, 0);
    assert_waits(c, b, 2 * B);
}

/* Who has computed its prompt, or ended, is no heir: the rest would compute at once what it had not in common. */
static void test_heir_computes(void **state)
{
    struct fixture *f = *state;
    struct seq *a = join(f, NULL, 0), *decodes = join(f, a, B), *saves = join(f, a, B), *b = join(f, a, 3 * B),
               *c = join(f, a, 3 * B);
    decodes->generated = 1;
    decodes->state = SEQ_RUNNING;
    saves->state = SEQ_SAVING;
    end(f, a);
    assert_waits(decodes, NULL, 0);
    assert_waits(saves, NULL, 0);
    assert_waits(b, NULL, 0);
    assert_waits(c, b, 3 * B);
}

/* The list is not always in the order of arrival: two never wait for each other. */
static void test_later_one_stands_first(void **state)
{
    struct fixture *f = *state;
    struct seq *a = join(f, NULL, 0), *late = add(f, a, 2 * B), *b = add(f, a, 3 * B), *c = add(f, a, 2 * B);
    late->sched.arrival = 9;
    plan_join(&f->core, late);
    plan_join(&f->core, b);
    plan_join(&f->core, c);
    assert_waits(late, a, 2 * B);
    end(f, a);
    assert_waits(late, b, 2 * B);
    assert_waits(b, NULL, 0);
    assert_waits(c, b, 2 * B);
}

int main(void)
{
#define PLAN(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        PLAN(test_longest_beginning),      PLAN(test_who_is_waited_for), PLAN(test_one_inherits),
        PLAN(test_heir_waits_for_another), PLAN(test_heir_computes),     PLAN(test_later_one_stands_first),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
