/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the fuzz targets share. A target takes any bytes, and aborts if one of its checks fails. In the suite, replay.c
 * gives it its seeds and the files of corpus/NAME, whole and damaged; with -Dfuzz=true it is also a program of a fuzzer
 * (tests/fuzz.sh).
 */
#include "daemon/text/grammar/grammar.h"
#include <stddef.h>
#include <stdint.h>

/* The target's own. */
extern const char *const fuzz_seeds[]; /* NULL-terminated; "hex:" begins a seed of hexadecimal digits */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Bytes of an input that a target has not read yet. */
struct fuzz_input {
    const uint8_t *data;
    size_t n;
};

/* The next byte, or two (little-endian); 0 behind the end. */
unsigned fuzz_byte(struct fuzz_input *in);
unsigned fuzz_short(struct fuzz_input *in);
/* The next @n bytes, or as many as there are: *n. */
const char *fuzz_bytes(struct fuzz_input *in, size_t *n);
/* A file in memory with these bytes, which /proc/self/fd/N names: *path. The caller closes it. */
struct fuzz_path {
    char s[32];
};
int fuzz_file(const void *bytes, size_t n, struct fuzz_path *path);
/* Make @path a file with these bytes. */
void fuzz_write(const char *path, const void *bytes, size_t n);
/* A new folder under /dev/shm or /tmp, which is removed at the end of the process. Returns @out. */
char *fuzz_folder(char out[64]);
/* Log nothing: errors are expected. Call it first. */
void fuzz_quiet(void);

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
