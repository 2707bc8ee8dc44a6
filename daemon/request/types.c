/* SPDX-License-Identifier: MIT */
#include "daemon/request/types.h"
#include <stddef.h>

static const struct request_type *const types[] = {
    &request_generate,       &request_warm,           &request_infill,       &request_tokenize,
    &request_detokenize,     &request_session_list,   &request_session_show, &request_session_fork,
    &request_session_rename, &request_session_remove, &request_embed,        &request_rank,
};

const struct request_type *request_type_of(enum proto_type t)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (types[i]->proto == t) return types[i];
    return NULL;
}
