/* SPDX-License-Identifier: MIT */
#include "client/http/response-socket.h"
#include "client/http/model-list.h"
#include "libcommon/cleanup.h"
#include <string.h>

uint32_t response_model(const char *socket)
{
    _cleanup_(freep) char *name = model_name(socket);
    return (uint32_t)response_id_hash(name ? name : "", name ? strlen(name) : 0);
}

int response_socket(const struct http_options *o, const struct response_id *id, char **socket, struct fault *f)
{
    json_auto_t *list = NULL;
    size_t i;
    json_t *m;
    int r = model_list(o, &list);
    if (r < 0) return fault_of_error(f, r);
    json_array_foreach(list, i, m)
    {
        const json_t *name = json_object_get(m, "id");
        if ((uint32_t)response_id_hash(json_string_value(name), json_string_length(name)) == id->model)
            return model_find(o, json_string_value(name), socket, f);
    }
    return fault_set(f, 404, NULL, "the model of this response does not exist any more");
}
