/* SPDX-License-Identifier: MIT */
#include "client/http/exchange.h"
#include "client/http/body-budget.h"
#include "client/http/completion.h"
#include "client/http/http-reply.h"
#include "client/http/http-routes.h"
#include "client/http/session-lookup.h"
#include "client/http/text-call.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
    OUT_MAX = 64 << 10, /* bytes of a stream that the client has not taken; then the daemon's answer pauses */
    OUT_LOW = 16 << 10, /* the answer continues */
    BLOCK = 1 << 10,    /* libmicrohttpd allocates one for each stream */
    PING_USEC = 10 * 1000000,
    STALL_RATIO = 10, /* of the time for which a client may take nothing of a response, to that for a request */
};

struct exchange *exchange_new(struct gateway *g, struct MHD_Connection *c, const struct http_route *route)
{
    struct exchange *x = calloc(1, sizeof(*x));
    if (!x) return NULL;
    *x = (struct exchange){.gateway = g, .connection = c, .route = route, .next = g->exchanges, .link = &g->exchanges};
    if (x->next) x->next->link = &x->next;
    g->exchanges = x;
    x->begun_usec = x->moved_usec = clock_now_usec();
    return x;
}

void exchange_free(struct exchange *x)
{
    *x->link = x->next;
    if (x->next) x->next->link = x->link;
    sd_event_source_disable_unref(x->hangup);
    upstream_close(x->upstream);
    completion_free(x->completion);
    if (x->counted) key_limits_end(&x->key->use);
    key_drop(x->key);
    session_lookup_free(x->lookup);
    text_call_free(x->texts);
    free(x->name);
    buf_fini(&x->body);
    buf_fini(&x->out);
    free(x);
}

const char *exchange_user(const struct exchange *x)
{
    if (x->key) return x->key->name;
    return x->user[0] ? x->user : NULL;
}

int exchange_upload(struct exchange *x, const char *data, size_t n)
{
    if (x->fault.status) return -EFBIG;
    if (n > x->gateway->options->max_body - x->body.len) {
        buf_fini(&x->body);
        body_budget_release(x);
        fault_set(&x->fault, 413, NULL, "the body of the request is longer than %llu bytes",
                  (unsigned long long)x->gateway->options->max_body);
        return -EFBIG;
    }
    if (body_budget_take(x, x->body.len + n) < 0) {
        buf_fini(&x->body);
        body_budget_release(x);
        return -EFBIG;
    }
    int r = buf_append(&x->body, data, n);
    return r < 0 ? fault_of_error(&x->fault, r) : 0;
}

static void wake(struct exchange *x)
{
    if (!x->suspended) return;
    x->suspended = false;
    x->gateway->resumed = true;
    MHD_resume_connection(x->connection);
}

static int on_hangup(sd_event_source *source, int fd, uint32_t revents, void *ctx)
{
    struct exchange *x = ctx;
    sd_event_source_set_enabled(source, SD_EVENT_OFF);
    x->disconnected = true;
    x->upstream = upstream_close(x->upstream);
    x->gateway->metrics.disconnects++;
    wake(x);
    return 0;
}

/* Watch for the end of the connection, and suspend it. */
static int suspend(struct exchange *x)
{
    if (!x->hangup) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        int r =
            info ? sd_event_add_io(x->gateway->event, &x->hangup, info->connect_fd, EPOLLRDHUP, on_hangup, x) : -EIO;
        if (r < 0) return r;
    }
    x->suspended = true;
    MHD_suspend_connection(x->connection);
    return 0;
}

/* The bytes of a stream for libmicrohttpd, which asks for them only when the client has taken those before. */
static ssize_t read_stream(void *ctx, uint64_t pos, char *to, size_t max)
{
    struct exchange *x = ctx;
    size_t n = x->out.len - x->taken;
    if (x->disconnected) return MHD_CONTENT_READER_END_WITH_ERROR;
    if (n == 0 && x->ended) return MHD_CONTENT_READER_END_OF_STREAM;
    if (n == 0) return suspend(x) < 0 ? MHD_CONTENT_READER_END_WITH_ERROR : 0;
    if (n > max) n = max;
    memcpy(to, x->out.data + x->taken, n);
    x->taken += n;
    x->moved_usec = clock_now_usec();
    if (x->taken == x->out.len) {
        buf_fini(&x->out); /* an idle stream keeps no memory */
        x->taken = 0;
    }
    if (x->out.len - x->taken < OUT_LOW) upstream_pause(x->upstream, false);
    return (ssize_t)n;
}

static struct MHD_Response *whole_response(struct exchange *x)
{
    size_t len;
    char *body = buf_steal(&x->out, &len);
    struct MHD_Response *m = MHD_create_response_from_buffer(len, body, MHD_RESPMEM_MUST_FREE);
    if (!m) free(body);
    return m;
}

static enum MHD_Result queue(struct exchange *x)
{
    struct MHD_Response *m = x->stream
                                 ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, x, NULL)
                                 : whole_response(x);
    if (!m) return MHD_NO;
    MHD_add_response_header(m, MHD_HTTP_HEADER_CONTENT_TYPE, x->content_type);
    MHD_add_response_header(m, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(m, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(m, "Cross-Origin-Resource-Policy", "same-origin");
    if (x->policy) {
        MHD_add_response_header(m, "Content-Security-Policy", x->policy);
        MHD_add_response_header(m, "Cross-Origin-Opener-Policy", "same-origin");
        MHD_add_response_header(m, "Referrer-Policy", "no-referrer");
    }
    if (x->fault.close) MHD_add_response_header(m, MHD_HTTP_HEADER_CONNECTION, "close");
    if (x->status == 401) MHD_add_response_header(m, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (x->status == 405)
        MHD_add_response_header(m, MHD_HTTP_HEADER_ALLOW, x->route ? routes_allow(x->route) : "GET, POST");
    if (x->status == 501) MHD_add_response_header(m, "x-should-retry", "false"); /* for OpenAI's clients */
    if (x->status == 429 || x->status == 503) {
        char seconds[16];
        snprintf(seconds, sizeof(seconds), "%u", x->fault.retry_s ? x->fault.retry_s : 1);
        MHD_add_response_header(m, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    }
    enum MHD_Result r = MHD_queue_response(x->connection, (unsigned)x->status, m);
    MHD_destroy_response(m);
    x->queued = r == MHD_YES;
    metrics_response(&x->gateway->metrics, x->status);
    return r;
}

enum MHD_Result exchange_refuse(struct exchange *x)
{
    exchange_fail(x);
    return queue(x);
}

enum MHD_Result exchange_respond(struct exchange *x)
{
    if (x->disconnected) return MHD_NO;
    if (x->fault.status && !x->status) exchange_fail(x);
    if (!x->status && !x->upstream && x->route->handle(x) < 0) exchange_fail(x);
    if (x->status) return queue(x);
    return suspend(x) < 0 ? MHD_NO : MHD_YES;
}

void exchange_reply(struct exchange *x, int status, const char *content_type)
{
    x->status = status;
    x->content_type = content_type;
    x->ended = true;
    x->moved_usec = clock_now_usec();
    wake(x);
}

void exchange_stream(struct exchange *x)
{
    x->status = 200;
    x->stream = true;
    x->content_type = "text/event-stream";
    x->moved_usec = clock_now_usec();
    wake(x);
}

void exchange_more(struct exchange *x, bool end)
{
    x->ended |= end;
    x->moved_usec = clock_now_usec();
    if (end) x->upstream = upstream_close(x->upstream);
    if (x->out.len - x->taken > OUT_MAX) upstream_pause(x->upstream, true);
    wake(x);
}

void exchange_fail(struct exchange *x)
{
    int r;
    x->upstream = upstream_close(x->upstream);
    if (x->status) {
        r = x->completion ? completion_put_fault(x->completion, &x->out, &x->fault) : 0;
        if (r < 0) x->disconnected = true;
        exchange_more(x, true);
        return;
    }
    buf_clear(&x->out);
    r = reply_put_fault(&x->out, x->route ? x->route->api : API_OPENAI, &x->fault);
    if (r < 0) buf_clear(&x->out);
    exchange_reply(x, x->fault.status, "application/json");
}

/* libmicrohttpd finds the end of the connection and closes it. */
static void shut(struct exchange *x)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info) shutdown(info->connect_fd, SHUT_RDWR);
}

void exchange_tick(struct exchange *x, uint64_t now)
{
    uint64_t silent = now > x->moved_usec ? now - x->moved_usec : 0;
    if (x->disconnected) return;
    if (x->ended || x->out.len > x->taken) {
        if (silent / STALL_RATIO < x->gateway->options->request_timeout_usec) return;
        x->disconnected = true;
        x->upstream = upstream_close(x->upstream);
        shut(x);
        wake(x);
    } else if (silent > PING_USEC && x->completion) {
        completion_ping(x->completion);
    }
}
