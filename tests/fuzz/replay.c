/* SPDX-License-Identifier: MIT */
/* Gives a fuzz target its seeds: whole, cut, and with bytes changed, moved and repeated. The environment's
 * HOB_FUZZ_RUNS says how many damaged ones. Or the files that are named as arguments, for what a fuzzer has found. */
#include "libcommon/cleanup.h"
#include "libcommon/hex.h"
#include "tests/fuzz/fuzz.h"
#include "tests/libcommon/check.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNS     400
#define SEED_MAX 4096 /* bytes */

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

/* The bytes of a seed. Returns their number. */
static size_t get_seed(const char *seed, char *out, size_t cap)
{
    bool hex = strncmp(seed, "hex:", 4) == 0;
    size_t n = hex ? strlen(seed + 4) / 2 : strlen(seed);
    if (n > cap) fuzz_fail("a seed is too long", seed);
    if (!hex) memcpy(out, seed, n);
    if (hex && !hex_read((uint8_t *)out, seed + 4, n)) fuzz_fail("a seed is not hexadecimal", seed);
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
    for (; fuzz_seeds[n_seeds]; n_seeds++) {
        char text[SEED_MAX];
        LLVMFuzzerTestOneInput((const uint8_t *)text, get_seed(fuzz_seeds[n_seeds], text, sizeof(text)));
    }
    printf("ok 1 - seeds\n");
    for (long i = runs ? atol(runs) : RUNS; i > 0; i--) {
        char text[SEED_MAX];
        size_t n = get_seed(fuzz_seeds[next_random(&random) % n_seeds], text, sizeof(text));
        n = damage(text, n, sizeof(text), &random);
        LLVMFuzzerTestOneInput((const uint8_t *)text, n);
    }
    printf("ok 2 - damaged seeds\n");
    return 0;
}
