/* SPDX-License-Identifier: MIT */
/*
 * bench-disk [DIR [FILES]]: measures the rate at which the disk tier writes and reads blocks of 700 kB (reads come from
 * the page cache) and scans FILES headers (default 10000). Empties DIR, which defaults to a new directory in /tmp.
 */
#include "daemon/cache/disk/disk.h"
#include "libcommon/error.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 300, PAYLOAD = 700000, ROUNDS = 5 };

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct {
    double wall, cpu;
} began;

static void begin(void)
{
    began.wall = seconds(CLOCK_MONOTONIC);
    began.cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
}

/* The CPU's own time tells more on a machine that has other things to do. */
static void print_rate(const char *what)
{
    double gigabytes = (double)BLOCKS * PAYLOAD * 1e-9;
    printf("%s: %.2f GB/s, per second of CPU %.2f GB\n", what, gigabytes / (seconds(CLOCK_MONOTONIC) - began.wall),
           gigabytes / (seconds(CLOCK_PROCESS_CPUTIME_ID) - began.cpu));
}

static struct prefix_info block(uint64_t i)
{
    struct prefix_info x = {.id = {0x9e3779b97f4a7c15 * (i + 1), i}, .n = KV_BLOCK, .uid = 1000};
    for (int k = 0; k < KV_BLOCK; k++) x.tokens[k] = (int32_t)(i + (uint64_t)k);
    return x;
}

static bool count(void *ctx, struct prefix_info *info)
{
    ++*(uint64_t *)ctx;
    return true;
}

static int write_all(struct disk *d, uint64_t n, uint8_t *payload)
{
    int r = 0;
    for (uint64_t i = 0; i < n && !r; i++) {
        struct prefix_info x = block(i);
        payload[i % 4096] = (uint8_t)i;
        r = disk_write(d, &x, payload);
    }
    return r;
}

static int read_all(struct disk *d, uint64_t n, uint8_t *payload)
{
    int r = 0;
    for (uint64_t i = 0; i < n && !r; i++) {
        struct prefix_info x = block(i);
        r = disk_read(d, &x, payload);
    }
    return r;
}

static void remove_all(struct disk *d, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) disk_remove(d, block(i).id);
}

static int blocks(const char *dir, uint8_t *payload)
{
    struct disk_config c = {.dir = dir, .payload = PAYLOAD, .bytes_max = UINT64_MAX};
    struct disk *d;
    int r = disk_open(&d, &c);
    if (r) return r;
    begin();
    r = write_all(d, BLOCKS, payload);
    if (!r) print_rate("write");
    for (int i = 0; i < ROUNDS && !r; i++) {
        begin();
        r = read_all(d, BLOCKS, payload);
        if (!r) print_rate("read");
    }
    remove_all(d, BLOCKS);
    disk_close(d);
    return r;
}

static int headers(const char *dir, uint64_t files, uint8_t *payload)
{
    struct disk_config c = {.dir = dir, .payload = 1024, .bytes_max = UINT64_MAX};
    struct disk *d;
    int r = disk_open(&d, &c);
    if (r) return r;
    r = write_all(d, files, payload);
    for (int i = 0; i < ROUNDS && !r; i++) {
        uint64_t found = 0;
        begin();
        r = disk_scan(d, count, &found, NULL);
        if (!r)
            printf("scan: %" PRIu64 " files in %.0f ms, of CPU %.0f ms\n", found,
                   1e3 * (seconds(CLOCK_MONOTONIC) - began.wall),
                   1e3 * (seconds(CLOCK_PROCESS_CPUTIME_ID) - began.cpu));
    }
    remove_all(d, files);
    disk_close(d);
    return r;
}

int main(int argc, char **argv)
{
    char temporary[] = "/tmp/bench-disk-XXXXXX";
    const char *dir = argc > 1 ? argv[1] : mkdtemp(temporary);
    uint8_t *payload = calloc(1, PAYLOAD);
    if (!dir || !payload) return 1;
    int r = blocks(dir, payload);
    if (!r) r = headers(dir, argc > 2 ? strtoull(argv[2], NULL, 10) : 10000, payload);
    if (r) fprintf(stderr, "bench-disk: %s\n", error_text(r));
    if (argc < 2) rmdir(dir);
    free(payload);
    return r != 0;
}
