/* SPDX-License-Identifier: MIT */
#pragma once
/* One HTTP(S) transfer with libcurl, which also reads the proxy variables. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Headers of the response. Strings are valid until begin returns; NULL: missing. */
struct fetch_head {
    uint64_t from;   /* offset of the first byte in the response */
    int64_t total;   /* bytes of the whole file; -1: unknown */
    const char *tag; /* a strong ETag or a date, for If-Range */
    const char *sha256;
};

struct fetch {
    const char *url;             /* as origin_parse returns it */
    bool insecure_http;          /* also allow http:// to other hosts than this one */
    bool linked;                 /* the server sends the SHA-256 of the file with the redirect, as Hugging Face does */
    const char *token;           /* sent only to the host of the URL; NULL: none */
    const char *user, *password; /* likewise, if there is no token; NULL: none */
    uint64_t from;               /* bytes that the caller already has */
    const char *if_same;         /* If-Range: continue only if the file still has this tag; NULL: always */
    /* Each callback returns 0, or a negative error that ends the transfer. tick is called at least once a second. */
    int (*begin)(void *ctx, const struct fetch_head *head);
    int (*data)(void *ctx, const void *p, size_t n);
    int (*tick)(void *ctx);
    void *ctx;
};

enum {
    FETCH_AGAIN =
        1, /* the transfer was cut, or the server is busy: a retry may succeed; error_text(-EIO) has the reason */
    FETCH_UNREACHED = 2, /* no connection; a retry may succeed, as above */
    FETCH_RANGE = 3,     /* the file has no bytes after @from */
};

/* 0: complete; one of the above; the negative return of a callback; else -errno; sets the error message. */
int fetch(const struct fetch *f);

/* Check a URL: https, or http where it is allowed. 0; -EPERM or -EINVAL; sets the error message. */
int fetch_allowed(const char *url, bool insecure_http);
