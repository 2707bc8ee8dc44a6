/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The layers of a model over several devices: each gets consecutive ones. Their bytes are those of weights, and of KV
 * blocks and states, which lie where their layers are. A device is filled in proportion to its free memory.
 */
#include "daemon/model/device.h"
#include "daemon/model/hparams.h"
#include <stdbool.h>
#include <stddef.h>

struct backend_config;
struct cuda_backend;
struct gguf;

struct cuda_shares {
    const struct hparams *s;
    size_t *begin; /* [n_layers + 2] of weights in their image, as weights_layers has them */
    double *kv;    /* [n_layers] bytes of KV blocks and states */
    bool *apart;   /* [n_layers] the layer and those behind it read no KV of the layers before it */
    uint32_t n;    /* devices */
    struct {
        size_t left, fixed; /* bytes of free memory; of what is not of a layer: buffers, and what stays free */
        uint32_t end;       /* behind the last layer */
    } of[DEVICES_MAX];
};

/* Allocate the arrays, and find out which layers are apart: 0, or -ENOMEM and the error message. cuda_shares_fini is
 * allowed in both cases. */
int cuda_shares_init(struct cuda_shares *p, const struct hparams *s);
void cuda_shares_fini(struct cuda_shares *p);

/* The first layer of a device. */
static inline uint32_t cuda_shares_first(const struct cuda_shares *p, uint32_t device)
{
    return device ? p->of[device - 1].end : 0;
}

/* Bytes of weights that layers [first, end) need on a device: also the output matrix, which is before the first layer
 * in the image, with the last layer; and all behind the last layer, with the first and with the last one. */
size_t cuda_shares_weights(const struct cuda_shares *p, uint32_t first, uint32_t end);
double cuda_shares_kv(const struct cuda_shares *p, uint32_t first, uint32_t end);

/* Set the devices' ends so that the largest share of a device's memory is as small as possible; it may be more than the
 * device has. 0, or -EOPNOTSUPP and the error message if there are fewer parts than devices. */
int cuda_shares_balance(struct cuda_shares *p);

/* Bytes that the backend of the MTP layer, which follows the model's, takes on the last device; 0: none follows. On an
 * error -errno and the error message. */
int cuda_measure_mtp(const struct gguf *g, const struct hparams *model, const struct backend_config *c, size_t *bytes);

/* Plan the memory of the open devices: the layers, first with the KV pool that there may be room for, then, if the
 * weights do not fit so, without; and lower the pool and its states to what is left. @mtp: of cuda_measure_mtp. 0; 1
 * and the error message of -ENOMEM: as 0, but the pool has less than a sequence of 4096 tokens, or of the context;
 * -ENOMEM and the error message: the weights do not fit, or the pool has less than a block; -EOPNOTSUPP: as
 * cuda_shares_balance. */
int cuda_plan_memory(struct cuda_shares *p, const struct cuda_backend *x, struct backend_config *config, size_t mtp);
