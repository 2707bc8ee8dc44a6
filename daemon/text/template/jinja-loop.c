/* SPDX-License-Identifier: MIT */
/* for loops and their loop variable. Each item is tested against the loop's condition as late as possible, because the
 * condition may read variables that the body has set. */
#include "daemon/text/template/jinja-exec.h"
#include <inttypes.h>

struct jj_loop {
    const struct jj_node *node;
    struct jj_scope *outer; /* scope around the loop */
    struct jj_seq *items;
    size_t at;           /* the next of items to test */
    struct jj_seq *next; /* items that have passed the condition; pos: how many of them have been used */
    struct jj_value before, current;
    int64_t index0; /* index of current; -1 before the first */
    unsigned depth;
    struct jj_seq *changed; /* the last values of changed() */
    struct jj_scope *scope; /* of the last round; reused unless a macro made in it may still read it */
    uint64_t closures;
};

/* Adds one more item to l->next: 1, or 0 at the end. */
static int pull(struct jj *j, struct jj_loop *l)
{
    while (l->at < l->items->n) {
        struct jj_value item = l->items->v[l->at++], pass = jj_bool(true);
        if (l->node->c) {
            struct jj_scope *s = jj_alloc(j, sizeof(*s));
            if (!s) return j->err;
            s->parent = l->outer;
            int r = jj_assign(j, s, l->node->a, item);
            if (r == 0) r = jj_eval(j, s, l->node->c, &pass);
            if (r < 0) return r;
        }
        if (!jj_truth(pass)) continue;
        int r = jj_seq_push(j, l->next, item);
        return r < 0 ? r : 1;
    }
    return 0;
}

/* 1: *out is the item after the current one. */
static int peek(struct jj *j, struct jj_loop *l, struct jj_value *out)
{
    int r = l->next->pos < l->next->n ? 1 : pull(j, l);
    if (r > 0) *out = l->next->v[l->next->pos];
    return r;
}

/* Moves to the next item: 1, or 0 at the end. */
static int step(struct jj *j, struct jj_loop *l)
{
    struct jj_value item;
    int r = peek(j, l, &item);
    if (r <= 0) return r;
    if (++l->next->pos == l->next->n) l->next->pos = l->next->n = 0;
    l->before = l->current;
    l->current = item;
    l->index0++;
    return 1;
}

static int loop_length(struct jj *j, struct jj_loop *l, int64_t *out)
{
    if (!l->node->c) { /* the length is known without taking the items */
        *out = l->index0 + 1 + (int64_t)(l->next->n - l->next->pos) + (int64_t)(l->items->n - l->at);
        return 0;
    }
    int r;
    while ((r = pull(j, l)) > 0) continue;
    *out = l->index0 + 1 + (int64_t)(l->next->n - l->next->pos);
    return r;
}

/* Makes an empty scope for the next round, in the memory of the last one if that is free. */
static struct jj_scope *round_scope(struct jj *j, struct jj_loop *l)
{
    struct jj_scope *s = l->scope;
    if (!s || l->closures != j->closures) {
        s = l->scope = jj_alloc(j, sizeof(*s));
        if (!s) return NULL;
        s->parent = l->outer;
    } else if (s->vars) {
        struct jj_var *last = s->vars;
        while (last->next) last = last->next;
        last->next = s->spare;
        s->spare = s->vars;
        s->vars = NULL;
    }
    l->closures = j->closures;
    return s;
}

static int run_body(struct jj *j, struct jj_loop *l, struct jj_value loop, struct jj_sb *out)
{
    static const struct jj_str name = {.p = "loop", .len = 4, .chars = 4, .markup = true};
    struct jj_scope *s = round_scope(j, l);
    if (!s) return j->err;
    int r = jj_scope_set(j, s, &name, loop);
    if (r == 0) r = jj_assign(j, s, l->node->a, l->current);
    if (r == 0) r = jj_exec(j, s, l->node->list, out);
    return r;
}

int jj_loop_run(struct jj *j, struct jj_scope *s, const struct jj_node *n, struct jj_value of, unsigned depth,
                struct jj_sb *out)
{
    struct jj_loop *l = jj_alloc(j, sizeof(*l));
    if (!l) return j->err;
    *l = (struct jj_loop){.node = n, .outer = s, .index0 = -1, .depth = depth};
    l->items = jj_iterate(j, of);
    l->next = l->items ? jj_seq_new(j, JJ_LIST, 2) : NULL;
    if (!l->next) return j->err;
    struct jj_value loop = {.type = JJ_LOOP, .loop = l};
    /* Jinja runs the else branch unless a round has reached the end of the body; break and continue do not count. */
    bool none = true;
    int r;
    while ((r = step(j, l)) > 0) {
        r = run_body(j, l, loop, out);
        if (r < 0 || r == JJ_BREAK) break;
        if (r == 0) none = false;
    }
    if (r < 0) return r;
    if (!none || !n->d) return 0;
    struct jj_scope *inner = jj_alloc(j, sizeof(*inner));
    if (!inner) return j->err;
    inner->parent = s;
    return jj_exec(j, inner, n->d, out);
}

int jj_loop_call(struct jj *j, struct jj_loop *l, const struct jj_args *args, struct jj_value *out)
{
    if (!l->node->flag) return jj_error(j, "the loop must have the 'recursive' marker to be called recursively");
    if (args->n_pos != 1 || args->n_kw) return jj_error(j, "loop() takes one argument, the items of the nested loop");
    if (j->calls >= j->limits.depth) return jj_too_much(j, "nested calls", j->limits.depth);
    j->calls++;
    struct jj_sb sb = {.j = j};
    int r = jj_loop_run(j, l->outer, l->node, args->pos[0], l->depth + 1, &sb);
    j->calls--;
    return r < 0 ? r : jj_sb_finish(&sb, out);
}

static int loop_cycle(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    if (!c->args->n_pos) return jj_error(j, "no items for cycling given");
    *out = c->args->pos[(size_t)c->self.loop->index0 % c->args->n_pos];
    return 0;
}

static int loop_changed(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    struct jj_loop *l = c->self.loop;
    struct jj_seq *now = jj_seq_new(j, JJ_TUPLE, c->args->n_pos);
    if (!now) return j->err;
    for (size_t i = 0; i < c->args->n_pos; i++) now->v[now->n++] = c->args->pos[i];
    bool same = false;
    int r = l->changed ? jj_equal(j, jj_sequence(l->changed), jj_sequence(now), &same) : 0;
    l->changed = now;
    *out = jj_bool(!same);
    return r;
}

static const struct jj_builtin methods[] = {
    {"cycle", loop_cycle, NULL, 0},
    {"changed", loop_changed, NULL, 0},
};

enum { INDEX, INDEX0, REVINDEX, REVINDEX0, FIRST, LAST, LENGTH, DEPTH, DEPTH0, PREVITEM, NEXTITEM };
static const char *const attributes[] = {"index",  "index0", "revindex", "revindex0", "first",   "last",
                                         "length", "depth",  "depth0",   "previtem",  "nextitem"};

static int attribute(struct jj *j, struct jj_loop *l, size_t which, struct jj_value *out)
{
    int64_t length = 0;
    struct jj_value next = jj_none();
    int r = 0;
    if (which == REVINDEX || which == REVINDEX0 || which == LENGTH) r = loop_length(j, l, &length);
    if (which == LAST || which == NEXTITEM) r = peek(j, l, &next);
    if (r < 0) return r;
    switch (which) {
    case INDEX:
        *out = jj_int(l->index0 + 1);
        return 0;
    case INDEX0:
        *out = jj_int(l->index0);
        return 0;
    case REVINDEX:
        *out = jj_int(length - l->index0);
        return 0;
    case REVINDEX0:
        *out = jj_int(length - l->index0 - 1);
        return 0;
    case FIRST:
        *out = jj_bool(l->index0 == 0);
        return 0;
    case LAST:
        *out = jj_bool(r == 0);
        return 0;
    case LENGTH:
        *out = jj_int(length);
        return 0;
    case DEPTH:
        *out = jj_int(l->depth + 1);
        return 0;
    case DEPTH0:
        *out = jj_int(l->depth);
        return 0;
    case PREVITEM:
        *out = l->before;
        return l->index0 > 0 ? 0 : jj_undefined(j, "there is no previous item", out);
    default:
        *out = next;
        return r > 0 ? 0 : jj_undefined(j, "there is no next item", out);
    }
}

int jj_loop_repr(struct jj_sb *sb, struct jj_loop *l)
{
    int64_t length;
    int r = loop_length(sb->j, l, &length);
    return r < 0 ? r : jj_sb_printf(sb, true, "<LoopContext %" PRId64 "/%" PRId64 ">", l->index0 + 1, length);
}

int jj_loop_attr(struct jj *j, struct jj_value loop, const struct jj_str *name, struct jj_value *out)
{
    for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
        if (jj_str_is(name, attributes[i])) return attribute(j, loop.loop, i, out);
    const struct jj_builtin *b = JJ_FIND(methods, name);
    if (!b) return jj_undefined_attr(j, loop, jj_string(name), out);
    struct jj_func *fn = jj_alloc(j, sizeof(*fn));
    if (!fn) return j->err;
    fn->builtin = b;
    fn->self = loop;
    *out = (struct jj_value){.type = JJ_FUNC, .fn = fn};
    return 0;
}
