/* SPDX-License-Identifier: MIT */
#pragma once
/* A mapped file of packed weights, inside. */
#include "daemon/model/packed.h"

struct packed {
    uint8_t *map; /* aligned to PACKED_ALIGN */
    size_t bytes;
    uint8_t *head; /* everything before the image but the zeros */
    char *dir, name[64];
    struct stat st;
};
