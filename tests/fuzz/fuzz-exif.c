/* SPDX-License-Identifier: MIT */
#include "daemon/media/decode/exif.h"
#include "tests/fuzz/fuzz.h"
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = {
    "hex:4d4d002a000000080002010f0003000000010007000001120003000000010006000000000000",
    "hex:49492a000800000002000f010300010000000700000012010300010000000300000000000000",
    "hex:4578696600004d4d002a000000080002010f0003000000010007000001120003000000010008000000000000",
    NULL,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1); /* without a byte more */
    FUZZ_CHECK(copy);
    memcpy(copy, data, size);
    unsigned orientation = exif_orientation(copy, size);
    FUZZ_CHECK(orientation >= 1 && orientation <= 8);
    free(copy);
    return 0;
}
