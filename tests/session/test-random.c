/* SPDX-License-Identifier: MIT */
/* Random steps on a store with a directory and on a simple model of it: after each step and restart both have the same
 * content. */
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NAMES = 6, UIDS = 2, STEPS = 8000 };

/* A session in the model: its text in memory and on disk. NULL: none. */
struct known {
    char *memory, *disk;
};

struct world {
    struct fixture g;
    struct known known[UIDS][NAMES];
    unsigned turn;
};

static const char *const names[NAMES] = {"a", "b", "ä", "a b", ".", "f"};

static char *copy(const char *s)
{
    return s ? strdup(s) : NULL;
}

static void set(char **to, char *s)
{
    free(*to);
    *to = s;
}

static struct session *begin(struct world *w, unsigned uid, unsigned name)
{
    struct session *x = fixture_acquire(&w->g, uid, names[name]);
    const struct known *k = &w->known[uid][name];
    if (k->memory) {
        char *have = fixture_dump(x);
        assert_string_equal(have, k->memory);
        free(have);
    } else {
        assert_true(x->content.n_ids == 0 && x->content.n_messages == 0 && x->content.n_outcomes == 0);
    }
    return x;
}

static bool empty(const struct session *x)
{
    return x->content.n_ids == 0 && x->content.n_messages == 0 && x->content.text.len == 0;
}

static void end(struct world *w, struct session *x, unsigned uid, unsigned name)
{
    struct known *k = &w->known[uid][name];
    set(&k->memory, empty(x) && !k->disk ? NULL : fixture_dump(x));
    session_release(w->g.store, x);
}

static void long_text(struct session *x)
{
    static char text[20000];
    if (x->content.text.len > 100000) return;
    memset(text, 'a' + (int)(random() % 26), sizeof(text));
    assert_int_equal(session_append(x, 4, text, 8000 + (size_t)random() % 12000, false), 0);
}

static void turn(struct world *w, unsigned uid, unsigned name)
{
    struct session *x = begin(w, uid, name);
    struct known *k = &w->known[uid][name];
    if (random() % 3 == 0) session_truncate(x, (size_t)random() % (x->content.n_ids + 1));
    if (random() % 4 == 0) session_drop_messages(x, (size_t)random() % (x->content.n_messages + 1));
    if (random() % 8 == 0) session_forget_tokens(x);
    if (random() % 8) {
        if (random() % 8 == 0) x->content.raw = !x->content.raw;
        for (size_t i = 0; i < x->content.markup.len && random() % 4 == 0; i += 3) x->content.markup.data[i] ^= 1;
        fixture_turn(x, ++w->turn);
        if (random() % 2) long_text(x); /* so that forks and renames share */
    }
    if (random() % 4) {
        assert_int_equal(session_save(x), 0);
        set(&k->disk, fixture_dump(x));
    }
    end(w, x, uid, name);
}

static unsigned shared; /* forks and renames that did */

static void duplicate(struct world *w, unsigned uid, unsigned name, unsigned to, bool rename)
{
    struct known *k = &w->known[uid][name], *t = &w->known[uid][to];
    struct session *x = begin(w, uid, name), *y = NULL;
    int r = (rename ? session_rename : session_fork)(w->g.store, x, names[to], strlen(names[to]), &y);
    assert_int_equal(r, t->memory || to == name ? -EEXIST : 0);
    if (r == 0) {
        if (rename) {
            r = session_move(y, x);
        } else if (random() % 2) {
            r = session_duplicate(y, x);
            if (r == 0) r = session_load(y);
        } else { /* with a turn */
            r = session_copy(y, x);
            if (r == 0 && random() % 2) session_truncate(y, (size_t)random() % (y->content.n_ids + 1));
            if (r == 0 && random() % 2) fixture_turn(y, ++w->turn);
            if (r == 0) r = session_save(y);
        }
        assert_int_equal(r, 0);
        shared += y->log.n_bases > 0;
        set(&t->disk, fixture_dump(y));
        if (rename) set(&k->disk, NULL);
        end(w, y, uid, to);
    }
    end(w, x, uid, name);
}

static void erase(struct world *w, unsigned uid, unsigned name)
{
    struct session *x = NULL;
    struct known *k = &w->known[uid][name];
    int r = session_acquire(w->g.store, uid, names[name], strlen(names[name]), false, &x);
    assert_int_equal(r, k->memory ? 0 : -ENOENT);
    if (r < 0) return;
    assert_int_equal(session_erase(x), 0);
    session_release(w->g.store, x);
    set(&k->memory, NULL);
    set(&k->disk, NULL);
}

static void revert(struct world *w, unsigned uid, unsigned name)
{
    struct known *k = &w->known[uid][name];
    struct session *x = begin(w, uid, name);
    fixture_turn(x, ++w->turn);
    session_revert(x);
    session_release(w->g.store, x);
    set(&k->memory, copy(k->disk));
}

static void restart(struct world *w)
{
    fixture_close(&w->g);
    fixture_open(&w->g);
    for (unsigned u = 0; u < UIDS; u++)
        for (unsigned i = 0; i < NAMES; i++) set(&w->known[u][i].memory, copy(w->known[u][i].disk));
}

/* Each uid has its own sessions, no two with the same last use, and the sums are right. */
static void check_lists(struct world *w)
{
    uint64_t sum = 0, all, one;
    size_t n_all, n_one;
    for (unsigned u = 0; u < UIDS; u++) {
        struct session_info *list;
        size_t n, want = 0;
        assert_int_equal(session_list(w->g.store, u, &list, &n), 0);
        for (unsigned i = 0; i < NAMES; i++) want += w->known[u][i].memory != NULL;
        assert_int_equal(n, want);
        for (size_t j = 0; j < n; j++) {
            bool found = false;
            for (unsigned i = 0; i < NAMES; i++)
                if (strcmp(list[j].name->data, names[i]) == 0) found = w->known[u][i].memory;
            assert_true(found);
            assert_false(list[j].busy);
            if (j) assert_true(list[j].used < list[j - 1].used);
        }
        free(list);
        uint64_t disk, max;
        session_disk(w->g.store, u, &disk, &max);
        assert_true(disk == fixture_disk(&w->g, u));
        session_count(w->g.store, u, &n_one, &one);
        assert_int_equal(n_one, n);
        sum += one;
    }
    session_count(w->g.store, (uid_t)-1, &n_all, &all);
    assert_true(all == sum);
}

static void test_random_steps(void **state)
{
    struct world w = {0};
    const char *seed = getenv("HOB_TEST_SEED");
    fixture_make(&w.g);
    srandom(seed ? (unsigned)strtoul(seed, NULL, 10) : 7);
    for (unsigned i = 0; i < STEPS; i++) {
        unsigned uid = (unsigned)random() % UIDS, name = (unsigned)random() % NAMES;
        switch (random() % 16) {
        case 0:
            duplicate(&w, uid, name, (unsigned)random() % NAMES, false);
            break;
        case 1:
            duplicate(&w, uid, name, (unsigned)random() % NAMES, true);
            break;
        case 2:
            erase(&w, uid, name);
            break;
        case 3:
            restart(&w);
            break;
        case 4:
            revert(&w, uid, name);
            break;
        case 5:
            session_unload_idle(w.g.store);
            break;
        case 7:
            duplicate(&w, uid, name, (unsigned)random() % NAMES, random() % 2);
            break;
        case 6:
            fixture_realtime = random() % 2 ? fixture_realtime + 1000 : fixture_realtime - 1000000;
            break;
        default:
            turn(&w, uid, name);
        }
        check_lists(&w);
    }
    print_message("# %u turns, %u logs shared\n", w.turn, shared);
    assert_true(shared > 50);
    for (unsigned u = 0; u < UIDS; u++)
        for (unsigned i = 0; i < NAMES; i++) {
            free(w.known[u][i].memory);
            free(w.known[u][i].disk);
        }
    fixture_remove(&w.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
