/* SPDX-License-Identifier: MIT */
#include "tests/session/fixture.h"
#include "daemon/session/names.h"
#include "libcommon/error.h"
#include "libcommon/hex.h"
#include "libcommon/log.h"
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h>

uint64_t fixture_realtime, fixture_boottime;

static void clock_of_fixture(uint64_t *realtime, uint64_t *boottime)
{
    *realtime = fixture_realtime++;
    *boottime = fixture_boottime++;
}

struct session_store_config fixture_config(const struct fixture *g)
{
    return (struct session_store_config){.dir = g->dir, .clock = clock_of_fixture};
}

void fixture_open(struct fixture *g)
{
    struct session_store_config c = fixture_config(g);
    int r = session_store_open(&g->store, 1 << 20, &c);
    if (r < 0) print_message("%s\n", error_text(r));
    assert_int_equal(r, 0);
}

void fixture_make(struct fixture *g)
{
    const char *tmp = getenv("TMPDIR");
    if (!tmp || strlen(tmp) > 32) tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* thousands of fsyncs */
    log_init("test", LOG_ERROR);
    fixture_realtime = 1800000000000000;
    fixture_boottime = 1000000;
    snprintf(g->dir, sizeof(g->dir), "%s/hob-session-XXXXXX", tmp);
    assert_non_null(mkdtemp(g->dir));
    fixture_open(g);
}

void fixture_close(struct fixture *g)
{
    g->store = session_store_free(g->store);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return ftw->level == 0 ? 0 : remove(path);
}

void fixture_clear(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void fixture_remove(struct fixture *g)
{
    fixture_close(g);
    fixture_clear(g->dir);
    assert_int_equal(rmdir(g->dir), 0);
}

int fixture_setup(void **state)
{
    struct fixture *g = calloc(1, sizeof(*g));
    *state = g;
    fixture_make(g);
    return 0;
}

int fixture_teardown(void **state)
{
    fixture_remove(*state);
    free(*state);
    return 0;
}

struct session *fixture_acquire(struct fixture *g, uid_t uid, const char *name)
{
    struct session *x = NULL;
    int r = session_acquire(g->store, uid, name, strlen(name), true, &x);
    if (r == 0) r = session_load(x);
    if (r < 0) print_message("%s\n", error_text(r));
    assert_int_equal(r, 0);
    return x;
}

void fixture_turn(struct session *x, unsigned n)
{
    char say[64], answer[200];
    snprintf(say, sizeof(say), "question %u", n);
    snprintf(answer, sizeof(answer), "answer %u \xc3\xa9%*s", n, (int)(n * 37 % 150), "");
    assert_int_equal(session_add_message(x, "user", 4, say, strlen(say)), 0);
    assert_int_equal(session_add_message(x, "assistant", 9, answer, strlen(answer)), 0);
    for (unsigned i = 0; i < 20; i++) {
        char piece[16];
        snprintf(piece, sizeof(piece), "%u-%u ", n, i);
        assert_int_equal(session_append(x, (int32_t)(n * 1000 + i), piece, i % 5 ? strlen(piece) : 0, i % 3 == 0), 0);
    }
    x->content.model[0] = 0xaa;
    x->content.context = (enum proto_context)(n % 4);
    struct session_outcome o = {.reason = (enum proto_reason)(n % 4),
                                .usage_prompt = n,
                                .usage_cached = n / 2,
                                .usage_completion = 20,
                                .shifted = n % 7,
                                .miss_at = n % 2 ? -1 : (int64_t)n,
                                .seed = INT64_MAX - n,
                                .answer = {answer, strlen(answer)}};
    snprintf(o.uuid, sizeof(o.uuid), "turn-%u", n);
    assert_int_equal(session_add_outcome(x, &o), 0);
}

unsigned fixture_last(const struct session *x)
{
    return x->content.n_outcomes ? (unsigned)x->content.outcomes[x->content.n_outcomes - 1].usage_prompt : 0;
}

void fixture_say(struct fixture *g, uid_t uid, const char *name, unsigned n)
{
    struct session *x = fixture_acquire(g, uid, name);
    fixture_turn(x, n);
    int r = session_save(x);
    if (r < 0) print_message("%s\n", error_text(r));
    assert_int_equal(r, 0);
    session_release(g->store, x);
}

char *fixture_dump(const struct session *x)
{
    struct buf b = BUF_INIT;
    int r = buf_printf(&b, "raw %d context %d model", x->content.raw, x->content.context);
    for (size_t i = 0; i < sizeof(x->content.model); i++) r |= buf_printf(&b, " %02x", x->content.model[i]);
    r |= buf_printf(&b, "\n%zu ids, %zu bytes\n", x->content.n_ids, x->content.text.len);
    for (size_t i = 0; i < x->content.n_ids; i++)
        r |= buf_printf(&b, "%" PRId32 ":%" PRIu32 " ", x->content.ids[i], x->content.ends[i]);
    r |= buf_puts(&b, "\n") | buf_append(&b, x->content.text.data, x->content.text.len) | buf_puts(&b, "\n");
    assert_int_equal(x->content.text.len, x->content.markup.len);
    for (size_t i = 0; i < x->content.markup.len; i++) r |= buf_puts(&b, x->content.markup.data[i] ? "#" : ".");
    for (size_t i = 0; i < x->content.n_messages; i++)
        r |= buf_printf(&b, "\n%s: %s (%zu)", x->content.messages[i].role.data, x->content.messages[i].content.data,
                        x->content.messages[i].content.len);
    for (size_t i = 0; i < x->content.n_outcomes; i++) {
        const struct session_outcome *o = &x->content.outcomes[i];
        r |= buf_printf(&b, "\n%s %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %s",
                        o->uuid, o->reason, o->usage_prompt, o->usage_cached, o->usage_completion, o->shifted,
                        o->miss_at, o->seed, o->answer.data);
    }
    assert_int_equal(r, 0);
    return buf_steal(&b, NULL);
}

void fixture_path(char out[256], const struct fixture *g, uid_t uid, const char *name, const char *ext)
{
    char hex[SESSION_HEX];
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(name, strlen(name)));
    hex_write(hex, c.digest, 16);
    snprintf(out, 256, "%s/%" PRIu32 "/%s%s", g->dir, (uint32_t)uid, hex, ext);
}

bool fixture_exists(const struct fixture *g, uid_t uid, const char *name, const char *ext)
{
    char path[256];
    fixture_path(path, g, uid, name, ext);
    return access(path, F_OK) == 0;
}

static struct {
    ino_t seen[4096];
    size_t n;
    uint64_t bytes;
} counted;

static int count_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    if (type != FTW_F) return 0;
    for (size_t i = 0; i < counted.n; i++)
        if (counted.seen[i] == st->st_ino) return 0;
    assert_true(counted.n < sizeof(counted.seen) / sizeof(*counted.seen));
    counted.seen[counted.n++] = st->st_ino;
    counted.bytes += ((uint64_t)st->st_size + 4095) / 4096 * 4096;
    return 0;
}

uint64_t fixture_disk(const struct fixture *g, uid_t uid)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%" PRIu32, g->dir, (uint32_t)uid);
    counted.n = 0;
    counted.bytes = 0;
    nftw(path, count_one, 16, FTW_PHYS);
    return counted.bytes;
}

char *fixture_read(const char *path, size_t *n)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    char *p = malloc((size_t)st.st_size + 1);
    assert_non_null(p);
    *n = (size_t)st.st_size;
    assert_int_equal(read(fd, p, *n), *n);
    close(fd);
    return p;
}

void fixture_write(const char *path, const char *p, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, p, n), n);
    close(fd);
}

void fixture_reopen(struct fixture *g)
{
    fixture_close(g);
    fixture_open(g);
}

uint64_t fixture_bytes(const struct fixture *g, uid_t uid)
{
    uint64_t bytes, max;
    session_disk(g->store, uid, &bytes, &max);
    return bytes;
}

void fixture_say_much(struct fixture *g, uid_t uid, const char *name)
{
    char *text = malloc(20000);
    struct session *x = fixture_acquire(g, uid, name);
    memset(text, 'x', 20000);
    assert_int_equal(session_append(x, 5, text, 20000, false), 0);
    fixture_turn(x, 1);
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
    free(text);
}

int fixture_fork(struct fixture *g, const char *from, const char *to)
{
    struct session *x = NULL, *y = NULL;
    assert_int_equal(session_acquire(g->store, 7, from, strlen(from), false, &x), 0);
    assert_int_equal(session_fork(g->store, x, to, strlen(to), &y), 0);
    const int r = session_duplicate(y, x);
    session_release(g->store, x);
    session_release(g->store, y);
    return r;
}

int fixture_rename(struct fixture *g, const char *from, const char *to)
{
    struct session *x = fixture_acquire(g, 7, from), *y = NULL;
    assert_int_equal(session_rename(g->store, x, to, strlen(to), &y), 0);
    const int r = session_move(y, x);
    session_release(g->store, x);
    session_release(g->store, y);
    return r;
}

int fixture_erase(struct fixture *g, const char *name)
{
    struct session *x = NULL;
    assert_int_equal(session_acquire(g->store, 7, name, strlen(name), true, &x), 0);
    const int r = session_erase(x);
    session_release(g->store, x);
    return r;
}

uint64_t fixture_inode(const struct fixture *g, const char *name, const char *ext)
{
    char path[256];
    struct stat st;
    fixture_path(path, g, 7, name, ext);
    assert_int_equal(stat(path, &st), 0);
    return st.st_ino;
}
