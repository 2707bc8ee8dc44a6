/* SPDX-License-Identifier: MIT */
/* A random adapter from the command line, for the tests that are not in C. */
#include "libcommon/error.h"
#include "tests/support/lora-file.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: mklora [--seed N] [--rank N] [--alpha X] [--size X] [--type F32|F16|BF16]\n"
                            "              [--only NAME,…,] [--invocation ID,…] -o FILE BASE.gguf\n";

static int read_type(const char *s)
{
    static const struct {
        const char *name;
        int type;
    } types[] = {{"F32", 0}, {"F16", 1}, {"BF16", 30}};
    for (int i = 0; i < 3; i++)
        if (!strcmp(types[i].name, s)) return types[i].type;
    return -1;
}

static uint32_t read_ids(char *s, int32_t *ids)
{
    uint32_t n = 0;
    for (char *at = strtok(s, ","); at && n < 256; at = strtok(NULL, ",")) ids[n++] = atoi(at);
    return n;
}

static int write_file(const struct lora_file *l, const char *base, const char *path)
{
    struct buf b = BUF_INIT;
    struct gguf *g = NULL;
    int r = gguf_open(&g, base);
    if (!r) r = lora_file_bytes(&b, l, g);
    FILE *f = r ? NULL : fopen(path, "wb");
    if (!r && (!f || fwrite(b.data, 1, b.len, f) != b.len)) r = -EIO;
    if (f && fclose(f) && !r) r = -EIO;
    if (r) fprintf(stderr, "mklora: %s\n", error_text(r));
    buf_fini(&b);
    gguf_close(g);
    return r ? 1 : 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", 1, 0, 's'}, {"rank", 1, 0, 'r'}, {"alpha", 1, 0, 'a'},      {"size", 1, 0, 'z'},
        {"type", 1, 0, 't'}, {"only", 1, 0, 'n'}, {"invocation", 1, 0, 'i'}, {0}};
    struct lora_file l;
    int32_t ids[256];
    const char *out = NULL;
    lora_file_init(&l);
    l.invocation = ids;
    for (int c; (c = getopt_long(argc, argv, "o:", options, NULL)) != -1;) {
        if (c == 's') l.seed = strtoull(optarg, NULL, 10);
        if (c == 'r') l.rank = (uint32_t)atoi(optarg);
        if (c == 'a') l.alpha = strtof(optarg, NULL);
        if (c == 'z') l.size = strtof(optarg, NULL);
        if (c == 't') l.type = (uint32_t)read_type(optarg);
        if (c == 'n') l.only = optarg;
        if (c == 'i') l.n_invocation = read_ids(optarg, ids);
        if (c == 'o') out = optarg;
        if (c == '?') return 2;
    }
    if (!out || optind != argc - 1) {
        fputs(usage, stderr);
        return 2;
    }
    return write_file(&l, argv[optind], out);
}
