/* SPDX-License-Identifier: MIT */
#include "daemon/command/bench.h"
#include "libcommon/cleanup.h"
#include "libcommon/plain.h"
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
        printf("  J/token not available\n");
    else
        printf("  %.3f J/token\n", real(j, "joules_per_token"));
}

/* The parts of a step (or of a whole prompt) in percent of its time. */
static void print_parts(const json_t *j)
{
    static const char *const names[] = {"projections", "attention", "vectors", "logits", "waiting"};
    const json_t *ms = json_object_get(j, "ms");
    double all = real(ms, "all");
    if (!ms) return;
    printf("        %.2f ms:", all);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        printf(" %s %.2f (%.0f%%)%s", names[i], real(ms, names[i]), all > 0 ? 100 * real(ms, names[i]) / all : 0,
               i + 1 < sizeof(names) / sizeof(*names) ? "," : "");
    printf(" at %lld barriers\n", integer(ms, "barriers"));
    if (!json_object_get(j, "kv_bytes")) return;
    printf("        MB read: weights %.1f (vocabulary %.1f of them), KV %.1f; sampling, not included: %.3f ms\n",
           real(j, "weight_bytes") * 1e-6, real(j, "vocabulary_bytes") * 1e-6, real(j, "kv_bytes") * 1e-6,
           real(ms, "sampling"));
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
    print_parts(p);
    json_array_foreach(json_object_get(j, "decode"), i, d)
    {
        printf("decode  %6lld sequences at %6lld    %9.1f tok/s  %6.1f GB/s  = %3.0f%%", integer(d, "batch"),
               integer(d, "depth"), real(d, "tok_s"), real(d, "gbps"), 100 * real(d, "share"));
        print_energy(d);
        print_parts(d);
    }
}
