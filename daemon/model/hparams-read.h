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

/* s->parts and s->kv_heads, which is the number of heads at first. 0, or -errno and the error message. */
int hparams_layers(struct hparams *s, const struct keys *k);

/* s->recurrent, and the groups of a model that is not split. 0, or -errno and the error message. */
int hparams_recurrent(struct hparams *s, const struct keys *k);
