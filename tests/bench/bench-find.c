/* SPDX-License-Identifier: MIT */
/* Index the folder DIR with vectors of DIM values from words, without a daemon, and time the search: bench-find DIR
 * DIM. For find.py. */
#include "client/find/results.h"
#include "client/find/search.h"
#include "client/find/update.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include "tests/client/find/stand-in.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES = 30, MOST = 104 };

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void time_search(const struct index *x, const int8_t *codes, float scale, unsigned threads)
{
    const char *limit = getenv("HOB_CPU");
    const struct search s = {&x->vectors, x->meta.rows, codes, scale, dot_rows_get(limit), threads};
    struct hit hits[MOST];
    double ms[TIMES];
    for (int i = 0; i < TIMES; i++) {
        uint64_t from = clock_now_usec();
        search_run(&s, hits, MOST);
        ms[i] = (double)(clock_now_usec() - from) / 1000;
    }
    double first = ms[0];
    qsort(ms, TIMES, sizeof(*ms), by_value);
    printf("%s, %u thread%s: %.2f ms (median), %.2f ms (best), %.2f ms (first)\n", limit ? limit : "no limit", threads,
           threads > 1 ? "s" : "", ms[TIMES / 2], ms[0], first);
}

/* Index the folder. 0 or -errno. */
static int fill(const char *dir, struct stand_in *e)
{
    const struct store_meta new = {.model = (char *)"default"};
    struct index x = INDEX_INIT;
    uint64_t from = clock_now_usec();
    int r = place_of(&x.place, dir);
    if (r == 0) r = index_write(&x, &new);
    struct update u = {.index = &x, .embedder = &e->e, .max_size = 1 << 20};
    if (r == 0) r = update_run(&u);
    if (r == 0)
        printf("%" PRIu64 " chunks of %" PRIu64 " files in %.1f s\n", u.chunks, u.walked.files,
               (double)(clock_now_usec() - from) * 1e-6);
    index_close(&x);
    return r;
}

int main(int argc, char **argv)
{
    static const char question[] = "where is the retry limit set";
    struct stand_in e;
    struct index x = INDEX_INIT;
    float scale;
    stand_in_init(&e, argc == 3 ? (uint32_t)atoi(argv[2]) : 384);
    float *v = calloc(e.dim, sizeof(*v));
    int8_t *codes = calloc(1, vector_stride(e.dim));
    int r = argc == 3 && v && codes ? fill(argv[1], &e) : -EINVAL;
    if (r == 0) r = place_of(&x.place, argv[1]);
    if (r == 0) r = index_read(&x);
    if (r == 0) {
        stand_in_vector(&e, v, question, strlen(question));
        vector_quantize(codes, &scale, v, e.dim);
        time_search(&x, codes, scale, 1);
        time_search(&x, codes, scale, 2);
    }
    index_close(&x);
    free(v);
    free(codes);
    if (r != 0) fprintf(stderr, "bench-find: %s\n", error_text(r));
    return r != 0;
}
