/* SPDX-License-Identifier: MIT */
/* Files of blocks with parts of runs: their bytes, and that each damage of them is refused. */
#include "daemon/cache/disk/disk-file.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "tests/cache/disk/fixture.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define BLOCK    4 /* has 32 tokens */
#define RUNS     3
#define RUN      32 /* bytes of a part */
#define WITH     (FIXTURE_FILE + RUNS * RUN)
#define RUN_AT   FIXTURE_HEADER /* of the first part in a file */
#define FORMAT   8
#define TOKENS_N 12
#define RUNS_N   84
#define TOKENS   88

/* 4 positions of a run's end, tokens, 10 positions of a run, one of another, tokens. */
static const struct item_run parts[RUNS] = {
    {.at = 0, .n = 4, .kind = ITEM_IMAGE, .offset = 70000, .digest = "the first digest"},
    {.at = 8, .n = 10, .kind = ITEM_SOUND, .digest = "another digest.."},
    {.at = 18, .n = 1, .kind = ITEM_IMAGE, .digest = "the first digest"},
};

static struct prefix_info with_runs(void)
{
    struct prefix_info x = fixture_info(BLOCK);
    for (int i = 0; i < RUNS; i++)
        for (uint32_t k = 0; k < parts[i].n; k++) x.tokens[parts[i].at + k] = ITEM_EMBD;
    x.runs = parts;
    x.n_runs = RUNS;
    return x;
}

static int write_it(struct disk *d)
{
    uint8_t payload[FIXTURE_PAYLOAD];
    const struct prefix_info info = with_runs();
    fixture_payload(payload, sizeof(payload), BLOCK);
    return disk_write(d, &info, payload);
}

static int read_it(struct disk *d)
{
    uint8_t want[FIXTURE_PAYLOAD], have[FIXTURE_PAYLOAD] = {0};
    const struct prefix_info info = with_runs();
    int r = disk_read(d, &info, have);
    fixture_payload(want, sizeof(want), BLOCK);
    if (r == 0) assert_memory_equal(have, want, sizeof(want));
    return r;
}

static bool found_it(void *ctx, struct prefix_info *info)
{
    const struct prefix_info want = with_runs();
    fixture_same(info, &want);
    assert_int_equal(info->n_runs, RUNS);
    assert_memory_equal(info->runs, parts, sizeof(parts));
    ++*(int *)ctx;
    return true;
}

static int scan(struct disk *d)
{
    int n = 0;
    assert_int_equal(disk_scan(d, found_it, &n, NULL), 0);
    return n;
}

static const char *path_of(const struct place *p)
{
    const struct prefix_info info = with_runs();
    return block_path(p, &info);
}

/* The bytes of the file. */
static void begin(const struct place *p, uint8_t out[WITH + 2 * RUN])
{
    struct disk_config c = fixture_config(p);
    struct disk *d = fixture_open(&c);
    memset(out, 0, WITH + 2 * RUN);
    assert_int_equal(write_it(d), 0);
    int fd = open(path_of(p), O_RDONLY);
    assert_int_equal(read(fd, out, WITH + 1), WITH);
    close(fd);
    disk_close(d);
}

static void test_write_scan_read(void **state)
{
    struct disk_config c = fixture_config(*state);
    struct disk *d = fixture_open(&c);
    assert_int_equal(write_it(d), 0);
    assert_int_equal(read_it(d), 0);
    disk_close(d);
    d = fixture_open(&c);
    assert_int_equal(scan(d), 1);
    assert_int_equal(read_it(d), 0);
    assert_int_equal(fixture_stats(d).files, 1);
    assert_int_equal(fixture_read(d, BLOCK), -EBADMSG); /* the same id without the runs */
    assert_int_equal(fixture_stats(d).files, 0);
    assert_int_equal(fixture_write(d, BLOCK), 0);
    assert_int_equal(read_it(d), -EBADMSG);
    disk_close(d);
}

/* A part of a run for each token. */
static void test_most_runs(void **state)
{
    struct item_run runs[KV_BLOCK] = {{0}};
    uint8_t payload[FIXTURE_PAYLOAD] = {1}, got[FIXTURE_PAYLOAD];
    struct disk_config c = fixture_config(*state);
    struct disk *d = fixture_open(&c);
    struct prefix_info info = fixture_info(BLOCK);
    for (uint32_t i = 0; i < KV_BLOCK; i++) {
        runs[i] = (struct item_run){.at = i, .n = 1, .kind = ITEM_IMAGE, .digest = {(uint8_t)i}};
        info.tokens[i] = ITEM_EMBD;
    }
    info.runs = runs;
    info.n_runs = KV_BLOCK;
    assert_int_equal(disk_write(d, &info, payload), 0);
    assert_int_equal(disk_read(d, &info, got), 0);
    assert_memory_equal(got, payload, sizeof(got));
    runs[31].digest[15]++;
    assert_int_equal(disk_read(d, &info, got), -EBADMSG);
    disk_close(d);
}

/* A file may not change without a new format. */
static void test_layout(void **state)
{
    uint8_t f[WITH + 2 * RUN], payload[FIXTURE_PAYLOAD];
    begin(*state, f);
    assert_memory_equal(f, "hobblock\2\0\0\0\40\0\0\0", 16);
    assert_memory_equal(f + RUNS_N, "\3\0\0\0", 4);
    for (int i = 0; i < 4; i++) assert_memory_equal(f + TOKENS + 4 * i, "\0\0\0\200", 4);
    assert_memory_equal(f + RUN_AT, "\0\0\0\0\4\0\0\0\1\0\0\0\160\21\1\0the first digest", RUN);
    assert_memory_equal(f + RUN_AT + RUN, "\10\0\0\0\12\0\0\0\2\0\0\0\0\0\0\0another digest..", RUN);
    fixture_payload(payload, sizeof(payload), BLOCK);
    assert_memory_equal(f + RUN_AT + RUNS * RUN, payload, sizeof(payload));
}

/* The checksum of header and parts, as the format has it. */
static void resum(uint8_t *f, uint32_t n_runs)
{
    uint8_t bytes[240 + 40 * RUN];
    XXH128_canonical_t c;
    memcpy(bytes, f, 240);
    memcpy(bytes + 240, f + RUN_AT, n_runs * RUN);
    XXH128_canonicalFromHash(&c, XXH3_128bits(bytes, 240 + n_runs * RUN));
    memcpy(f + 240, c.digest, 16);
}

/* A scan and a read must reject and remove these bytes. */
static void expect_bad(const struct place *p, const uint8_t *bytes, size_t n)
{
    struct disk_config c = fixture_config(p);
    struct disk *d = fixture_open(&c);
    fixture_put(path_of(p), bytes, n);
    assert_int_equal(scan(d), 0);
    assert_int_equal(access(path_of(p), F_OK), -1);
    fixture_put(path_of(p), bytes, n);
    assert_int_equal(read_it(d), -EBADMSG);
    assert_non_null(strstr(error_text(-EBADMSG), path_of(p)));
    assert_int_equal(access(path_of(p), F_OK), -1);
    assert_int_equal(fixture_stats(d).damaged, 2);
    disk_close(d);
}

static void test_truncated(void **state)
{
    uint8_t f[WITH + 2 * RUN];
    begin(*state, f);
    for (size_t n = 0; n <= WITH + 2 * RUN; n++)
        if (n != WITH) expect_bad(*state, f, n);
}

static void test_every_byte(void **state)
{
    uint8_t f[WITH + 2 * RUN];
    begin(*state, f);
    for (size_t i = 0; i < FIXTURE_HEADER + RUNS * RUN; i++)
        for (int k = 0; k < 8; k++) {
            f[i] ^= (uint8_t)(1 << k);
            expect_bad(*state, f, WITH);
            f[i] ^= (uint8_t)(1 << k);
        }
}

static void set32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> 8 * i);
}

/* Files with right checksums that hobd never writes. */
static void test_made_up(void **state)
{
    enum { AT = 0, N = 4, KIND = 8, OFFSET = 12 };
    static const struct {
        size_t at;
        uint32_t value;
    } changes[] = {
        {FORMAT, 1},    /* a block of tokens alone has no parts */
        {FORMAT, 3},    /* another version */
        {TOKENS_N, 18}, /* the last part is behind the tokens */
        {TOKENS_N, 0},
        {TOKENS_N, 33},
        {RUNS_N, 2}, /* fewer than the file has room for */
        {RUNS_N, 4},
        {RUNS_N, 0},
        {RUNS_N, UINT32_MAX},
        {TOKENS, 5},                  /* an id in a run */
        {TOKENS + 4 * 5, 0x80000000}, /* a position of a run that no part has */
        {RUN_AT + AT, 1},
        {RUN_AT + AT, UINT32_MAX},
        {RUN_AT + N, 0},
        {RUN_AT + N, 3},
        {RUN_AT + N, 5},
        {RUN_AT + N, UINT32_MAX},
        {RUN_AT + KIND, 0},
        {RUN_AT + KIND, ITEM_KIND_MAX + 1},
        {RUN_AT + KIND, UINT32_MAX},
        {RUN_AT + OFFSET, UINT32_MAX - 3}, /* more items than can be counted */
        {RUN_AT + RUN + OFFSET, 1},        /* the rest of a run that has no beginning */
        {RUN_AT + RUN + AT, 7},
        {RUN_AT + RUN + N, 11},     /* over the next part */
        {RUN_AT + 2 * RUN + AT, 8}, /* not ascending */
        {RUN_AT + 2 * RUN + N, 14}, /* over the end */
    };
    uint8_t f[WITH + 2 * RUN], changed[WITH + 2 * RUN];
    begin(*state, f);
    for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
        memcpy(changed, f, sizeof(f));
        set32(changed + changes[i].at, changes[i].value);
        resum(changed, RUNS);
        expect_bad(*state, changed, WITH);
    }
    /* Format 2 without parts, and format 1 with the id of a run. */
    memmove(f + RUN_AT, f + RUN_AT + RUNS * RUN, FIXTURE_PAYLOAD);
    set32(f + RUNS_N, 0);
    for (uint32_t i = 0; i < 2; i++) {
        resum(f, 0);
        expect_bad(*state, f, FIXTURE_FILE);
        set32(f + FORMAT, 1);
    }
    /* More parts than a block has tokens. */
    static uint8_t many[FIXTURE_FILE + 33 * RUN];
    memcpy(many, f, FIXTURE_HEADER);
    set32(many + FORMAT, 2);
    set32(many + RUNS_N, 33);
    resum(many, 33);
    expect_bad(*state, many, sizeof(many));
}

#define T(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_write_scan_read), T(test_most_runs),  T(test_layout),
        T(test_truncated),       T(test_every_byte), T(test_made_up),
    };
    log_init("test", LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
