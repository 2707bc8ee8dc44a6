/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Files of a model that is split into parts (STEM-00001-of-00003.gguf, as llama-gguf-split names them). The first part
 * has the keys, and is the file that a user names. The others are beside it. In a folder of models the first part is
 * STEM.gguf.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_PARTS_MAX 1024

/* True if @path ends in -NNNNN-of-NNNNN.gguf: *stem is the number of bytes before that, *no counts from 1. The numbers
 * need not fit each other. */
bool model_part_named(const char *path, size_t *stem, uint32_t *no, uint32_t *count);

/* The path of part @no of @count beside @first: of the stem of @first itself, else of that of the file to which links
 * lead, whichever exists (if none does, the first of them); of a download, STEM.gguf.part, the download. 0 and *out is
 * the caller's, or -ENOMEM. */
int model_part_path(char **out, const char *first, uint32_t no, uint32_t count);

/* The existing files with the names of parts of the first part @first, itself not among them: at most @max, sorted.
 * Returns their number; the caller frees each of them. */
size_t model_parts_list(char **out, size_t max, const char *first);
