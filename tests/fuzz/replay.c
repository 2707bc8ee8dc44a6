/* SPDX-License-Identifier: MIT */
/* Gives a fuzz target its seeds: whole, cut, and with bytes changed, moved and repeated. The environment's
 * HOB_FUZZ_RUNS says how many damaged ones. Or the files that are named as arguments, for what a fuzzer has found. */
#include "libcommon/cleanup.h"
#include "tests/fuzz/fuzz.h"
#include "tests/libcommon/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNS 400

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

static int run_file(const char *path)
{
    _cleanup_(fclosep) FILE *f = fopen(path, "re");
    static char text[65536];
    if (!f) return 1;
    size_t n = fread(text, 1, sizeof(text), f);
    return LLVMFuzzerTestOneInput((const uint8_t *)text, n);
}

int main(int argc, char **argv)
{
    const char *runs = getenv("HOB_FUZZ_RUNS");
    uint64_t random = 1;
    size_t n_seeds = 0;
    for (int i = 1; i < argc; i++)
        if (run_file(argv[i])) return 1;
    if (argc > 1) return 0;
    printf("1..2\n");
    for (; fuzz_seeds[n_seeds]; n_seeds++)
        LLVMFuzzerTestOneInput((const uint8_t *)fuzz_seeds[n_seeds], strlen(fuzz_seeds[n_seeds]));
    printf("ok 1 - seeds\n");
    for (long i = runs ? atol(runs) : RUNS; i > 0; i--) {
        char text[4096];
        const char *seed = fuzz_seeds[next_random(&random) % n_seeds];
        size_t n = strlen(seed);
        memcpy(text, seed, n);
        n = damage(text, n, sizeof(text), &random);
        LLVMFuzzerTestOneInput((const uint8_t *)text, n);
    }
    printf("ok 2 - damaged seeds\n");
    return 0;
}
