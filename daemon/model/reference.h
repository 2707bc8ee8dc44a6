/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * An independent forward pass: plain f32 on dequantized weights, matrix products by OpenBLAS (loaded with dlopen when
 * first used, one thread), full softmax attention, no code shared with the fast path beyond reading the file. What
 * `hobd verify` and the tests compare with.
 */
#include "daemon/model/shape.h"

struct reference;

/* -ENOENT with a sentence when OpenBLAS cannot be loaded; -ENOMEM. @g stays open as long as it lives, and its tensors
 * are of the shape's sizes, as weights_check or weights_load has found. */
int reference_new(struct reference **out, const struct gguf *g);

/* The longest context that can come, by which LongRoPE's factors are chosen; at first the long ones are. */
void reference_context(struct reference *r, uint32_t ctx);
struct reference *reference_free(struct reference *r); /* NULL ok, returns NULL */

/* Logits [n][vocab] of a sequence of n tokens from position 0. */
int reference_forward(struct reference *r, const int32_t *tokens, uint32_t n, float *logits);

/* The same with a window > 0 (struct batch_entry): from position sinks + window on, a token sees the last @window and,
 * as if they stood right before these, the first @sinks, whose keys are rotated to there anew for each query. */
int reference_rotate(struct reference *r, const int32_t *tokens, uint32_t n, uint32_t sinks, uint32_t window,
                     float *logits);
