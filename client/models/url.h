/* SPDX-License-Identifier: MIT */
#pragma once
/* libcurl's URLs, and their form in messages. */
#include <curl/curl.h>

enum { URL_SHOWN = 256 };

/* @url for a message: without user, password and query, any of which may be secret, and shortened. Returns @out. */
const char *url_shown(char out[URL_SHOWN], const char *url);

/* For _cleanup_. */
static inline void url_cleanup(CURLU **u)
{
    curl_url_cleanup(*u);
}

static inline void url_text_free(char **s)
{
    curl_free(*s);
}
