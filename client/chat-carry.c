/* SPDX-License-Identifier: MIT */
#include "client/chat-carry.h"
#include "client/exit-status.h"
#include "client/interrupt.h"
#include "client/json.h"
#include "client/rpc.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdlib.h>
#include <string.h>

#define CARRY_WAIT_MS 60000 /* the daemon may have to read the disk */

/* What session.show says, read into turns of their own. */
struct carried {
    struct chat_turn *turns; /* [n], owned */
    size_t n;
    struct proto_message message; /* that is open */
    struct buf system;            /* the system message */
    bool in_messages, in_calls, media, raw;
};

/* Move the open message to the turns; one of the user begins a turn. */
static int close_message(struct carried *k)
{
    struct proto_message *m = &k->message;
    const char *role = m->role.data ? m->role.data : "";
    if (strcmp(role, "system") == 0 && !k->n) {
        int r = m->content.len ? buf_append(&k->system, m->content.data, m->content.len) : 0;
        proto_message_fini(m);
        *m = (struct proto_message){0};
        return r;
    }
    if (!k->n || strcmp(role, "user") == 0) {
        struct chat_turn *more = reallocarray(k->turns, k->n + 1, sizeof(*more));
        if (!more) return -ENOMEM;
        k->turns = more;
        more[k->n++] = (struct chat_turn){0};
    }
    struct chat_turn *turn = &k->turns[k->n - 1];
    struct proto_message *more = reallocarray(turn->messages, turn->n + 1, sizeof(*more));
    if (!more) return -ENOMEM;
    turn->messages = more;
    more[turn->n++] = *m;
    *m = (struct proto_message){0};
    return 0;
}

static int open_call(struct proto_message *m)
{
    struct proto_call *more = reallocarray(m->calls, m->n_calls + 1, sizeof(*more));
    if (!more) return -ENOMEM;
    m->calls = more;
    more[m->n_calls++] = (struct proto_call){0};
    return 0;
}

/* The place of the string @key, of a message or of a call. NULL: it is not needed. */
static struct proto_text *place_of(struct carried *k, unsigned depth, const char *key)
{
    struct proto_message *m = &k->message;
    if (depth == 5 && k->in_calls && m->n_calls) {
        struct proto_call *call = &m->calls[m->n_calls - 1];
        return strcmp(key, "id") == 0          ? &call->id
               : strcmp(key, "name") == 0      ? &call->name
               : strcmp(key, "arguments") == 0 ? &call->arguments
                                               : NULL;
    }
    if (depth != 3) return NULL;
    return strcmp(key, "role") == 0           ? &m->role
           : strcmp(key, "content") == 0      ? &m->content
           : strcmp(key, "thinking") == 0     ? &m->thinking
           : strcmp(key, "tool_call_id") == 0 ? &m->call_id
           : strcmp(key, "name") == 0         ? &m->name
                                              : NULL;
}

static int read_item(void *ctx, const struct json_item *item)
{
    struct carried *k = ctx;
    const char *key = item->key ? item->key : "";
    if (item->depth == 1) {
        k->in_messages = item->kind == JSON_OPEN && strcmp(key, "messages") == 0;
        k->raw |= item->kind == JSON_STRING && strcmp(key, "text") == 0;
    }
    if (!k->in_messages) return 0;
    if (item->depth == 2 && item->kind == JSON_CLOSE) return close_message(k);
    if (item->depth == 3) {
        k->in_calls = item->kind == JSON_OPEN && strcmp(key, "tool_calls") == 0;
        k->media |= item->kind == JSON_OPEN && strcmp(key, "media") == 0;
    }
    if (item->depth == 4 && k->in_calls && item->kind == JSON_OPEN) return open_call(&k->message);
    struct proto_text *to = item->kind == JSON_STRING ? place_of(k, item->depth, key) : NULL;
    if (!to) return 0;
    proto_text_fini(to);
    return proto_text_set(to, item->text, item->len);
}

static void carried_fini(struct carried *k)
{
    for (size_t i = 0; i < k->n; i++) {
        for (size_t j = 0; j < k->turns[i].n; j++) proto_message_fini(&k->turns[i].messages[j]);
        free(k->turns[i].messages);
    }
    free(k->turns);
    proto_message_fini(&k->message);
    buf_fini(&k->system);
}

/* Replace the turns of the chat; its system message is that of the session. */
static int take(struct chat *c, struct carried *k)
{
    char *system = NULL;
    if (k->system.len && !(system = strdup(k->system.data))) return -ENOMEM;
    free(c->o->system);
    c->o->system = system;
    log_info("the conversation continues without the session %s, which stays with its model%s", c->o->session,
             k->media ? "; images and sounds in it are left out" : "");
    free(c->o->session);
    c->o->session = NULL;
    chat_forget(c, 0);
    free(c->turns);
    c->turns = k->turns;
    c->n_turns = k->n;
    k->turns = NULL;
    k->n = 0;
    return 0;
}

int chat_carry(struct chat *c)
{
    static const struct rpc how = {
        .want = PROTO_EV_SESSIONS, .retry = RPC_ALWAYS, .wait_ms = CARRY_WAIT_MS, .start = true, .may_lack = true};
    struct connection connection = CONNECTION_INIT;
    struct carried k = {0};
    struct proto_event e = {0};
    char *name = c->o->session;
    if (!name) return 0;
    const struct proto_request request = {.type = PROTO_SESSION_SHOW, .id = 1, .name = {name, strlen(name)}};
    int status = rpc_call(c->o, &connection, &request, &how, &e), r = 0;
    connection_close(&connection);
    interrupt_unblock();
    interrupt_clear();
    interrupt_init();
    if (status != 0) return status;
    if (e.type == PROTO_EV_SESSIONS) r = json_walk(e.sessions.data, e.sessions.len, read_item, &k);
    if (r == 0 && k.raw) r = error_say(-EINVAL, "/model: the session %s is raw and has no messages", name);
    if (r == 0 && k.n) r = take(c, &k);
    if (r == -ENOMEM) error_say(r, "no memory for the conversation");
    carried_fini(&k);
    proto_event_fini(&e);
    return r < 0 ? exit_status_before(r) : 0;
}
