/* SPDX-License-Identifier: MIT */
#pragma once
/* One transfer by HTTP(S), by libcurl, which also knows the proxy variables. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the answer says before its bytes come. Strings live until begin returns; NULL: not said. */
struct fetch_head {
    uint64_t from;   /* the first byte of the file that comes */
    int64_t total;   /* bytes of the whole file; -1: not said */
    const char *tag; /* a strong ETag or a date: what If-Range takes */
    const char *sha256;
};

struct fetch {
    const char *url;             /* as origin_parse made it */
    bool insecure_http;          /* also http:// to other hosts than this one */
    bool linked;                 /* the server tells the SHA-256 of what it points to, as Hugging Face does */
    const char *token;           /* for the host of the URL alone; NULL: none */
    const char *user, *password; /* likewise, where there is no token; NULL: none */
    uint64_t from;               /* bytes that are here already */
    const char *if_same;         /* if the file is still the one that had this tag; NULL: in any case */
    /* Each returns 0, or a negative error that ends the transfer. tick comes at least once a second. */
    int (*begin)(void *ctx, const struct fetch_head *head);
    int (*data)(void *ctx, const void *p, size_t n);
    int (*tick)(void *ctx);
    void *ctx;
};

enum {
    FETCH_AGAIN = 1,     /* cut, or the server is busy: what is missing may come later; error_text(-EIO) says why */
    FETCH_UNREACHED = 2, /* no connection; likewise */
    FETCH_RANGE = 3,     /* there is nothing behind @from */
};

/* 0: all of it came; one of the above; what a function returned; else -errno with a sentence. */
int fetch(const struct fetch *f);

/* Whether that URL may be fetched: https, or http where it is allowed. 0; -EPERM or -EINVAL with a sentence. */
int fetch_allowed(const char *url, bool insecure_http);
