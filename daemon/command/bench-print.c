/* SPDX-License-Identifier: MIT */
#include "daemon/command/bench.h"
#include "libcommon/cleanup.h"
#include "libcommon/plain.h"
#include <stdbool.h>
#include <string.h>

static double real(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

static long long integer(const json_t *j, const char *key)
{
    return json_integer_value(json_object_get(j, key));
}

static void print_energy(const json_t *j)
{
    if (json_is_null(json_object_get(j, "joules_per_token")))
        printf("  J/token unknown\n");
    else
        printf("  %.3f J/token\n", real(j, "joules_per_token"));
}

/* The parts of a step (or of a whole prompt) in percent of its time. */
static void print_parts(const json_t *j, const char *key)
{
    static const char *const names[] = {"projections", "attention", "vectors", "logits", "waiting", "other"};
    const json_t *ms = json_object_get(j, key);
    double all = real(ms, "all") + real(ms, "other");
    if (!ms) return;
    printf("        %.2f ms:", all);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        printf(" %s %.2f (%.0f%%)%s", names[i], real(ms, names[i]), all > 0 ? 100 * real(ms, names[i]) / all : 0,
               i + 1 < sizeof(names) / sizeof(*names) ? "," : "");
    printf(" at %lld barriers\n", integer(ms, "barriers"));
    if (!json_object_get(j, "kv_bytes")) return;
    printf("        MB read: weights %.1f (vocabulary %.1f of them), KV %.1f", real(j, "weight_bytes") * 1e-6,
           real(j, "vocabulary_bytes") * 1e-6, real(j, "kv_bytes") * 1e-6);
    if (json_object_get(ms, "sampling")) printf("; sampling, not included: %.3f ms", real(ms, "sampling"));
    putchar('\n');
}

static void print_decode(const json_t *d)
{
    printf("decode  %6lld sequences at %6lld    %9.1f tok/s  %6.1f GB/s  = %3.0f%%", integer(d, "batch"),
           integer(d, "depth"), real(d, "tok_s"), real(d, "gbps"), 100 * real(d, "share"));
    print_energy(d);
    print_parts(d, "ms");
}

static void print_rows(const json_t *list)
{
    const json_t *j;
    size_t i;
    if (!json_array_size(list)) return;
    printf("passes of one sequence:\n    rows   depth        ms    GB/s    Gop/s  share  break-even acceptance\n");
    json_array_foreach(list, i, j)
    {
        printf("  %6lld  %6lld  %8.3f  %6.1f  %7.1f  %4.0f%%", integer(j, "rows"), integer(j, "depth"), real(j, "ms"),
               real(j, "gbps"), real(j, "gops"), 100 * real(j, "share"));
        if (json_is_null(json_object_get(j, "break_even")))
            printf("  -\n");
        else
            printf("  %.2f\n", real(j, "break_even"));
        print_parts(j, "ms_parts");
    }
}

/* A speed, and its share of what as many times the first number of threads would give. */
static void print_speed(const json_t *j, const json_t *first, double times)
{
    double v = real(j, "tok_s"), one = real(first, "tok_s");
    printf("  %8.1f %3.0f%%", v, one > 0 ? 100 * v / one / times : 0);
}

static void print_scaling(const json_t *list, long long cpus)
{
    const json_t *j, *d, *first = json_array_get(list, 0);
    size_t i, k;
    bool over = false;
    if (json_array_size(list) < 2) return;
    printf("tok/s by threads, and %% of linear scaling; decode of sequences at a depth:\n"
           "  threads    GB/s    Gop/s        prefill");
    json_array_foreach(json_object_get(first, "decode"), k, d)
        printf("  %5lld at %-4lld", integer(d, "batch"), integer(d, "depth"));
    json_array_foreach(list, i, j)
    {
        bool marked = json_is_true(json_object_get(j, "oversubscribed"));
        double times = real(j, "threads") / real(first, "threads");
        printf("\n   %5lld%c  %6.1f  %7.0f", integer(j, "threads"), marked ? '*' : ' ', real(j, "read_gbps"),
               real(j, "int8_gops"));
        print_speed(json_object_get(j, "prefill"), json_object_get(first, "prefill"), times);
        json_array_foreach(json_object_get(j, "decode"), k, d)
            print_speed(d, json_array_get(json_object_get(first, "decode"), k), times);
        over |= marked;
    }
    putchar('\n');
    if (over) printf("  * more threads than the %lld CPUs that this process may use\n", cpus);
}

void bench_print(const json_t *j)
{
    const json_t *p = json_object_get(j, "prefill"), *d;
    size_t i;
    _cleanup_(buf_fini) struct buf model = BUF_INIT;
    const char *path = json_string_value(json_object_get(j, "model"));
    if (plain_line(&model, path, strlen(path)) < 0) return;
    printf("%s on %s, %s, %lld threads, loaded in %.2f s\n", model.data, json_string_value(json_object_get(j, "cpu")),
           json_string_value(json_object_get(j, "isa")), integer(j, "threads"), real(j, "load_s"));
    printf("limits of this machine: memory read %.1f GB/s, int8 %.0f Gop/s\n", real(j, "read_gbps"),
           real(j, "int8_gops"));
    printf("prefill %6lld tokens                 %9.1f tok/s  %6.1f Gop/s = %3.0f%%", integer(p, "tokens"),
           real(p, "tok_s"), real(p, "gops"), 100 * real(p, "share"));
    print_energy(p);
    print_parts(p, "ms");
    json_array_foreach(json_object_get(j, "decode"), i, d) print_decode(d);
    print_rows(json_object_get(j, "rows"));
    print_scaling(json_object_get(j, "scaling"), integer(j, "cpus"));
}
