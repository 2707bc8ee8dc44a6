/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the fuzz targets share. A target takes any bytes, and aborts if one of its checks fails. In the suite, replay.c
 * gives it its seeds, whole and damaged; with -Dfuzz=true and clang it is also a libFuzzer program (meson.build).
 */
#include "daemon/text/grammar/grammar.h"
#include <stddef.h>
#include <stdint.h>

/* The target's own. */
extern const char *const fuzz_seeds[]; /* NULL-terminated; "hex:" begins a seed of hexadecimal digits */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program with the message. */
void fuzz_fail(const char *what, const char *why) __attribute__((noreturn));
#define FUZZ_CHECK(x) ((x) ? (void)0 : fuzz_fail(#x, ""))

/* Builds the grammar of @root, and frees @b. Takes tokens from its masks as @data [@size] tells, comparing each mask
 * with what the grammar accepts; then takes the shortest completion, which must be accepted. @text (may be NULL) is
 * told the completed text. */
void fuzz_grammar(struct grammar_builder *b, expr_t root, const uint8_t *data, size_t size,
                  void (*text)(const char *s, size_t n));
/* What a failed call may return; it also must have a message. */
void fuzz_refused(int r);
