/* SPDX-License-Identifier: MIT */
/* Files that are split into parts: the first has the keys, and each of them some of the tensors. */
#include "daemon/model/gguf-file.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/model-parts.h"
#include <string.h>

/* What a file says about its place in the model. */
struct place {
    uint32_t no, count; /* no: from 0 */
    int64_t tensors;    /* of all parts; -1: not said */
};

static int read_place(const struct gguf *g, struct place *p)
{
    *p = (struct place){.tensors = -1};
    int r = gguf_get_u32(g, "split.count", &p->count);
    if (r >= 0) r = gguf_get_u32(g, "split.no", &p->no);
    if (r >= 0) r = gguf_get_i64(g, "split.tensors.count", &p->tensors);
    if (r < 0) return r;
    if (p->count > MODEL_PARTS_MAX)
        return error_say(-EINVAL, "%s: key 'split.count' is %u; the limit is %d parts", g->path, p->count,
                         MODEL_PARTS_MAX);
    if (p->no && p->no >= p->count)
        return error_say(-EINVAL, "%s: key 'split.no' is %u, but 'split.count' is %u", g->path, p->no, p->count);
    return 0;
}

/* Open part @no (from 0) of @first, which says @all, and check that it is that part. */
static int open_part(struct gguf **out, const struct gguf *first, uint32_t no, const struct place *all)
{
    _cleanup_(freep) char *path = NULL;
    struct place p;
    int r = model_part_path(&path, first->path, no + 1, all->count);
    if (r < 0) return r;
    r = gguf_open_file(out, path);
    if (r == -ENOENT)
        return error_say(r, "%s: part %u of %u is missing: %s does not exist", first->path, no + 1, all->count, path);
    if (r) return r;
    r = read_place(*out, &p);
    if (r) return r;
    if (p.count != all->count || p.no != no)
        return error_say(-EINVAL, "%s: this is part %u of %u, not part %u of %u of %s", path, p.count ? p.no + 1 : 1,
                         p.count ? p.count : 1, no + 1, all->count, first->path);
    if (p.tensors != all->tensors)
        return error_say(-EINVAL, "%s: a part of another model: key 'split.tensors.count' is %lld, in %s %lld", path,
                         (long long)p.tensors, first->path, (long long)all->tensors);
    return 0;
}

/* Put the tensors of all parts into the directory of the first. */
static int join_tensors(struct gguf *g, const struct place *all)
{
    size_t n = g->n_tensors;
    for (uint32_t i = 0; i < g->n_others; i++) n += g->others[i]->n_tensors;
    if (n > GGUF_ENTRIES_MAX || (all->tensors >= 0 && n != (uint64_t)all->tensors))
        return error_say(-EINVAL, "%s: the %u parts have %zu tensors, but key 'split.tensors.count' is %lld", g->path,
                         all->count, n, (long long)all->tensors);
    struct gguf_tensor *tensors = reallocarray(g->tensors, n + 1, sizeof(*tensors));
    if (!tensors) return error_say(-ENOMEM, "%s: out of memory: %zu tensors", g->path, n);
    g->tensors = tensors;
    for (uint32_t i = 0; i < g->n_others; i++) {
        const struct gguf *o = g->others[i];
        memcpy(g->tensors + g->n_tensors, o->tensors, o->n_tensors * sizeof(*tensors));
        g->n_tensors += o->n_tensors;
    }
    return gguf_tensors_sort(g);
}

/* The others are closed with @g, also after an error. */
int gguf_parts_join(struct gguf *g)
{
    struct place all;
    int r = read_place(g, &all);
    g->n_parts = 1;
    if (r || all.count <= 1) return r;
    g->n_parts = all.count;
    if (all.no) {
        _cleanup_(freep) char *first = NULL;
        r = model_part_path(&first, g->path, 1, all.count);
        return r ? r
                 : error_say(-EOPNOTSUPP, "%s: part %u of %u of a split model: name its first part, %s", g->path,
                             all.no + 1, all.count, first);
    }
    g->others = calloc(all.count - 1, sizeof(struct gguf *));
    if (!g->others) return error_say(-ENOMEM, "%s: out of memory: %u parts", g->path, all.count);
    while (!r && g->n_others < all.count - 1) {
        struct gguf *other = NULL;
        r = open_part(&other, g, g->n_others + 1, &all);
        if (other) g->others[g->n_others++] = other;
    }
    return r ? r : join_tensors(g, &all);
}

void gguf_parts_close(struct gguf *g)
{
    while (g->n_others) gguf_close(g->others[--g->n_others]);
    free(g->others);
    g->others = NULL;
}

const struct gguf *gguf_part(const struct gguf *g, uint32_t i)
{
    if (i == 0) return g;
    return i <= g->n_others ? g->others[i - 1] : NULL;
}

uint32_t gguf_n_parts(const struct gguf *g)
{
    return g->n_parts;
}

int gguf_complete(const struct gguf *g)
{
    return g->incomplete ? error_say(g->incomplete_errno, "%s", g->incomplete) : 0;
}
