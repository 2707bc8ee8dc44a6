/* SPDX-License-Identifier: MIT */
#include "libcommon/proto.h"
#include <stdlib.h>
#include <string.h>

void proto_embed_fini(struct proto_embed *e)
{
    for (size_t i = 0; i < e->n_texts; i++) proto_text_fini(&e->texts[i]);
    free(e->texts);
    if (e->question) proto_text_fini(e->question);
    free(e->question);
    *e = (struct proto_embed){0};
}

void proto_vectors_fini(struct proto_vectors *v)
{
    free(v->values);
    free(v->tokens);
    *v = (struct proto_vectors){0};
}

const char *proto_pooling_name(enum proto_pooling p)
{
    static const char *const names[] = {
        [PROTO_POOLING_UNSET] = "",
        [PROTO_POOLING_MEAN] = "mean",
        [PROTO_POOLING_CLS] = "cls",
        [PROTO_POOLING_LAST] = "last",
    };

    return (unsigned)p < sizeof(names) / sizeof(*names) ? names[p] : "";
}

enum proto_pooling proto_pooling_value(const char *name)
{
    for (int p = PROTO_POOLING_MEAN; p <= PROTO_POOLING_LAST; p++)
        if (strcmp(proto_pooling_name((enum proto_pooling)p), name) == 0) return (enum proto_pooling)p;
    return PROTO_POOLING_UNSET;
}
