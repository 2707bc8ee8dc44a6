/* SPDX-License-Identifier: MIT */
#pragma once
/* The error that answers an HTTP request. */
#include <stdbool.h>

enum { FAULT_PARAM_MAX = 64, FAULT_MESSAGE_MAX = 512 };

struct fault {
    int status;                  /* of HTTP; 0: no error */
    bool close;                  /* the rest of the request is not read, and the connection ends */
    const char *code;            /* static: a name for programs, such as "context_length_exceeded"; NULL: none */
    unsigned retry_s;            /* of a temporary one: seconds until the client should try again; 0: 1 */
    char param[FAULT_PARAM_MAX]; /* the field of the request; "": none */
    char message[FAULT_MESSAGE_MAX];
};

/* Set *f; @param may be NULL. A part of a message that does not fit is cut. Returns -EINVAL, so that a caller can
 * return it. */
int fault_set(struct fault *f, int status, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Set *f from an error event of the daemon: its code (positive errno) and its message. Returns -EINVAL. */
int fault_of_event(struct fault *f, int code, const char *message);

/* Set *f from a local error @r (negative errno) and its message: 413 for a request over a limit of the protocol, 503
 * without memory, else 500. Returns -EINVAL. */
int fault_of_error(struct fault *f, int r);

/* True if the client may send the same request again later. */
bool fault_is_temporary(const struct fault *f);
