/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * HTTP by libmicrohttpd, in the event loop of sd-event.
 *
 * The other candidate in Debian 12 is libevent's evhttp. Both were tested with 1000 idle event streams and with
 * malformed requests:
 *
 * - Parser: evhttp 2.1 accepts "Content-Length: +3", a chunk size of "0x3", a request of HTTP/1.1 without Host, and
 *   an unknown Transfer-Encoding, so that a proxy in front and evhttp may disagree about the end of a request.
 *   libmicrohttpd refuses them; it accepts Content-Length together with Transfer-Encoding, and two different
 *   Content-Length fields, which check_headers refuses.
 * - Memory for each idle stream: evhttp 4 KB; libmicrohttpd 25 KB with its default pool, 17 KB with one of 16 KB, which
 *   also limits the header of a request. The pool is therefore POOL bytes.
 * - Disconnects: evhttp sees them at once. libmicrohttpd does not while a connection is suspended; exchange.c watches
 *   for them.
 * - A slow reader: evhttp buffers all that it is given; libmicrohttpd asks for more only when the socket accepts it.
 *
 * The parser decides: it is the part that a caller cannot add.
 */
#include "client/http/gateway.h"
#include "client/http/http-listen.h"

/* Serve connections of @l, which the caller keeps until http_server_fini. 0 or -errno; sets the error message. Call
 * http_server_fini in any case. */
int http_server_init(struct gateway *g, const struct listeners *l);
void http_server_fini(struct gateway *g);
