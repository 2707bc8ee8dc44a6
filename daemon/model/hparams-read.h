/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to hparams*.c: the parts of hparams_read that are in files of their own. */
#include "daemon/model/hparams.h"
#include "daemon/model/keys.h"

/* Read the keys of a mixture of experts into s->experts, which stays zero if the layers have none. The layers, the
 * architecture and ffn of *s are set. 0; -EINVAL or -EOPNOTSUPP and the error message, which names the key. */
int hparams_read_experts(struct hparams *s, const struct keys *k);

/* Read the keys of latent attention into s->mla, kv_heads and head_dim. s->heads is set. 0; -EINVAL or -EOPNOTSUPP and
 * the error message, which names the key. */
int hparams_read_mla(struct hparams *s, const struct keys *k);

/* s->ffn and s->by_layer.ffns of the key feed_forward_length, a number or an array. Without the key 0, unless it is
 * @need. 0, or -EINVAL and the error message, which names the key. */
int hparams_read_ffn(struct hparams *s, const struct keys *k, enum need need);

/* Each of the layers behind the last that has tensors has some that only a layer has that predicts later tokens: else
 * s->mtp.nextn takes layers of the model away. 0, or -EINVAL and the error message, which names the key. */
int hparams_check_nextn(const struct hparams *s, const struct keys *k);

/* The rest of s->by_layer, and kv_heads of an array; s->per_layer and s->altup. The layers, windows, heads and ffn of
 * *s are set. 0; -EINVAL or -EOPNOTSUPP and the error message, which names the key. */
int hparams_read_layers(struct hparams *s, const struct keys *k);

/* s->by_layer.parts and s->kv_heads, which is the number of heads at first. 0, or -errno and the error message. */
int hparams_layers(struct hparams *s, const struct keys *k);

/* s->recurrent, and the groups of a model that is not split. 0, or -errno and the error message. */
int hparams_recurrent(struct hparams *s, const struct keys *k);

/* s->embedding. 0; -EINVAL or -EOPNOTSUPP and the error message, which names the key. */
int hparams_read_embedding(struct hparams *s, const struct keys *k);
