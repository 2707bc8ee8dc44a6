/* SPDX-License-Identifier: MIT */
/* The parts that statements and expressions share: errors, nodes, the current token, the names of the blocks. */
#include "daemon/text/seed.h"
#include "daemon/text/template/jinja-parse.h"
#include "daemon/text/template/jinja-str.h"
#include "libcommon/error.h"
#include <stdarg.h>
#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

int jj_parse_fail(struct jj_parser *p, unsigned line, const char *fmt, ...)
{
    char b[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(b, sizeof(b), fmt, ap);
    va_end(ap);
    return p->err = error_say(-EINVAL, "template line %u: %s", line, b);
}

int jj_parse_unexpected(struct jj_parser *p, const char *expected)
{
    static const char *const names[] = {
        [JJ_T_EOF] = "end of template", [JJ_T_DATA] = "text",      [JJ_T_VAR_BEGIN] = "{{",
        [JJ_T_VAR_END] = "}}",          [JJ_T_BLOCK_BEGIN] = "{%", [JJ_T_BLOCK_END] = "%}",
        [JJ_T_STRING] = "string",       [JJ_T_INT] = "number",     [JJ_T_FLOAT] = "number",
    };
    char got[64];
    if (p->t->type == JJ_T_NAME)
        snprintf(got, sizeof(got), "'%.*s'", p->t->len > 50 ? 50 : (int)p->t->len, p->t->p);
    else if (p->t->type == JJ_T_OP)
        snprintf(got, sizeof(got), "'%s'", jj_op_text(p->t->op));
    else
        snprintf(got, sizeof(got), "%s", names[p->t->type]);
    if (!expected) return jj_parse_fail(p, p->t->line, "unexpected %s", got);
    return jj_parse_fail(p, p->t->line, "unexpected %s, expected %s", got, expected);
}

int jj_parse_enter(struct jj_parser *p)
{
    if (p->depth >= JJ_PARSE_DEPTH)
        return jj_parse_fail(p, p->t->line, "nested more than %d levels deep", JJ_PARSE_DEPTH);
    p->depth++;
    return 0;
}

struct jj_node *jj_node_new(struct jj_parser *p, enum jj_kind kind, unsigned line)
{
    if (p->err < 0) return NULL;
    struct jj_node *n = jj_arena_alloc(p->arena, sizeof(*n), &p->err);
    if (!n) return NULL;
    n->kind = kind;
    n->line = line;
    n->depth = 1;
    return n;
}

int jj_adopt(struct jj_parser *p, struct jj_node *n, const struct jj_node *child)
{
    if (child->depth >= n->depth) n->depth = (uint16_t)(child->depth + 1);
    if (n->depth > JJ_TREE_DEPTH)
        return jj_parse_fail(p, n->line, "an expression of more than %d levels", JJ_TREE_DEPTH);
    return 0;
}

struct jj_node *jj_node_binary(struct jj_parser *p, enum jj_kind kind, enum jj_op op, unsigned line, struct jj_node *a,
                               struct jj_node *b)
{
    struct jj_node *n = a && b ? jj_node_new(p, kind, line) : NULL;
    if (!n || jj_adopt(p, n, a) < 0 || jj_adopt(p, n, b) < 0) return NULL;
    n->op = op;
    n->a = a;
    n->b = b;
    return n;
}

int jj_list_add(struct jj_parser *p, struct jj_list *l, struct jj_node *parent, struct jj_node *item)
{
    if (!item) return p->err;
    *l->tail = item;
    l->tail = &item->next;
    ++*l->n;
    return jj_adopt(p, parent, item);
}

const struct jj_str *jj_token_str(struct jj_parser *p, const struct jj_token *t)
{
    struct jj_str *s = jj_arena_alloc(p->arena, sizeof(*s), &p->err);
    if (!s) return NULL;
    *s = (struct jj_str){.p = t->p, .len = t->len, .chars = jj_count_chars(t->p, t->len), .markup = true};
    return s;
}

bool jj_at_name(const struct jj_parser *p, const char *name)
{
    return p->t->type == JJ_T_NAME && strlen(name) == p->t->len && !memcmp(p->t->p, name, p->t->len);
}

bool jj_skip_op(struct jj_parser *p, enum jj_op op)
{
    bool is = jj_at_op(p, op);
    p->t += is;
    return is;
}

bool jj_skip_name(struct jj_parser *p, const char *name)
{
    bool is = jj_at_name(p, name);
    p->t += is;
    return is;
}

int jj_expect_op(struct jj_parser *p, enum jj_op op)
{
    if (jj_skip_op(p, op)) return 0;
    char want[8];
    snprintf(want, sizeof(want), "'%s'", jj_op_text(op));
    return jj_parse_unexpected(p, want);
}

/* The slot of block @name, or the free slot for it. */
static const struct jj_node **block_slot(const struct jj_block_index *index, const struct jj_str *name)
{
    size_t i = (size_t)XXH3_64bits_withSeed(name->p, name->len, hash_seed());
    for (;; i++) {
        const struct jj_node **slot = &index->slots[i & index->mask];
        if (!*slot || jj_str_eq((*slot)->name, name)) return slot;
    }
}

/* Makes room for one more block: at most two thirds of the slots are taken. */
static int block_room(struct jj_parser *p)
{
    struct jj_block_index *index = &p->block_index;
    if (index->slots && index->n < index->mask / 3 * 2) return 0;
    struct jj_block_index more = {.n = index->n, .mask = index->slots ? index->mask * 2 + 1 : 15};
    more.slots = jj_arena_alloc(p->arena, (more.mask + 1) * sizeof(const struct jj_node *), &p->err);
    if (!more.slots) return p->err;
    for (const struct jj_node *b = p->blocks; b; b = b->next) *block_slot(&more, b->name) = b;
    *index = more;
    return 0;
}

int jj_block_add(struct jj_parser *p, struct jj_node *block)
{
    int r = block_room(p);
    if (r < 0) return r;
    const struct jj_node **slot = block_slot(&p->block_index, block->name);
    if (*slot)
        return jj_parse_fail(p, block->line, "block '%.*s' defined twice",
                             block->name->len > 100 ? 100 : (int)block->name->len, block->name->p);
    *slot = block;
    p->block_index.n++;
    block->next = p->blocks;
    p->blocks = block;
    return 0;
}
