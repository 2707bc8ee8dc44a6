/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/mask-part.h"
#include "daemon/text/grammar/mask-cache.h"
#include "daemon/text/grammar/relax.h"
#include "libcommon/buf.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

#define KEY_MAX     4096 /* longer expressions are not shared between grammars */
#define KEY_DEEP    64
#define FEW         8    /* a state with fewer next bytes is walked at once */
#define NAMES_NODES 5000 /* of an expression that is searched for repetitions */

struct mask_part *mask_part_ref(struct mask_part *p)
{
    atomic_fetch_add(&p->refs, 1);
    return p;
}

struct mask_part *mask_part_unref(struct mask_part *p)
{
    if (!p || atomic_fetch_sub(&p->refs, 1) > 1) return NULL;
    if (p->memory) atomic_fetch_sub(&p->memory->used, mask_part_bytes(p));
    grammar_memory_unref(p->memory);
    free(p->tokens);
    free(p->bits);
    free(p->times_end);
    free(p->nodes);
    free(p->counts);
    free(p);
    return NULL;
}

size_t mask_part_bytes(const struct mask_part *p)
{
    return sizeof(*p) + (p->tokens ? p->n_tokens * sizeof(*p->tokens) : 0) + p->words * sizeof(*p->bits) +
           p->n_times * sizeof(*p->times_end) +
           p->first[256] * (sizeof(*p->nodes) + (p->counts ? sizeof(*p->counts) : 0));
}

static void charge(struct mask_part *p, struct grammar_memory *m)
{
    if (p->memory || !m) return;
    p->memory = grammar_memory_ref(m);
    atomic_fetch_add(&m->used, mask_part_bytes(p));
}

static bool write_key(const struct regex_store *s, expr_t e, struct buf *out, unsigned depth);

static int compare_bufs(const void *a, const void *b)
{
    const struct buf *x = a, *y = b;
    int c = memcmp(x->data, y->data, x->len < y->len ? x->len : y->len);
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

/* Children in an order that does not depend on their indexes. */
static bool write_children(const struct regex_store *s, const struct regex_node *x, struct buf *out, unsigned depth)
{
    if (x->b > KEY_MAX) return false;
    struct buf *v = calloc(x->b, sizeof(*v));
    bool ok = v;
    for (uint32_t i = 0; i < x->b && ok; i++) ok = write_key(s, s->kids[x->a + i], &v[i], depth);
    if (ok) qsort(v, x->b, sizeof(*v), compare_bufs);
    for (uint32_t i = 0; i < x->b && ok; i++)
        ok = out->len + v[i].len <= KEY_MAX && buf_append(out, v[i].data, v[i].len) == 0;
    for (uint32_t i = 0; i < x->b && v; i++) buf_fini(&v[i]);
    free(v);
    return ok;
}

/* Writes an expression so that equal texts are equal expressions, in any store. */
static bool write_key(const struct regex_store *s, expr_t e, struct buf *out, unsigned depth)
{
    const struct regex_node *x = regex_node(s, e);
    const char kind = (char)x->kind;
    if (out->len > KEY_MAX || depth > KEY_DEEP || buf_append(out, &kind, 1)) return false;
    switch ((enum regex_kind)x->kind) {
    case REGEX_NONE:
    case REGEX_EMPTY:
        return true;
    case REGEX_SET:
        return buf_append(out, &s->sets[x->a], sizeof(*s->sets)) == 0;
    case REGEX_CAT:
        return write_key(s, x->a, out, depth + 1) && write_key(s, x->b, out, depth + 1);
    case REGEX_NOT:
        return write_key(s, x->a, out, depth + 1);
    case REGEX_REPEAT:
        return buf_append(out, &x->b, sizeof(x->b) * 2) == 0 && write_key(s, x->a, out, depth + 1);
    case REGEX_ALT:
    case REGEX_AND:
        return buf_append(out, &x->b, sizeof(x->b)) == 0 && write_children(s, x, out, depth + 1);
    case REGEX_RULE:
    case REGEX_TOKENS:
        break;
    }
    return false;
}

/* @counted belongs to the key. */
static int get(struct dfa *d, const struct token_trie *t, uint32_t q, bool counted, struct mask_part **out)
{
    struct buf key = BUF_INIT;
    const char kind = (char)counted;
    bool has_key = buf_append(&key, &d->space, sizeof(d->space)) == 0 && buf_append(&key, &kind, 1) == 0 &&
                   write_key(&d->store, d->states[q].node, &key, 0);
    *out = has_key ? mask_cache_get(t->cache, key.data, key.len) : NULL;
    int r = 0;
    if (!*out) {
        r = counted ? mask_part_count(d, t, q, out) : mask_part_walk(d, t, q, false, out);
        if (r == 0) charge(*out, d->store.share.memory);
        if (r == 0 && has_key) mask_cache_put(t->cache, key.data, key.len, *out);
    }
    buf_fini(&key);
    return r;
}

/* Whether an expression has a repetition; true if it is large. */
static bool has_repeat(const struct regex_store *s, expr_t e, unsigned *left)
{
    const struct regex_node *x = regex_node(s, e);
    if (x->kind == REGEX_REPEAT || *left == 0) return true;
    (*left)--;
    if (x->kind == REGEX_CAT) return has_repeat(s, x->a, left) || has_repeat(s, x->b, left);
    if (x->kind == REGEX_NOT) return has_repeat(s, x->a, left);
    bool has = false;
    for (uint32_t i = 0; (x->kind == REGEX_ALT || x->kind == REGEX_AND) && i < x->b && !has; i++)
        has = has_repeat(s, s->kids[x->a + i], left);
    return has;
}

/* x of a state x & !y, where y has no repetition: names, for example. REGEX_ID_ALL: the state is none. */
static expr_t base_of(struct regex_store *s, expr_t e)
{
    const struct regex_node x = *regex_node(s, e);
    expr_t few[8];
    size_t n = 0;
    unsigned left = NAMES_NODES;
    if (x.kind != REGEX_AND || x.b > 8) return REGEX_ID_ALL;
    for (uint32_t i = 0; i < x.b; i++) {
        expr_t kid = s->kids[x.a + i];
        if (regex_node(s, kid)->kind != REGEX_NOT)
            few[n++] = kid;
        else if (has_repeat(s, regex_node(s, kid)->a, &left))
            return REGEX_ID_ALL;
    }
    return n && n < x.b ? regex_and(s, few, n) : REGEX_ID_ALL;
}

/* The part of state @q by that of state @base. */
static int make_from(struct dfa *d, const struct token_trie *t, uint32_t q, uint32_t base, bool deep,
                     struct mask_part **out)
{
    const uint32_t pair[] = {q, base};
    const struct mask_part *p;
    if (!d->states[base].edges && !dfa_expand(d, base)) return dfa_status(d);
    int r = mask_part_get(d, t, base, &p);
    if (r < 0) return r;
    return deep ? mask_part_deepen(d, t, pair, p, out) : mask_part_differ(d, t, pair, p, out);
}

/* The part of x{m,n}. *out is NULL: its strings cannot be counted. */
static int get_counted(struct dfa *d, const struct token_trie *t, expr_t x, struct mask_part **out)
{
    uint32_t one = dfa_state_of(d, x);
    if (one == UINT32_MAX) return dfa_status(d);
    int r = get(d, t, one, true, out);
    if (r == 0 && (*out)->kind != PART_COUNTED) *out = mask_part_unref(*out);
    return r;
}

static int find_or_make(struct dfa *d, const struct token_trie *t, uint32_t q, struct mask_part **out)
{
    const struct regex_node *x = regex_node(&d->store, d->states[q].node);
    bool loop = x->kind == REGEX_CAT && regex_node(&d->store, x->b)->kind == REGEX_REPEAT;
    if (byte_set_count(&d->states[q].live) < FEW && !loop) return mask_part_walk(d, t, q, true, out);
    *out = NULL;
    int r = x->kind == REGEX_REPEAT ? get_counted(d, t, x->a, out) : 0;
    if (r < 0 || *out) return r;
    uint32_t base;
    r = relax_state(d, q, &base);
    if (r != 0) return r < 0 ? r : make_from(d, t, q, base, true, out);
    expr_t e = base_of(&d->store, d->states[q].node);
    if (e == REGEX_ID_ALL) return get(d, t, q, false, out);
    base = dfa_state_of(d, e);
    return base == UINT32_MAX ? dfa_status(d) : make_from(d, t, q, base, false, out);
}

int mask_part_get(struct dfa *d, const struct token_trie *t, uint32_t q, const struct mask_part **out)
{
    struct grammar_memory *m = d->store.share.memory;
    *out = d->states[q].part;
    if (*out) return 0;
    if (!grammar_memory_has_room(m)) return grammar_memory_error(m);
    struct mask_part *p;
    int r = find_or_make(d, t, q, &p);
    if (r < 0) return r;
    charge(p, m);
    d->part_bytes += p->kind == PART_COUNTED ? 0 : mask_part_bytes(p);
    *out = d->states[q].part = p;
    return 0;
}

void mask_parts_forget(struct dfa *d)
{
    for (size_t i = 0; i < d->n; i++) d->states[i].part = mask_part_unref(d->states[i].part);
    d->part_bytes = 0;
    d->parts_of = 0;
}
