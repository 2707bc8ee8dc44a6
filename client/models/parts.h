/* SPDX-License-Identifier: MIT */
#pragma once
/* Models in parts (libcommon/model-parts.h) in a folder of models: NAME.gguf is the first part, the others are beside
 * it. They get their names before the first does. */
#include "client/models/models.h"
#include "client/models/place.h"

/* Open the place of part @no of @count of the model of @p. As place_open; call place_close in any case. */
int parts_place(struct place *out, const struct place *p, uint32_t no, uint32_t count);

/* Remove the other parts of the model, also incomplete ones, but not those of a model of @keep parts (0: none). Returns
 * the number of removed files. */
size_t parts_remove(const struct place *p, uint32_t keep);

/* @file, a name in a folder of models, is a part, but not a first one. */
bool parts_is_rest(const char *file);
