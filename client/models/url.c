/* SPDX-License-Identifier: MIT */
#include "client/models/url.h"
#include "libcommon/utf8.h"
#include <stdio.h>
#include <string.h>

const char *url_shown(char out[URL_SHOWN], const char *url)
{
    const char *scheme = strstr(url, "://"), *from = scheme ? scheme + 3 : url;
    /* The text may be an invalid URL. */
    const char *at = memrchr(from, '@', scheme && *from != '/' ? strcspn(from, "/?#") : strlen(from));
    size_t head = (size_t)(from - url), len, whole;

    if (at) from = at + 1;
    len = strcspn(from, "?#");
    if (head > URL_SHOWN / 2) head = URL_SHOWN / 2;
    whole = len;
    if (head + len > URL_SHOWN - 4) len = utf8_whole(from, URL_SHOWN - 4 - head);
    snprintf(out, URL_SHOWN, "%.*s%.*s%s", (int)head, url, (int)len, from, len < whole ? "…" : "");
    return out;
}
