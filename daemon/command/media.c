/* SPDX-License-Identifier: MIT */
/* hobd media: decode images and sounds as requests do, and show what they are. */
#include "daemon/command/command.h"
#include "daemon/command/media-read.h"
#include "daemon/command/media-save.h"
#include "daemon/media/media-helper.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/hex.h"
#include "libcommon/plain.h"
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct options {
    bool json;
    const char *out;
    char **files; /* [n] */
    int n;
};

DEFINE_CLEANUP(struct media_helper *, media_helper_free)

static void usage(void)
{
    fputs("usage: hob media FILE… [--json] [-o OUT]\n"
          "\nDecodes images (PNG, JPEG, WebP) and sounds (WAV, FLAC, Ogg, MP3) in a process\n"
          "without rights, and prints format, size and digest. FILE -: standard input.\n\n"
          "      --json         print JSON, one object per line\n"
          "  -o, --output OUT   write the pixels to OUT.ppm or the samples to OUT.wav\n"
          "  -h, --help         print this help\n",
          stdout);
}

/* 0; 1: --help was printed; 2: wrong usage. */
static int parse(struct options *o, int argc, char **argv)
{
    enum { JSON = 256 };
    static const struct option longs[] = {
        {"json", no_argument, NULL, JSON},
        {"output", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    opterr = 0;
    int c;
    while ((c = getopt_long(argc, argv, ":o:h", longs, NULL)) != -1) {
        switch (c) {
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
            return command_misused(argv, command_refuse(argv, c));
        }
    }
    o->files = argv + optind;
    o->n = argc - optind;
    int r = o->out ? media_save_check(o->out) : 0;
    if (o->n == 0) r = error_say(-EINVAL, "FILE is missing; see hob media --help");
    if (o->out && o->n > 1) r = error_say(-EINVAL, "-o: with one FILE only");
    return r < 0 ? command_misused(argv, r) : 0;
}

static int print_json(const char *file, const struct media *m, const char *digest, const char *error)
{
    _cleanup_(json_decrefp) json_t *o = NULL;
    _cleanup_(freep) char *line = NULL;
    /* A name that is not UTF-8 is shown as well as it can be. */
    _cleanup_(buf_fini) struct buf name = BUF_INIT, reason = BUF_INIT;
    int r = plain_line(&name, file, strlen(file));
    if (r == 0 && error) r = plain_line(&reason, error, strlen(error));
    if (r < 0) return r;
    if (error)
        o = json_pack("{ss ss}", "file", name.data, "error", reason.data);
    else if (m->kind == MEDIA_IMAGE)
        o = json_pack("{ss ss ss si si ss}", "file", name.data, "kind", "image", "format", media_format_name(m->format),
                      "width", (int)m->width, "height", (int)m->height, "digest", digest);
    else
        o = json_pack("{ss ss ss sI sf ss}", "file", name.data, "kind", "sound", "format", media_format_name(m->format),
                      "samples", (json_int_t)m->samples, "seconds", (double)m->samples / MEDIA_RATE, "digest", digest);
    if (o) line = json_dumps(o, JSON_COMPACT);
    if (!line) return error_say(-ENOMEM, "no memory for a line");
    return puts(line) < 0 ? error_origin(-EIO) : 0;
}

static int print(const struct options *o, const char *file, const struct media *m)
{
    char digest[2 * MEDIA_DIGEST + 1], line[160];
    hex_write(digest, m->digest, MEDIA_DIGEST);
    if (o->json) return print_json(file, m, digest, NULL);
    if (m->kind == MEDIA_IMAGE)
        snprintf(line, sizeof(line), "%s, %" PRIu32 "x%" PRIu32 " pixels, digest %s", media_format_name(m->format),
                 m->width, m->height, digest);
    else
        snprintf(line, sizeof(line), "%s, %.3f s, %" PRIu64 " samples, digest %s", media_format_name(m->format),
                 (double)m->samples / MEDIA_RATE, m->samples, digest);
    _cleanup_(buf_fini) struct buf text = BUF_INIT;
    int r = buf_printf(&text, "%s: %s: %s\n", file, media_kind_name(m->kind), line);
    return r < 0 ? r : command_print(text.data, text.len);
}

static int show(const struct options *o, struct media_helper *h, const char *file)
{
    _cleanup_(buf_fini) struct buf in = BUF_INIT;
    _cleanup_(media_fini) struct media m = {0};
    int r = media_read_file(file, &in);
    if (r < 0) return r;
    r = media_helper_decode(h, (const uint8_t *)in.data, in.len, &m);
    if (r < 0) return o->json ? r : error_in(r, "%s", file);
    if (o->out) r = media_save(&m, o->out);
    return r < 0 ? r : print(o, file, &m);
}

int command_media(int argc, char **argv)
{
    _cleanup_(media_helper_freep) struct media_helper *h = NULL;
    struct options o = {0};
    int r = parse(&o, argc, argv), status = 0;
    if (r) return r == 1 ? 0 : r;
    r = media_helper_new(&h, NULL);
    if (r < 0) return command_failed(argv, r);
    for (int i = 0; i < o.n; i++) {
        r = show(&o, h, o.files[i]);
        if (r == 0) continue;
        status = 1;
        if (!o.json || print_json(o.files[i], NULL, NULL, error_text(r)) < 0) command_failed(argv, r);
    }
    return status;
}
