/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Recurrent layers. A kind of them is one file with a struct recurrent_ops, an entry in recurrent.c, and its sizes and
 * keys in hparams-recurrent.c. The state of a sequence changes token by token, in the order of positions. Entries of a
 * batch, and parts of one state (channels, heads), are independent: threads share them. So a part of a state has one
 * owner in a pass, and neither threads nor the cutting of prompts change a bit.
 */
#include "daemon/backend/cpu/cpu.h"
#include "daemon/backend/cpu/weights-plan.h"

struct recurrent_ops {
    /* Plan the tensors of layer @l. Errors as those of weights_plan. */
    int (*want)(struct weights_plan *p, struct layer_recurrent *y, uint32_t l);
    /* From the products in scratch.recurrent.in, whose rows it may change, to the f of scratch.recurrent.out, and from
     * each entry's state to that after its last token, with its saves. */
    void (*scan)(struct pass *p);
    /* Complete row @row of out, before it is quantized, from in. After scan, for the rows that are wanted. NULL: none.
     */
    void (*finish)(const struct pass *p, size_t row);
};

extern const struct recurrent_ops recurrent_shortconv, recurrent_mamba2, recurrent_delta;

/* Of a model with recurrent layers. */
const struct recurrent_ops *recurrent_of(const struct hparams *s);

/* The products of the layer's normed input: at most RECURRENT_INPUTS. Returns their number. */
uint32_t recurrent_products(const struct pass *p, struct product set[RECURRENT_INPUTS]);

/* The state of the pass's layer in a block. */
float *recurrent_state(const struct pass *p, uint32_t block);

/* Run @fn for each entry of the batch and each of @parts parts of its state. */
typedef void (*recurrent_fn)(const struct pass *p, const struct recurrence *r, uint32_t part);
void recurrent_run(struct pass *p, uint32_t parts, recurrent_fn fn);

#define RECURRENT_CHANNELS 256 /* of a part of a convolution */

static inline uint32_t recurrent_conv_parts(const struct hparams *s)
{
    return (s->recurrent.channels + RECURRENT_CHANNELS - 1) / RECURRENT_CHANNELS;
}

/* The convolution of part @part of the channels, in place: @x is the entry's first row of all channels, in rows of @ld;
 * with the layer's bias, if any, and then SiLU if @silu. Updates and saves that part of the state. Returns the first
 * channel, and *n channels. */
uint32_t recurrent_conv(const struct pass *p, const struct recurrence *r, uint32_t part, float *x, size_t ld, bool silu,
                        uint32_t *n);

/* scratch.recurrent.out of the p->n rows that are left: finish and quantize them, then the product to scratch.h.f. */
void recurrent_output(struct pass *p);
