/* SPDX-License-Identifier: MIT */
#include "client/http/http-check.h"
#include "client/http/raw-header.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { DROP_RATIO = 4 };

struct framing {
    unsigned lengths, encodings, hosts;
    bool malformed; /* a field's name or value has characters that no field may have */
};

static enum MHD_Result on_field(void *ctx, enum MHD_ValueKind kind, const char *name, size_t name_len,
                                const char *value, size_t value_len)
{
    struct framing *f = ctx;
    for (size_t i = 0; i < name_len; i++) f->malformed |= !isgraph((unsigned char)name[i]);
    for (size_t i = 0; i < value_len; i++) f->malformed |= (unsigned char)value[i] < ' ' && value[i] != '\t';
    f->malformed |= name_len == 0;
    f->lengths += strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    f->encodings += strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0;
    f->hosts += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    return MHD_YES;
}

/* RFC 9112, section 6.3: a proxy in front and this server must agree about the end of the body. */
static int check_fields(struct MHD_Connection *c, const char *version, struct fault *fault)
{
    struct framing f = {0};
    MHD_get_connection_values_n(c, MHD_HEADER_KIND, on_field, &f);
    if (f.malformed) return fault_set(fault, 400, NULL, "a field of the header has invalid characters");
    if (f.lengths + f.encodings > 1)
        return fault_set(fault, 400, NULL, "more than one Content-Length or Transfer-Encoding");
    if (f.hosts > 1) return fault_set(fault, 400, NULL, "more than one Host");
    const char *encoding = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    if (encoding && strcasecmp(encoding, "chunked") != 0)
        return fault_set(fault, 501, NULL, "the only supported Transfer-Encoding is chunked");
    if (encoding && strcmp(version, "HTTP/1.0") == 0)
        return fault_set(fault, 400, NULL, "HTTP/1.0 has no Transfer-Encoding");
    return 0;
}

/* A body that is not much too long is read and dropped: a client that only sends would not see a response before the
 * connection's end. */
static int check_length(struct MHD_Connection *c, uint64_t max_body, struct fault *fault)
{
    const char *length = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t n = length ? strtoull(length, NULL, 10) : 0;
    if (n <= max_body) return 0;
    fault_set(fault, 413, NULL, "the body of the request is longer than %llu bytes", (unsigned long long)max_body);
    fault->close = n / DROP_RATIO > max_body;
    return -EFBIG;
}

/* A page in a browser can make its own name mean 127.0.0.1 (DNS rebinding). Then its requests have that name as Host. A
 * client with a key needs no such protection. */
static int check_host(const struct http_options *o, struct MHD_Connection *c, struct fault *fault)
{
    const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    if (!host || !*host) return 0; /* HTTP/1.0; libmicrohttpd refuses a later version without Host */
    size_t n = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if ((n == 9 && strncasecmp(host, "localhost", n) == 0) || (n == 5 && strncmp(host, "[::1]", n) == 0)) return 0;
    if (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == n) return 0;
    for (size_t i = 0; i < o->n_hosts; i++)
        if (strlen(o->hosts[i]) == n && strncasecmp(host, o->hosts[i], n) == 0) return 0;
    return fault_set(fault, 403, NULL,
                     "without keys the only valid host names are localhost, 127.0.0.1, [::1] and those of --host");
}

/* A page of another site may send requests whose response it cannot read. A browser names the page's origin in Origin,
 * except for a plain GET, where Sec-Fetch-Site has the relation of the two sites. Another port is another origin. Other
 * clients send neither of them. */
static int check_origin(struct MHD_Connection *c, struct fault *fault)
{
    const char *origin = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ORIGIN);
    const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    const char *site = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Sec-Fetch-Site");
    const char *name = origin ? strstr(origin, "://") : NULL;
    bool other = site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0;
    if (origin && (!name || !host || strcasecmp(name + 3, host) != 0)) other = true;
    return other ? fault_set(fault, 403, NULL, "without keys, pages of other origins have no access") : 0;
}

/* A page of another site may send a form, but JSON only if the server permits it, and this one does not. */
static int check_type(struct MHD_Connection *c, struct fault *fault)
{
    static const char json[] = "application/json";
    const char *type = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE);
    size_t n = type ? strcspn(type, "; \t") : 0;
    if (n == sizeof(json) - 1 && strncasecmp(type, json, n) == 0) return 0;
    return fault_set(fault, 415, NULL, "the Content-Type must be %s", json);
}

static int check_key(const struct keys *keys, struct MHD_Connection *c, struct key **key, struct fault *fault)
{
    const char *text = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    if (text) text = strncasecmp(text, "Bearer ", 7) == 0 ? text + 7 : "";
    if (!text) text = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "x-api-key");
    if (!text) return fault_set(fault, 401, NULL, "a key is needed: Authorization: Bearer KEY, or x-api-key: KEY");
    *key = keys_find(keys, text);
    if (*key) return 0;
    fault_set(fault, 401, NULL, "this key is not valid");
    fault->code = "invalid_api_key";
    return -EINVAL;
}

int check_framing(struct MHD_Connection *c, const char *method, const char *version, struct fault *f)
{
    int r = raw_header_check(c, method, version, f);
    if (r == 0) r = check_fields(c, version, f);
    if (r < 0) f->close = true;
    return r;
}

int check_header(struct gateway *g, struct MHD_Connection *c, const struct http_route *route, struct key **key,
                 struct fault *f)
{
    int r = check_length(c, g->options->max_body, f);
    if (r < 0) return r;
    if (!route || f->status) return -EINVAL;
    if (g->keys.n == 0) r = check_host(g->options, c, f);
    if (r == 0 && g->keys.n == 0 && !route->open) r = check_origin(c, f);
    if (r == 0 && g->keys.n > 0 && !route->open) r = check_key(&g->keys, c, key, f);
    if (r == 0 && strcmp(route->method, "POST") == 0) r = check_type(c, f);
    return r;
}
