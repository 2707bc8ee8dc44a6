/* SPDX-License-Identifier: MIT */
/* hobd encode: the embeddings of an image or a sound, to check an encoder. */
#include "daemon/backend/cpu/compute-pool.h"
#include "daemon/command/command.h"
#include "daemon/command/media-read.h"
#include "daemon/command/tool.h"
#include "daemon/encoder/encoder.h"
#include "daemon/media/media-helper.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/hex.h"
#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { SHOWN = 4 /* values */ };

struct options {
    const char *mmproj, *file, *out;
    bool json, class_last, pooled;
    uint64_t threads; /* 0: as many as suit */
};

struct result {
    struct encoder_plan plan;
    const float *values; /* [items][dim] */
    size_t n;
    uint32_t slices;
    double seconds, longest; /* longest: of a slice */
};

DEFINE_CLEANUP(struct media_helper *, media_helper_free)
DEFINE_CLEANUP(struct encoder *, encoder_close)
DEFINE_CLEANUP(struct encoding *, encoding_free)
DEFINE_CLEANUP(struct compute_pool *, compute_pool_free)

static void usage(void)
{
    fputs("usage: hobd encode --mmproj FILE MEDIA [--json] [-o OUT]\n"
          "\nComputes the embeddings of MEDIA, an image or a sound (-: standard input), with the\n"
          "encoder FILE, and prints their number, a digest, times and the first values.\n\n"
          "      --mmproj FILE   encoder, a GGUF file of llama.cpp (mmproj)\n"
          "      --class-last    the class row is the last one, as llama.cpp computes LLaVA\n"
          "      --pooled        Voxtral: take the mean of two rows, as llama.cpp does\n"
          "  -t, --threads N     compute threads (default: as for serve)\n"
          "      --json          print one JSON object\n"
          "  -o, --output OUT    write the embeddings to OUT: 32-bit floats\n"
          "  -h, --help          print this help\n",
          stdout);
}

static int check(struct options *o, int argc, char **argv)
{
    if (!o->mmproj) return error_say(-EINVAL, "--mmproj is missing; see hobd encode --help");
    if (argc - optind != 1) return error_say(-EINVAL, "give one MEDIA file; see hobd encode --help");
    o->file = argv[optind];
    return 0;
}

/* 0; 1: --help was printed; 2: wrong usage. */
static int parse(struct options *o, int argc, char **argv)
{
    enum { JSON = 256, MMPROJ, CLASS_LAST, POOLED };
    static const struct option longs[] = {
        {"mmproj", required_argument, NULL, MMPROJ},
        {"class-last", no_argument, NULL, CLASS_LAST},
        {"pooled", no_argument, NULL, POOLED},
        {"threads", required_argument, NULL, 't'},
        {"json", no_argument, NULL, JSON},
        {"output", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    opterr = 0;
    int c, r = 0;
    while (r >= 0 && (c = getopt_long(argc, argv, ":t:o:h", longs, NULL)) != -1) {
        switch (c) {
        case MMPROJ:
            o->mmproj = optarg;
            break;
        case CLASS_LAST:
            o->class_last = true;
            break;
        case POOLED:
            o->pooled = true;
            break;
        case 't':
            r = tool_parse_number("--threads", optarg, 1, 1024, &o->threads);
            break;
        case JSON:
            o->json = true;
            break;
        case 'o':
            o->out = optarg;
            break;
        case 'h':
            usage();
            return 1;
        default:
            r = command_refuse(argv, c);
        }
    }
    if (r >= 0) r = check(o, argc, argv);
    return r < 0 ? command_misused(argv, r) : 0;
}

static int read_media(const char *path, struct media *m)
{
    _cleanup_(media_helper_freep) struct media_helper *h = NULL;
    _cleanup_(buf_fini) struct buf in = BUF_INIT;
    int r = media_helper_new(&h, NULL);
    if (!r) r = media_read_file(path, &in);
    if (r < 0) return r;
    r = media_helper_decode(h, (const uint8_t *)in.data, in.len, m);
    return r < 0 ? error_in(r, "%s", path) : 0;
}

static int save(const char *path, const struct result *y)
{
    FILE *f = fopen(path, "we");
    if (!f) return error_say(-errno, "%s: %s", path, strerror(errno));
    int error = fwrite(y->values, sizeof(*y->values), y->n, f) == y->n ? 0 : errno;
    if (fclose(f) != 0 && !error) error = errno;
    return error ? error_say(-error, "%s: %s", path, strerror(error)) : 0;
}

static void digest_of(const struct result *y, char out[2 * sizeof(XXH128_canonical_t) + 1])
{
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits(y->values, y->n * sizeof(*y->values)));
    hex_write(out, digest.digest, sizeof(digest.digest));
}

static int print_json(const struct encoder *e, const struct result *y, const char *identity, const char *digest)
{
    _cleanup_(json_decrefp) json_t *o =
        json_pack("{ss ss si si s[ii] s[ii] s[ii] si ss sf si sf s[]}", "projector", encoder_projector(e), "identity",
                  identity, "items", (int)y->plan.items, "dim", (int)encoder_dim(e), "resized", (int)y->plan.width,
                  (int)y->plan.height, "tiles", (int)y->plan.columns, (int)y->plan.rows, "grid",
                  (int)y->plan.grid_columns, (int)y->plan.grid_rows, "chunks", (int)y->plan.chunks, "digest", digest,
                  "seconds", y->seconds, "slices", (int)y->slices, "longest_slice", y->longest, "first");
    json_t *first = json_object_get(o, "first");
    for (size_t i = 0; i < SHOWN && i < y->n; i++) json_array_append_new(first, json_real((double)y->values[i]));
    _cleanup_(freep) char *line = o ? json_dumps(o, JSON_COMPACT) : NULL;
    if (!line) return error_say(-ENOMEM, "no memory for a line");
    return puts(line) < 0 ? error_origin(-EIO) : 0;
}

static int print(const struct options *o, const struct encoder *e, const struct result *y)
{
    uint8_t id[ENCODER_IDENTITY];
    char identity[2 * ENCODER_IDENTITY + 1], digest[2 * sizeof(XXH128_canonical_t) + 1];
    encoder_identity(e, id);
    hex_write(identity, id, sizeof(id));
    digest_of(y, digest);
    if (o->json) return print_json(e, y, identity, digest);
    printf("%s, identity %s\n%u items of %u values, ", encoder_projector(e), identity, y->plan.items, encoder_dim(e));
    if (y->plan.chunks)
        printf("sound in %u chunk%s", y->plan.chunks, y->plan.chunks == 1 ? "" : "s");
    else
        printf("image resized to %ux%u", y->plan.width, y->plan.height);
    if (y->plan.columns) printf(" in %ux%u tiles", y->plan.columns, y->plan.rows);
    printf(", digest %s\n", digest);
    printf("encoded in %.3f s, %u slices, the longest %.1f ms\nfirst values:", y->seconds, y->slices, 1e3 * y->longest);
    for (size_t i = 0; i < SHOWN && i < y->n; i++) printf(" %.9g", (double)y->values[i]);
    puts(" …");
    return 0;
}

static int encode(struct encoding *x, struct compute_pool *pool, struct result *y)
{
    const double begin = tool_now();
    double before = begin, now;
    int r;
    do {
        r = encoding_step(x, pool);
        now = tool_now();
        if (now - before > y->longest) y->longest = now - before;
        before = now;
        y->slices++;
    } while (r > 0);
    y->seconds = now - begin;
    y->values = encoding_result(x);
    return r;
}

static int begin(struct encoding **x, const struct encoder *e, const struct media *m, struct encoder_plan *plan)
{
    if (m->kind == MEDIA_SOUND) {
        int r = encoder_plan_sound(e, m->samples, plan);
        return r ? r : encoding_new_sound(x, e, m->data, m->samples);
    }
    int r = encoder_plan(e, m->width, m->height, plan);
    return r ? r : encoding_new(x, e, m->data, m->width, m->height);
}

static int run(const struct options *o)
{
    _cleanup_(media_fini) struct media m = {0};
    _cleanup_(encoder_closep) struct encoder *e = NULL;
    _cleanup_(encoding_freep) struct encoding *x = NULL;
    _cleanup_(compute_pool_freep) struct compute_pool *pool = NULL;
    struct result y = {0};
    struct encoder_config config = {.cpu = getenv("HOB_CPU"), .class_last = o->class_last, .pooled = o->pooled};
    int r = read_media(o->file, &m);
    config.takes = m.kind;
    if (!r) r = encoder_open(&e, o->mmproj, &config);
    if (!r) r = compute_pool_new(&pool, (uint32_t)o->threads);
    if (!r) r = begin(&x, e, &m, &y.plan);
    if (!r) r = encode(x, pool, &y);
    if (r < 0) return r;
    y.n = (size_t)y.plan.items * encoder_dim(e);
    r = o->out ? save(o->out, &y) : 0;
    return r < 0 ? r : print(o, e, &y);
}

int command_encode(int argc, char **argv)
{
    struct options o = {0};
    int r = parse(&o, argc, argv);
    if (r) return r == 1 ? 0 : r;
    r = run(&o);
    return r < 0 ? command_failed(argv, r) : 0;
}
