/* SPDX-License-Identifier: MIT */
#include "client/sessions.h"
#include "client/columns.h"
#include "client/exit-status.h"
#include "client/output.h"
#include "client/rpc.h"
#include "client/sessions-search.h"
#include "client/sessions-view.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/plain.h"
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SESSIONS_WAIT_MS 60000 /* the daemon may have to read the disk and sync */

static const enum proto_type types[] = {
    [SESSIONS_SHOW] = PROTO_SESSION_SHOW,
    [SESSIONS_FORK] = PROTO_SESSION_FORK,
    [SESSIONS_RENAME] = PROTO_SESSION_RENAME,
    [SESSIONS_REMOVE] = PROTO_SESSION_REMOVE,
};

static int sessions_print(const struct options *o, const struct proto_text *json)
{
    struct buf text = BUF_INIT, safe = BUF_INIT;
    struct output out;
    int r;
    output_init(&out, STDOUT_FILENO, false);
    if (o->json) {
        r = buf_append(&text, json->data, json->len);
        if (r == 0) r = buf_puts(&text, "\n");
    } else if (o->verb == SESSIONS_LIST) {
        r = sessions_view_list(&text, json->data, json->len, (int64_t)time(NULL), table_terminal(STDOUT_FILENO));
    } else {
        r = sessions_view_show(&text, json->data, json->len);
        if (r == 0 && out.tty) {
            r = plain_text(&safe, text.data, text.len);
            buf_fini(&text);
            text = safe;
        }
        /* Print a raw text unchanged, but end its line on a terminal, for the prompt of the shell. */
        if (r == 0 && out.tty && text.len && text.data[text.len - 1] != '\n') r = buf_puts(&text, "\n");
    }
    if (r == 0 && o->verb == SESSIONS_LIST && !text.len) log_info("no sessions");
    if (r == 0) r = output_write(&out, text.data, text.len);
    buf_fini(&text);
    return r < 0 ? exit_status_report(r) : EXIT_ANSWERED;
}

/* Append the sessions of a page, a JSON array, to the unfinished array @all. */
static int sessions_join(struct buf *all, const struct proto_text *page)
{
    const char *from = page->len ? memchr(page->data, '[', page->len) : NULL;
    const char *to = from ? memrchr(from, ']', page->len - (size_t)(from - page->data)) : NULL;
    int r = 0;
    if (!to) return error_say(-EBADMSG, "the daemon's sessions are not a list");
    from++;
    while (from < to && (*from == ' ' || *from == '\n')) from++;
    if (from == to) return 0;
    if (all->len > 1) r = buf_puts(all, ",");
    return r == 0 ? buf_append(all, from, (size_t)(to - from)) : r;
}

static int sessions_list(const struct options *o, struct connection *c)
{
    static const struct rpc how = {.want = PROTO_EV_SESSIONS, .retry = RPC_ALWAYS, .wait_ms = SESSIONS_WAIT_MS};
    struct proto_request request = {.type = PROTO_SESSION_LIST};
    struct buf all = BUF_INIT;
    int status = 0, r = buf_puts(&all, "[");
    do {
        struct proto_event e = {0};
        request.id++;
        status = rpc_call(o, c, &request, &how, &e);
        proto_text_fini(&request.after);
        if (status != 0) break;
        if (r == 0) r = sessions_join(&all, &e.sessions);
        request.after = e.next;
        e.next = (struct proto_text){0};
        proto_event_fini(&e);
    } while (r == 0 && request.after.len);
    if (r == 0) r = buf_puts(&all, "]");
    if (status == 0 && r < 0)
        status = exit_status_report(r);
    else if (status == 0)
        status = o->verb == SESSIONS_SEARCH ? sessions_search(o, c, all.data, all.len)
                                            : sessions_print(o, &(struct proto_text){all.data, all.len});
    proto_text_fini(&request.after);
    buf_fini(&all);
    return status;
}

/* Send one request of the verb with @name and @to, each of which may be NULL. */
static int sessions_call(const struct options *o, struct connection *c, uint64_t id, const char *name, const char *to)
{
    const bool reads = o->verb == SESSIONS_SHOW;
    const struct rpc how = {.want = reads ? PROTO_EV_SESSIONS : PROTO_EV_OK,
                            .retry = reads ? RPC_ALWAYS : RPC_IF_UNSEEN,
                            .wait_ms = SESSIONS_WAIT_MS};
    const struct proto_request request = {.type = types[o->verb],
                                          .id = id,
                                          .name = {(char *)name, name ? strlen(name) : 0},
                                          .to = {(char *)to, to ? strlen(to) : 0}};
    struct proto_event e = {0};
    int status = rpc_call(o, c, &request, &how, &e);

    if (status != 0) return status;
    if (reads) status = sessions_print(o, &e.sessions);
    proto_event_fini(&e);
    return status;
}

/* Below the list: the disk space that the sessions use, and its limit. */
static int sessions_sum(const struct options *o, struct connection *c, uint64_t id)
{
    const struct proto_request request = {.type = PROTO_STATUS, .id = id};
    const struct rpc how = {.want = PROTO_EV_STATUS, .retry = RPC_ALWAYS, .wait_ms = SESSIONS_WAIT_MS};
    struct proto_event e = {0};
    struct buf text = BUF_INIT;
    struct output out;
    int status = rpc_call(o, c, &request, &how, &e);
    if (status != 0) return status;
    output_init(&out, STDOUT_FILENO, false);
    int r = sessions_view_sum(&text, e.status.data, e.status.len);
    if (r == 0) r = output_write(&out, text.data, text.len);
    buf_fini(&text);
    proto_event_fini(&e);
    return r < 0 ? exit_status_report(r) : EXIT_ANSWERED;
}

int sessions_run(const struct options *o)
{
    struct connection c = CONNECTION_INIT;
    int status = 0;
    if (o->verb == SESSIONS_LIST || o->verb == SESSIONS_SEARCH) {
        status = sessions_list(o, &c);
        if (status == 0 && o->verb == SESSIONS_LIST && !o->json && isatty(STDOUT_FILENO))
            status = sessions_sum(o, &c, 2);
    } else if (o->verb == SESSIONS_REMOVE) {
        /* Like rm(1): a failure does not stop the removal of the others. */
        for (size_t i = 0; i < o->n_words && status != EXIT_NO_DAEMON && status != EXIT_INTERRUPTED; i++) {
            int one = sessions_call(o, &c, i + 1, o->words[i], NULL);
            if (one != 0) status = one;
        }
    } else {
        status = sessions_call(o, &c, 1, o->n_words > 0 ? o->words[0] : NULL, o->n_words > 1 ? o->words[1] : NULL);
    }
    connection_close(&c);
    return status;
}
