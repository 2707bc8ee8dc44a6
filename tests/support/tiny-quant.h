/* SPDX-License-Identifier: MIT */
#pragma once
/* ggml's types as the tests write them: simple roundings, nothing searched for. */
#include <stdint.h>

struct tiny_type {
    const char *name;
    uint32_t number, block, bytes;            /* ggml's number; values and bytes of a block */
    void (*pack)(uint8_t *p, const float *x); /* one block */
};

/* NULL: not known. */
const struct tiny_type *tiny_type_numbered(uint32_t number);
const struct tiny_type *tiny_type_named(const char *name);
