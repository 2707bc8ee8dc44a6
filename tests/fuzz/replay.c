/* SPDX-License-Identifier: MIT */
/* Gives a fuzz target its inputs: the seeds in its source and the files that the arguments name, or that are in the
 * folders that they name. Then the same damaged: cut, and with bytes changed, moved and repeated. The environment's
 * HOB_FUZZ_RUNS says how many damaged ones; 0: none. With HOB_FUZZ_SAVE=DIR, it writes the inputs to files there, and
 * runs nothing. */
#include "libcommon/cleanup.h"
#include "libcommon/hex.h"
#include "tests/fuzz/fuzz.h"
#include "tests/libcommon/check.h"
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RUNS       400
#define INPUT_MAX  65536 /* bytes */
#define INPUTS_MAX 4096

static struct input {
    char *s;
    size_t n;
} inputs[INPUTS_MAX];
static size_t n_inputs;

static size_t damage(char *s, size_t n, size_t cap, uint64_t *random)
{
    for (unsigned k = 1 + next_random(random) % 4; k > 0 && n > 2; k--) {
        size_t at = next_random(random) % n, len = 1 + next_random(random) % 8;
        if (at + len > n) len = n - at;
        switch (next_random(random) % 5) {
        case 0: /* a byte of the text, or any */
            s[at] = next_random(random) % 2 ? s[next_random(random) % n] : (char)next_random(random);
            break;
        case 1: /* without some bytes */
            memmove(s + at, s + at + len, n - at - len);
            n -= len;
            break;
        case 2: /* some bytes twice */
            if (n + len > cap) break;
            memmove(s + at + len, s + at, n - at);
            n += len;
            break;
        case 3: /* cut */
            n = next_random(random) % 4 ? n : at + 1;
            break;
        default: /* some bytes at another place */
            memmove(s + next_random(random) % (n - len + 1), s + at, len);
        }
    }
    return n;
}

static void add(const void *bytes, size_t n)
{
    if (n_inputs == INPUTS_MAX) fuzz_fail("too many inputs", "");
    char *s = malloc(n ? n : 1);
    FUZZ_CHECK(s);
    memcpy(s, bytes, n);
    inputs[n_inputs++] = (struct input){s, n};
}

static void add_seed(const char *seed)
{
    static uint8_t bytes[INPUT_MAX];
    size_t n = strlen(seed);
    if (strncmp(seed, "hex:", 4) != 0) {
        add(seed, n);
        return;
    }
    n = (n - 4) / 2;
    if (n > INPUT_MAX || !hex_read(bytes, seed + 4, n)) fuzz_fail("a seed is not hexadecimal", seed);
    add(bytes, n);
}

static void add_file(const char *path)
{
    static char text[INPUT_MAX];
    _cleanup_(fclosep) FILE *f = fopen(path, "re");
    if (!f) fuzz_fail(path, strerror(errno));
    add(text, fread(text, 1, sizeof(text), f));
}

static int is_named(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

/* A file, or the files of a folder in the order of their names. */
static void add_path(const char *path)
{
    struct stat st;
    struct dirent **names = NULL;
    if (stat(path, &st) < 0) fuzz_fail(path, strerror(errno));
    if (!S_ISDIR(st.st_mode)) {
        add_file(path);
        return;
    }
    int n = scandir(path, &names, is_named, alphasort);
    FUZZ_CHECK(n >= 0);
    for (int i = 0; i < n; i++) {
        char *at;
        FUZZ_CHECK(asprintf(&at, "%s/%s", path, names[i]->d_name) > 0);
        add_file(at);
        free(at);
        free(names[i]);
    }
    free(names);
}

/* A copy of exactly its size, so that a byte that is read behind it is found. */
static void run(const char *s, size_t n)
{
    char *copy = malloc(n ? n : 1);
    FUZZ_CHECK(copy);
    memcpy(copy, s, n);
    LLVMFuzzerTestOneInput((const uint8_t *)copy, n);
    free(copy);
}

static void save(const char *dir)
{
    for (size_t i = 0; i < n_inputs; i++) {
        char *path;
        FUZZ_CHECK(asprintf(&path, "%s/seed-%zu", dir, i) > 0);
        fuzz_write(path, inputs[i].s, inputs[i].n);
        free(path);
    }
}

int main(int argc, char **argv)
{
    const char *wanted = getenv("HOB_FUZZ_RUNS");
    long runs = wanted ? atol(wanted) : RUNS;
    uint64_t random = 1;
    for (int i = 0; fuzz_seeds[i]; i++) add_seed(fuzz_seeds[i]);
    for (int i = 1; i < argc; i++) add_path(argv[i]);
    if (getenv("HOB_FUZZ_SAVE")) {
        save(getenv("HOB_FUZZ_SAVE"));
        return 0;
    }
    printf("1..2\n");
    for (size_t i = 0; i < n_inputs; i++) run(inputs[i].s, inputs[i].n);
    printf("ok 1 - %zu inputs\n", n_inputs);
    for (long i = 0; n_inputs && i < runs; i++) {
        static char text[INPUT_MAX];
        const struct input *from = &inputs[next_random(&random) % n_inputs];
        memcpy(text, from->s, from->n);
        run(text, damage(text, from->n, sizeof(text), &random));
    }
    printf("ok 2 - damaged inputs\n");
    for (size_t i = 0; i < n_inputs; i++) free(inputs[i].s);
    return 0;
}
