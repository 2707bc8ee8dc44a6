/* SPDX-License-Identifier: MIT */
#include "client/models/fetch.h"
#include "client/models/url.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>

#define REDIRECTS_MAX 10
#define HEADER_MAX    512        /* maximum bytes of a stored header value */
#define PAGE_MAX      (1u << 20) /* maximum bytes of the body of a redirect or an error */
#define STALLED_S     60
#define CONNECT_S     30

struct transfer {
    const struct fetch *f;
    CURL *curl;
    bool at_origin; /* the current server is the one of the URL, not one of a redirect */
    bool begun;     /* the body of the response is the file */
    int error;      /* negative: the reason that this side ended the transfer */
    size_t page;
    char tag[HEADER_MAX], modified[HEADER_MAX], range[HEADER_MAX], sha256[65];
};

static void freeslist(struct curl_slist **l)
{
    curl_slist_free_all(*l);
}

/* --- redirects --- */

static bool is_local(const char *host)
{
    size_t n = strlen(host);
    struct in_addr v4;
    if (inet_pton(AF_INET, host, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    return strcmp(host, "[::1]") == 0 || strcasecmp(host, "localhost") == 0 ||
           (n > 10 && strcasecmp(host + n - 10, ".localhost") == 0);
}

/* Scheme, host and port (NULL: none) of @url. The caller frees them with curl_free. */
static int url_parts(const char *url, char **scheme, char **host, char **port)
{
    _cleanup_(url_cleanup) CURLU *u = curl_url();
    char shown[URL_SHOWN];
    *scheme = *host = *port = NULL;
    if (!u) return error_say(-ENOMEM, "no memory for a URL");
    if (curl_url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK ||
        curl_url_get(u, CURLUPART_SCHEME, scheme, 0) != CURLUE_OK)
        return error_say(-EINVAL, "not a URL: %s", url_shown(shown, url));
    curl_url_get(u, CURLUPART_HOST, host, 0);
    curl_url_get(u, CURLUPART_PORT, port, CURLU_DEFAULT_PORT);
    return 0;
}

int fetch_allowed(const char *url, bool insecure_http)
{
    char *scheme, *host, *port;
    int r = url_parts(url, &scheme, &host, &port);
    if (r == 0 && strcmp(scheme, "https") != 0) {
        if (strcmp(scheme, "http") != 0)
            r = error_say(-EINVAL, "%s:// is not supported, only https:// and hf:", scheme);
        else if (!host || (!insecure_http && !is_local(host)))
            r = error_say(-EPERM, "http://%s is not authenticated: use https, or --insecure-http", host ? host : "");
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    return r;
}

/* An https server may redirect to https only: over http the peer is not authenticated, not even on this machine. */
static int redirect_allowed(const char *from, const char *to, bool insecure_http)
{
    char shown[2][URL_SHOWN];
    if (strncasecmp(from, "https:", 6) == 0 && strncasecmp(to, "https:", 6) != 0 && !insecure_http)
        return error_say(-EPERM, "%s redirects to %s: https may redirect only to https", url_shown(shown[0], from),
                         url_shown(shown[1], to));
    return fetch_allowed(to, insecure_http);
}

/* Two ports of one host are two servers. */
static bool same_server(const char *a, const char *b)
{
    char *as, *ah, *ap, *bs, *bh, *bp;
    int r = url_parts(a, &as, &ah, &ap), q = url_parts(b, &bs, &bh, &bp);
    bool same = r == 0 && q == 0 && ah && bh && ap && bp && strcmp(as, bs) == 0 && strcasecmp(ah, bh) == 0 &&
                strcmp(ap, bp) == 0;
    curl_free(as);
    curl_free(ah);
    curl_free(ap);
    curl_free(bs);
    curl_free(bh);
    curl_free(bp);
    return same;
}

/* --- the response --- */

/* Copy the value of the header @name into @out, if @line is that header and the value fits. */
static void take_header(char out[HEADER_MAX], const char *line, size_t n, const char *name)
{
    size_t k = strlen(name);
    if (n <= k || strncasecmp(line, name, k) != 0 || line[k] != ':') return;
    for (k++; k < n && (line[k] == ' ' || line[k] == '\t'); k++) {
    }
    while (n > k && (unsigned char)line[n - 1] <= ' ') n--;
    *out = 0;
    if (n - k >= HEADER_MAX) return;
    for (size_t i = k; i < n; i++)
        if ((unsigned char)line[i] < ' ' || (unsigned char)line[i] >= 0x7f) return;
    memcpy(out, line + k, n - k);
    out[n - k] = 0;
}

static size_t on_header(char *line, size_t size, size_t n, void *ctx)
{
    struct transfer *t = ctx;
    char linked[HEADER_MAX] = "";
    char *hex = linked;
    if (n >= 5 && memcmp(line, "HTTP/", 5) == 0) *t->tag = *t->modified = *t->range = 0;
    take_header(t->tag, line, n, "etag");
    take_header(t->modified, line, n, "last-modified");
    take_header(t->range, line, n, "content-range");
    if (!t->f->linked || !t->at_origin) return n;
    take_header(linked, line, n, "x-linked-etag");
    if (*hex == '"') hex++;
    if (strspn(hex, "0123456789abcdef") == 64) snprintf(t->sha256, sizeof(t->sha256), "%.64s", hex);
    return n;
}

/* "bytes FROM-TO/TOTAL"; TOTAL may be "*". */
static int take_range(const char *range, uint64_t asked, struct fetch_head *h)
{
    uint64_t to;
    char total[32];
    if (sscanf(range, "bytes %" SCNu64 "-%" SCNu64 "/%31s", &h->from, &to, total) != 3 || to < h->from)
        return error_say(-EBADMSG, "the server sent a range without its place in the file (%.60s)", range);
    h->total = strcmp(total, "*") == 0 ? -1 : (int64_t)strtoull(total, NULL, 10);
    if (h->total >= 0 && (uint64_t)h->total <= to)
        return error_say(-EBADMSG, "the server sent a range that is not in the file (%.60s)", range);
    if (h->from != asked) return error_say(-EBADMSG, "the server sent another range than requested (%.60s)", range);
    return 0;
}

static int transfer_begin(struct transfer *t, long status)
{
    /* A weak tag (W/) does not guarantee equal bytes. */
    bool strong = *t->tag && strncmp(t->tag, "W/", 2) != 0;
    struct fetch_head h = {.total = -1,
                           .tag = strong         ? t->tag
                                  : *t->modified ? t->modified
                                                 : NULL,
                           .sha256 = *t->sha256 ? t->sha256 : NULL};
    curl_off_t length = -1;
    int r = 0;

    t->begun = true;
    if (status == 206) {
        r = take_range(t->range, t->f->from, &h);
    } else {
        curl_easy_getinfo(t->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
        h.total = length;
    }
    return r < 0 ? r : t->f->begin(t->f->ctx, &h);
}

static long status_of(CURL *curl)
{
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static size_t on_data(char *p, size_t size, size_t n, void *ctx)
{
    struct transfer *t = ctx;
    long status = status_of(t->curl);
    if (status != 200 && status != 206) { /* the body is a page for people; the status code is enough */
        t->page += n;
        return t->page > PAGE_MAX ? 0 : n;
    }
    if (!t->begun) t->error = transfer_begin(t, status);
    if (t->error == 0) t->error = t->f->data(t->f->ctx, p, n);
    return t->error == 0 ? n : 0;
}

static int on_tick(void *ctx, curl_off_t down, curl_off_t downed, curl_off_t up, curl_off_t upped)
{
    struct transfer *t = ctx;
    if (t->error == 0) t->error = t->f->tick(t->f->ctx);
    return t->error != 0;
}

/* --- one request --- */

static int of_status(const char *url, long status)
{
    switch (status) {
    case 401:
    case 403:
        return error_say(-EACCES, "%s: access denied (status %ld); for Hugging Face, set HF_TOKEN", url, status);
    case 404:
    case 410:
        return error_say(-ENOENT, "%s: no such file (status %ld)", url, status);
    case 416:
        return FETCH_RANGE;
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
        error_say(-EIO, "%s: the server is busy or failing (status %ld)", url, status);
        return FETCH_AGAIN;
    default:
        return error_say(-EIO, "%s: the server answered with status %ld", url, status);
    }
}

static int of_curl(const char *url, CURLcode code, const char *why)
{
    error_say(-EIO, "%s: %s", url, *why ? why : curl_easy_strerror(code));
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
        return FETCH_UNREACHED;
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return FETCH_AGAIN;
    default:
        return -EIO;
    }
}

static int transfer_prepare(struct transfer *t, const char *url, struct curl_slist **headers, char *why)
{
    const struct fetch *f = t->f;
    char text[HEADER_MAX + 16];
    CURL *c = t->curl;

    curl_easy_reset(c);
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_USERAGENT, "hob/" HOB_VERSION);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)STALLED_S);
    curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 262144L);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_tick);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
    if (f->token && t->at_origin) {
        curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        curl_easy_setopt(c, CURLOPT_XOAUTH2_BEARER, f->token);
    } else if (f->user && t->at_origin) {
        curl_easy_setopt(c, CURLOPT_USERNAME, f->user);
        curl_easy_setopt(c, CURLOPT_PASSWORD, f->password);
    }
    if (f->from == 0) return 0;
    snprintf(text, sizeof(text), "%" PRIu64 "-", f->from);
    curl_easy_setopt(c, CURLOPT_RANGE, text);
    if (!f->if_same) return 0;
    snprintf(text, sizeof(text), "If-Range: %s", f->if_same);
    *headers = curl_slist_append(NULL, text);
    if (!*headers) return error_say(-ENOMEM, "no memory for a request");
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, *headers);
    return 0;
}

/* One request. 0: complete if *next is NULL; else *next is the URL of a redirect, which the caller frees. Errors as for
 * fetch. */
static int transfer_request(struct transfer *t, const char *url, char **next)
{
    _cleanup_(freeslist) struct curl_slist *headers = NULL;
    char why[CURL_ERROR_SIZE] = "", shown[URL_SHOWN], *location = NULL;
    CURLcode code;
    int r = transfer_prepare(t, url, &headers, why);

    *next = NULL;
    if (r < 0) return r;
    code = curl_easy_perform(t->curl);
    if (t->error < 0) return t->error;
    long status = status_of(t->curl);
    url_shown(shown, url);
    if (status == 0 || (t->begun && code != CURLE_OK)) return of_curl(shown, code, why);
    if (status == 200 || status == 206) {
        if (code != CURLE_OK) return of_curl(shown, code, why);
        return t->begun ? 0 : transfer_begin(t, status); /* an empty file */
    }
    curl_easy_getinfo(t->curl, CURLINFO_REDIRECT_URL, &location);
    if (!location) return of_status(shown, status);
    r = redirect_allowed(url, location, t->f->insecure_http);
    if (r < 0) return r;
    t->at_origin = t->at_origin && same_server(url, location);
    *next = strdup(location);
    return *next ? 0 : error_say(-ENOMEM, "no memory for a URL");
}

int fetch(const struct fetch *f)
{
    struct transfer t = {.f = f, .at_origin = true};
    char *url = strdup(f->url), *next = NULL, shown[URL_SHOWN];
    int r = fetch_allowed(f->url, f->insecure_http), redirects = 0;
    if (r == 0 && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) r = error_say(-EIO, "cannot initialize libcurl");
    t.curl = r == 0 ? curl_easy_init() : NULL;
    if (r == 0 && (!url || !t.curl)) r = error_say(-ENOMEM, "no memory for a transfer");
    while (r == 0) {
        r = transfer_request(&t, url, &next);
        if (!next) break;
        free(url);
        url = next;
        if (++redirects > REDIRECTS_MAX) r = error_say(-ELOOP, "%s: too many redirects", url_shown(shown, f->url));
    }
    if (t.curl) curl_easy_cleanup(t.curl);
    free(url);
    return r;
}
