/* SPDX-License-Identifier: MIT */
/* GET / and /page/…: the files of the page for browsers. They need no key, and hold nothing of a user. */
#include "client/http/http-routes.h"
#include "client/http/page-files.h"
#include "libcommon/error.h"
#include <string.h>

/* The page loads only its own files and sends only to its own origin, and no other page may frame it. */
static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                             "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#define CSS  "text/css; charset=utf-8"
#define HTML "text/html; charset=utf-8"
#define JS   "text/javascript; charset=utf-8"
#define SVG  "image/svg+xml"

static const struct {
    const char *path, *type;
    const unsigned char *data;
    const size_t *len;
} files[] = {
    {"/", HTML, page_index_html, &page_index_html_len},
    {"/page/page.css", CSS, page_page_css, &page_page_css_len},
    {"/page/icon.svg", SVG, page_icon_svg, &page_icon_svg_len},
    {"/page/conversation.js", JS, page_conversation_js, &page_conversation_js_len},
    {"/page/gateway.js", JS, page_gateway_js, &page_gateway_js_len},
    {"/page/page.js", JS, page_page_js, &page_page_js_len},
    {"/page/sessions.js", JS, page_sessions_js, &page_sessions_js_len},
    {"/page/status.js", JS, page_status_js, &page_status_js_len},
    {"/page/text.js", JS, page_text_js, &page_text_js_len},
};

int route_page(struct exchange *x)
{
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        if (strcmp(x->route->path, files[i].path) != 0) continue;
        int r = buf_append(&x->out, files[i].data, *files[i].len);
        if (r < 0) return fault_of_error(&x->fault, r);
        x->policy = policy;
        exchange_reply(x, 200, files[i].type);
        return 0;
    }
    return fault_set(&x->fault, 404, NULL, "no such file: %s", x->route->path);
}
