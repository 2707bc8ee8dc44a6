/* SPDX-License-Identifier: MIT */
#include "daemon/cache/prefix/prefix-node.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stddef.h>
#include <string.h>

/* Finds the parent of a file's node. 0: *at, which can be a new root; other results as prefix_disk_add. */
static int find_parent(struct prefix *p, const struct prefix_info *info, struct prefix_node **at)
{
    if (!(info->id.high | info->id.low)) return -EBADMSG;
    if (info->id.high == p->high || prefix_by_id(p, info->id)) return -EEXIST;
    if (!(info->parent.high | info->parent.low)) {
        *at = prefix_root_make(p, &info->namespace);
        return *at ? 0 : -ENOMEM;
    }
    *at = prefix_by_id(p, info->parent);
    if (!*at) return 1;
    if ((*at)->n < KV_BLOCK) return -EBADMSG;
    return memcmp(&(*at)->root->namespace, &info->namespace, sizeof(info->namespace)) == 0 ? 0 : -EBADMSG;
}

int prefix_disk_add(struct prefix *p, const struct prefix_info *info)
{
    struct prefix_node *at;
    const struct items t = prefix_info_items(info);
    if (t.n < 1 || t.n > KV_BLOCK || !items_check(&t)) return -EBADMSG;
    int r = find_parent(p, info, &at);
    if (r) return r;
    if (prefix_children_exact(at, &t)) return -EEXIST;
    struct prefix_node *n = prefix_node_make(p, at, info->id, &t, info->uid);
    if (!n) {
        prefix_node_prune(p, at);
        return -ENOMEM;
    }
    n->used = ++p->clock;
    n->uses = 1;
    n->group.disk_lacks = info->lacks;
    prefix_node_set_disk(p, n, true);
    return 0;
}

/* The last link of @t with a key of at most @key; NULL: none. */
static struct tree_link *last_until(const struct tree *t, uint64_t key)
{
    struct tree_link *found = NULL;
    for (struct tree_link *l = t->top; l;) {
        if (l->key <= key) found = l;
        l = l->key <= key ? l->right : l->left;
    }
    return found;
}

bool prefix_disk_begin_write(struct prefix *p, bool newest, uint64_t young, struct prefix_info *out)
{
    if (young > p->clock) return false;
    const uint64_t old = p->clock - young;
    struct tree_link *l = newest ? last_until(&p->write, old) : tree_first(&p->write);
    if (!l || l->key > old) return false;
    struct prefix_node *n = NODE_OF(l, queued.write);
    prefix_info(n, out);
    n->group.write_lacks = out->lacks = prefix_node_lacks(n);
    n->writing = true;
    prefix_node_requeue(p, n);
    return true;
}

void prefix_disk_written(struct prefix *p, struct prefix_id id)
{
    struct prefix_node *n = prefix_by_id(p, id);
    if (!n) return;
    n->writing = false;
    n->group.disk_lacks = n->group.write_lacks;
    prefix_node_set_disk(p, n, true);
    prefix_node_requeue(p, n);
}

void prefix_disk_write_failed(struct prefix *p, struct prefix_id id)
{
    struct prefix_node *n = prefix_by_id(p, id);
    if (!n) return;
    n->writing = false;
    prefix_node_requeue(p, n);
    prefix_node_prune(p, n);
}

bool prefix_disk_victim(struct prefix *p, struct prefix_info *out)
{
    const struct tree_link *l = tree_first(&p->disk);
    if (!l) return false;
    prefix_info(NODE_OF(l, queued.disk), out);
    return true;
}

void prefix_disk_removed(struct prefix *p, struct prefix_id id)
{
    struct prefix_node *n = prefix_by_id(p, id);
    if (!n || !n->on_disk) return;
    if (!prefix_node_at_hand(n)) prefix_ghost_add(p, n);
    prefix_node_set_disk(p, n, false);
    prefix_node_prune(p, n);
}
