/* SPDX-License-Identifier: MIT */
#pragma once

/* hobd inspect --json: prints one JSON object on a line about the GGUF file @path. 0; 1: the file cannot be read, and
 * the object has the error; negative: it could not be printed; sets the error message. */
int inspect_json(const char *path);

/* The same of an adapter of the model @base. */
int inspect_adapter_json(const char *path, const char *base);
