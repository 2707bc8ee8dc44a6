/* SPDX-License-Identifier: MIT */
#pragma once
/* Shared by the files of test-cuda. */
#include "tests/backend/backend-seq.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

extern struct device_choice devices; /* over which the layers are split; n 0: the first one */

/* Both backends of one model. */
struct pair {
    struct gguf *g;
    struct backend *cpu, *gpu;
};

/* The backends of @g, which close_pair closes. */
struct pair open_both(struct gguf *g, struct tiny_backend_config c);
void close_pair(struct pair *p);

/* The first @n blocks of a sequence are equal in all groups. */
void same_blocks(const struct pair *p, uint32_t first, uint32_t n);

/* *state: "arch" or "arch/TYPE". */
void test_adapters(void **state);
void test_mtp(void **state);
