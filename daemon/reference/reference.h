/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * An independent forward pass: plain f32 on dequantized weights, matrix products by OpenBLAS (loaded with dlopen when
 * first used, one thread), full softmax attention. It shares no code with the fast path except for reading the file.
 * `hobd verify` and the tests compare with it.
 */
#include "daemon/model/hparams.h"
#include "daemon/model/items.h"

struct adapter;
struct reference;

/* On 0 *out is owned by the caller; -ENOENT if OpenBLAS cannot be loaded; -ENOMEM. Errors set the error message. @g
 * must stay open until reference_free, and weights_check or weights_load must have accepted its tensors. */
int reference_new(struct reference **out, const struct gguf *g);

struct reference *reference_free(struct reference *r); /* NULL ok, returns NULL */

/* Set the longest context, which selects LongRoPE's factors; the default is the long ones. */
void reference_context(struct reference *r, uint32_t ctx);

/* Set the places of the items of later passes, for M-RoPE, which must stay valid; NULL, the default: each position
 * three times. */
void reference_places(struct reference *r, const struct item_place *places);

/* Later passes have this adapter, which must stay open, from position @from on; @scale: of adapter_scale. NULL, the
 * default: none. */
void reference_adapter(struct reference *r, const struct adapter *a, float scale, uint32_t from);

/* Logits [n][vocab] of a sequence of n tokens from position 0. */
int reference_forward(struct reference *r, const int32_t *tokens, uint32_t n, float *logits);

/* Rows [n][dim] of the same behind the last norm, also of a model that has no logits. @types: [n] of the tokens, or
 * NULL.
 */
int reference_text(struct reference *r, const int32_t *tokens, const uint8_t *types, uint32_t n, float *rows);

/* Logits of items. @embd: [n][dim], of which the rows of the positions with ITEM_EMBD count. @ends: [n] for each
 * position the one behind the last that it sees, at most n; NULL: it sees none behind itself. */
int reference_items(struct reference *r, const int32_t *ids, const float *embd, const uint32_t *ends, uint32_t n,
                    float *logits);

/* The same of the MTP layer of the file (hparams_mtp), which must have one. @tokens and @states [n][dim]: its pairs. It
 * writes the states of the next pairs to @next [n][dim], too. */
int reference_mtp(struct reference *r, const int32_t *tokens, const float *states, uint32_t n, float *logits,
                  float *next);

/* The same with a window > 0 (struct batch_entry). From position sinks + window on, a token sees the last @window
 * positions and the first @sinks, as if these were directly before the window: their keys are rotated again for each
 * query. */
int reference_rotate(struct reference *r, const int32_t *tokens, uint32_t n, uint32_t sinks, uint32_t window,
                     float *logits);
