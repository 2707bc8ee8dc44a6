/* SPDX-License-Identifier: MIT */
#pragma once
/* The command line of hob-http. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum http_command { HTTP_SERVE, HTTP_HELP, HTTP_VERSION, HTTP_KEY_ADD };

struct http_options {
    enum http_command command;
    const char **listen; /* [n_listen], owned; the texts are the caller's */
    size_t n_listen;
    const char **sockets; /* [n_sockets], owned; the texts are the caller's */
    size_t n_sockets;
    const char **hosts; /* [n_hosts], owned; the texts are the caller's */
    size_t n_hosts;
    const char *keys;     /* file; NULL: the default place, if it exists */
    const char *key_name; /* of HTTP_KEY_ADD */
    uint64_t max_body;    /* bytes */
    uint64_t max_connections;
    uint64_t request_timeout_usec; /* for a whole request to arrive; also an idle connection ends after it */
    bool verbose;
    bool no_sandbox; /* --confine no */
};

/* 0; -EINVAL: wrong usage; -ENOMEM; sets the error message. Call http_options_fini in any case. */
int http_options_parse(struct http_options *o, int argc, char **argv);
void http_options_fini(struct http_options *o);

/* Print the help to standard output. 0 or -errno. */
int http_options_help(void);
