/* SPDX-License-Identifier: MIT */
#pragma once
/* The daemon that has a response. */
#include "client/http/fault.h"
#include "client/http/http-options.h"
#include "client/http/response-id.h"

/* For response_id.model: of the daemon at @socket. */
uint32_t response_model(const char *socket);

/* The socket of the daemon that has the response. The caller frees *socket. 0; negative with *f. */
int response_socket(const struct http_options *o, const struct response_id *id, char **socket, struct fault *f);
