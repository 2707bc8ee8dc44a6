/* SPDX-License-Identifier: MIT */
/* The files of recurrent states, and the check of all of them. */
#include "daemon/cache/prefix/prefix-node.h"
#include <assert.h>
#include <stddef.h>
#include <string.h>

#define STATE_OF(link, member) ((struct prefix_state *)((char *)(link)-offsetof(struct prefix_state, member)))

static bool same_place(const struct prefix_node *n, const struct prefix_info *info)
{
    const struct items a = prefix_node_items(n), b = prefix_info_items(info);
    return n->parent->id.high == info->parent.high && n->parent->id.low == info->parent.low && items_equal(&a, &b) &&
           memcmp(&n->root->namespace, &info->namespace, sizeof(info->namespace)) == 0;
}

static void set_disk(struct prefix *p, struct prefix_node *n, bool on_disk)
{
    const uint64_t more = on_disk ? 1 : (uint64_t)-1;
    n->state->on_disk = on_disk;
    n->owner->stats.states_disk += more;
    p->stats.states_disk += more;
    prefix_state_requeue(p, n);
}

int prefix_state_disk_add(struct prefix *p, const struct prefix_info *info)
{
    struct prefix_node *n = prefix_by_id(p, info->id);
    if (!n || !n->state || prefix_state_readable(n) || !same_place(n, info)) return 1;
    n->state->used = ++p->clock;
    n->state->kind = PREFIX_STATE_TURN;
    set_disk(p, n, true);
    return 0;
}

bool prefix_state_begin_write(struct prefix *p, bool newest, struct prefix_info *out)
{
    struct tree_link *l = newest ? tree_last(&p->states.write) : tree_first(&p->states.write);
    if (!l) return false;
    struct prefix_state *s = STATE_OF(l, write);
    s->writing = true;
    prefix_state_requeue(p, s->node);
    prefix_info(s->node, out);
    out->used = s->used;
    return true;
}

bool prefix_states_to_write(const struct prefix *p)
{
    return p->states.write.top;
}

void prefix_state_written(struct prefix *p, struct prefix_id id)
{
    struct prefix_node *n = prefix_by_id(p, id);
    if (!n || !n->state) return;
    n->state->writing = false;
    if (!n->state->on_disk) set_disk(p, n, true);
}

void prefix_state_write_failed(struct prefix *p, struct prefix_id id)
{
    struct prefix_node *n = prefix_by_id(p, id);
    if (!n || !n->state) return;
    n->state->writing = false;
    prefix_state_requeue(p, n);
    prefix_node_prune(p, n);
}

bool prefix_state_victim(struct prefix *p, struct prefix_info *out, bool *orphan)
{
    const struct tree_link *l = tree_first(&p->states.files);
    if (!l) return false;
    const struct prefix_state *s = STATE_OF(l, file);
    prefix_info(s->node, out);
    out->used = s->used;
    *orphan = !prefix_node_readable(s->node);
    return true;
}

void prefix_state_removed(struct prefix *p, struct prefix_id id)
{
    struct prefix_node *n = prefix_by_id(p, id);
    if (!n || !prefix_state_on_disk(n)) return;
    set_disk(p, n, false);
    prefix_node_prune(p, n);
}

/* --- check --- */

/* Checks the list of an owner, and returns how many states it has. */
static uint64_t check_list(const struct prefix *p, const struct prefix_owner *o)
{
    const struct prefix_state *before = NULL;
    uint64_t listed = 0;
    for (const struct prefix_state *s = o->oldest; s; before = s, s = s->newer, listed++) {
        assert(s->older == before && s->node->state == s && s->node->owner == o);
        assert(s->block != KV_NO_BLOCK && s->node->block != KV_NO_BLOCK && kv_pool_refs(p->states.pool, s->block) > 0);
        assert(s->used <= p->clock && (!before || before->used <= s->used));
    }
    assert(o->newest == before && listed == o->stats.states_memory);
    assert(o->in_states.in == (listed ? &p->states.owners : NULL) && (!listed || o->in_states.key == listed));
    return listed;
}

void prefix_state_check(const struct prefix *p)
{
    uint64_t listed = 0, files = 0, write = 0;
    for (uint64_t i = 0; i <= p->uids.mask; i++)
        for (const struct table_link *l = p->uids.slots[i]; l; l = l->next)
            listed +=
                check_list(p, (const struct prefix_owner *)((const char *)l - offsetof(struct prefix_owner, by_uid)));
    assert(listed == p->stats.states_memory);
    for (uint64_t i = 0; i <= p->ids.mask; i++)
        for (const struct table_link *l = p->ids.slots[i]; l; l = l->next) {
            const struct prefix_node *n = NODE_OF(l, by_id);
            const struct prefix_state *s = n->state;
            assert(!s == (!p->states.pool || n->n < KV_BLOCK));
            if (!s) continue;
            const bool wanted =
                s->block != KV_NO_BLOCK && s->kind == PREFIX_STATE_TURN && n->on_disk && !s->on_disk && !s->writing;
            assert(s->node == n && !(s->on_disk && s->writing));
            assert(s->write.in == (wanted ? &p->states.write : NULL) && (!wanted || s->write.key == s->used));
            assert(s->file.in == (s->on_disk ? &p->states.files : NULL));
            assert(!s->on_disk || s->file.key == (prefix_node_readable(n) ? s->used : 0));
            files += s->on_disk;
            write += wanted;
        }
    assert(files == p->stats.states_disk && tree_check(&p->states.files) == files);
    assert(tree_check(&p->states.write) == write);
}
