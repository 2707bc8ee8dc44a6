/* SPDX-License-Identifier: MIT */
#include "client/http/raw-header.h"
#include <string.h>

/* libmicrohttpd 0.9.75, the version of Debian 12, parses a header in place: CR, LF and the colon of each line become
 * NUL. It takes the text of a folded line for a part of the field's name, a line that begins with a colon for the end
 * of the header, a NUL for the end of a value, and LF for CRLF. Its callbacks do not show this, but the bytes do. Later
 * versions have another layout. */
static bool is_plain(const char *method, const char *version, size_t size)
{
    const char *end = method + size, *p = version;
    if (p < method || p >= end) return false;
    p += strnlen(p, (size_t)(end - p));
    while (end - p > 2 && !p[0] && !p[1]) {
        p += 2;
        if (end - p == 2) return !p[0] && !p[1]; /* the empty line */
        if (!*p || *p == ' ' || *p == '\t') return false;
        p += strnlen(p, (size_t)(end - p)); /* the name */
        if (p == end) return false;
        p++;
        p += strnlen(p, (size_t)(end - p)); /* the value */
    }
    return false;
}

int raw_header_check(struct MHD_Connection *c, const char *method, const char *version, struct fault *f)
{
    if (strcmp(MHD_get_version(), "0.9.75") != 0) return 0;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (info && is_plain(method, version, info->header_size)) return 0;
    return fault_set(f, 400, NULL,
                     "the header has a line that is folded, or empty before its colon, or does not end with CRLF");
}
