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
