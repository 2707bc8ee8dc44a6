/* SPDX-License-Identifier: MIT */
#pragma once

/* hobd inspect --json: one JSON object on a line about the GGUF file @path. 0; 1: it cannot be read, which the object
 * says; negative with a sentence: it could not be printed. */
int inspect_json(const char *path);
