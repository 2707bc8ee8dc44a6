/* SPDX-License-Identifier: MIT */
/* Bodies of HTTP requests, and what a daemon answers to them: byte 0 is the route, the next two the length of the body;
 * what is behind it the daemon sends, which then closes the connection. Also base64, of a body that begins with "=". */
#include "client/http/base64.h"
#include "client/http/completion.h"
#include "client/http/http-options.h"
#include "client/http/http-routes.h"
#include "tests/fuzz/fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

const char *const fuzz_seeds[] = {NULL};

static const struct http_route routes[] = {
    {"POST", "/v1/chat/completions", API_OPENAI, false, route_chat},
    {"POST", "/v1/completions", API_OPENAI, false, route_completions},
    {"POST", "/v1/responses", API_OPENAI, false, route_responses},
    {"POST", "/v1/messages", API_ANTHROPIC, false, route_messages},
    {"POST", "/v1/messages/count_tokens", API_ANTHROPIC, false, route_count_tokens},
    {"POST", "/infill", API_OPENAI, false, route_infill},
    {"POST", "/tokenize", API_OPENAI, false, route_tokenize},
    {"POST", "/detokenize", API_OPENAI, false, route_detokenize},
    {"POST", "/v1/embeddings", API_OPENAI, false, route_embeddings},
    {"POST", "/v1/rerank", API_OPENAI, false, route_rerank},
};
enum { ROUTES = sizeof(routes) / sizeof(*routes), LOOPS = 12 };

static char dir[64], path[96];
static const char *sockets[] = {path};
static struct http_options options = {
    .sockets = sockets, .n_sockets = 1, .max_body = 1 << 20, .request_timeout_usec = 3600000000};
static struct gateway gateway = {.options = &options};
static int daemon_fd;

static void listen_as_daemon(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    fuzz_quiet();
    snprintf(path, sizeof(path), "%s/d.sock", fuzz_folder(dir));
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    daemon_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    FUZZ_CHECK(bind(daemon_fd, (const struct sockaddr *)&a, sizeof(a)) == 0 && listen(daemon_fd, 64) == 0);
    FUZZ_CHECK(sd_event_new(&gateway.event) >= 0);
}

/* The daemon sends the rest of the input to whoever connects. */
static void answer(const struct fuzz_input *in)
{
    for (int i = 0; i < LOOPS; i++) {
        int fd = accept(daemon_fd, NULL, NULL);
        if (fd >= 0) {
            char waste[4096];
            sd_event_run(gateway.event, 0);
            while (recv(fd, waste, sizeof(waste), MSG_DONTWAIT) > 0) continue;
            send(fd, in->data, in->n, MSG_NOSIGNAL | MSG_DONTWAIT);
            close(fd);
        }
        sd_event_run(gateway.event, 0);
    }
}

static void drop_connections(void)
{
    int fd;
    while ((fd = accept(daemon_fd, NULL, NULL)) >= 0) close(fd);
}

static void try_base64(const char *s, size_t n)
{
    size_t len;
    uint8_t *out = malloc(n / 4 * 3 + 1);
    struct buf back = BUF_INIT;
    FUZZ_CHECK(out);
    if (base64_decode(s, n, out, &len) == 0) {
        FUZZ_CHECK(base64_encode(&back, out, len) == 0 && back.len == n && (!n || memcmp(back.data, s, n) == 0));
        buf_clear(&back);
    }
    FUZZ_CHECK(base64_encode(&back, s, n) == 0 && back.len == (n + 2) / 3 * 4);
    buf_fini(&back);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    if (!dir[0]) listen_as_daemon();
    const struct http_route *route = &routes[fuzz_byte(&in) % ROUTES];
    size_t n = fuzz_short(&in);
    const char *body = fuzz_bytes(&in, &n);
    if (n && body[0] == '=') try_base64(body + 1, n - 1);
    struct exchange *x = exchange_new(&gateway, NULL, route);
    FUZZ_CHECK(x);
    x->connection = NULL;
    if (exchange_upload(x, body ? body : "", n) == 0) {
        int r = route->handle(x);
        FUZZ_CHECK(r == 0 || x->fault.status >= 400);
        if (r < 0 && !x->status) exchange_fail(x);
        if (r == 0 && in.n < 65536) answer(&in);
        exchange_tick(x, x->begun_usec + 11000000);
    }
    exchange_free(x);
    drop_connections();
    return 0;
}
