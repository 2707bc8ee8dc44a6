/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/grammar-memory.h"
#include "libcommon/error.h"
#include <errno.h>
#include <stdlib.h>

struct grammar_memory *grammar_memory_ref(struct grammar_memory *m)
{
    if (m) atomic_fetch_add(&m->refs, 1);
    return m;
}

struct grammar_memory *grammar_memory_unref(struct grammar_memory *m)
{
    if (m && atomic_fetch_sub(&m->refs, 1) == 1) free(m);
    return NULL;
}

static bool try_take(struct grammar_memory *m, size_t n)
{
    if (atomic_fetch_add(&m->used, n) + n <= m->max) return true;
    atomic_fetch_sub(&m->used, n);
    return false;
}

bool grammar_memory_has_room(struct grammar_memory *m)
{
    while (m && atomic_load(&m->used) >= m->max)
        if (!m->free_some || !m->free_some(m)) return false;
    return true;
}

bool grammar_memory_is_short(const struct grammar_memory *m)
{
    return m && atomic_load(&m->used) > m->max / 4 * 3;
}

int grammar_memory_error(const struct grammar_memory *m)
{
    return error_say(-EDQUOT, "the constraints of this user's requests need more than %zu MiB",
                     m ? m->max >> 20 : (size_t)0);
}

static size_t whole_steps(size_t bytes)
{
    return (bytes + GRAMMAR_MEMORY_STEP - 1) / GRAMMAR_MEMORY_STEP * GRAMMAR_MEMORY_STEP;
}

bool grammar_share_cover(struct grammar_share *s, size_t bytes)
{
    struct grammar_memory *m = s->memory;
    if (!m || bytes <= s->taken) return true;
    size_t n = whole_steps(bytes - s->taken);
    while (!try_take(m, n))
        if (!m->free_some || !m->free_some(m)) return false;
    s->taken += n;
    return true;
}

void grammar_share_trim(struct grammar_share *s, size_t bytes)
{
    size_t need = whole_steps(bytes);
    if (!s->memory || need >= s->taken) return;
    atomic_fetch_sub(&s->memory->used, s->taken - need);
    s->taken = need;
}

void grammar_share_close(struct grammar_share *s)
{
    grammar_share_trim(s, 0);
    s->memory = grammar_memory_unref(s->memory);
}
