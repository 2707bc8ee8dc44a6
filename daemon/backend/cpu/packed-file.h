/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to packed*.c: a mapped file of packed weights. */
#include "daemon/backend/cpu/packed.h"

struct packed {
    uint8_t *map; /* aligned to PACKED_ALIGN */
    size_t bytes;
    uint8_t *head; /* copy of all before the image, without the zeros */
    char *dir, name[64];
    struct stat st;
};
