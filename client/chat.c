/* SPDX-License-Identifier: MIT */
/* hob-chat: what 'hob chat' runs, so that hob itself needs no line editor. */
#include "client/chat.h"
#include "client/chat-attach.h"
#include "client/chat-line.h"
#include "client/exit-status.h"
#include "client/interrupt.h"
#include "client/log/log-record.h"
#include "client/startup.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/paths.h"
#include "libcommon/utf8.h"
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void turn_fini(struct chat_turn *t)
{
    for (size_t i = 0; i < t->n; i++) proto_message_fini(&t->messages[i]);
    free(t->messages);
}

void chat_forget(struct chat *c, size_t keep)
{
    while (c->n_turns > keep) turn_fini(&c->turns[--c->n_turns]);
}

/* Insert the earlier turns, which @c still owns, between the system message and the new message of @g. */
static int put_turns(const struct chat *c, struct proto_generate *g)
{
    size_t n = 0, at = g->n_messages - 1;
    for (size_t i = 0; i < c->n_turns; i++) n += c->turns[i].n;
    struct proto_message *m = reallocarray(g->messages, g->n_messages + n, sizeof(*m));
    if (!m) return -ENOMEM;
    m[at + n] = m[at];
    for (size_t i = 0; i < c->n_turns; i++) {
        memcpy(m + at, c->turns[i].messages, c->turns[i].n * sizeof(*m));
        at += c->turns[i].n;
    }
    g->messages = m;
    g->n_messages += n;
    if (c->n_turns) record_follow(c->o->log.record, c->turns[c->n_turns - 1].uuid, c->turns->uuid, n);
    return 0;
}

/* Keep the messages of @g from @from on as a turn, unless the model generated no text. */
static int keep_turn(struct chat *c, struct proto_generate *g, size_t from, size_t typed_at)
{
    const struct proto_message *last = &g->messages[g->n_messages - 1];
    struct chat_turn turn = {.n = g->n_messages - from, .typed_at = typed_at};
    if (!last->content.len || last->n_calls || strcmp(last->role.data, "assistant") != 0) return 0;
    struct chat_turn *turns = reallocarray(c->turns, c->n_turns + 1, sizeof(*turns));
    if (!turns) return -ENOMEM;
    c->turns = turns;
    strcpy(turn.uuid, g->uuid);
    turn.messages = calloc(turn.n, sizeof(*turn.messages));
    if (!turn.messages) return -ENOMEM;
    memcpy(turn.messages, g->messages + from, turn.n * sizeof(*turn.messages));
    g->n_messages = from;
    turns[c->n_turns++] = turn;
    return 0;
}

/* Free @g, whose messages from @system to @from belong to @c. */
static void end_request(struct proto_request *r, size_t system, size_t from)
{
    struct proto_generate *g = &r->gen;
    if (from > system) {
        memmove(g->messages + system, g->messages + from, (g->n_messages - from) * sizeof(*g->messages));
        g->n_messages -= from - system;
    }
    proto_request_fini(r);
}

static int send_turn(struct chat *c, struct buf *line)
{
    struct proto_request request = {0};
    const size_t kept = c->n_turns, text = c->next.text.len; /* of files */
    size_t system = 0, from = 0; /* indexes behind the system message and behind the earlier turns */
    int status = EXIT_FAILED;
    int r = 0;
    if (text) {
        r = input_append(c->o, &c->next, line, "the line");
    } else {
        c->next.text = *line;
        *line = (struct buf)BUF_INIT;
    }
    const size_t typed_at = text ? text + 2 : 0; /* behind a blank line */
    if (r >= 0) r = generate_request(&request, c->o, &c->next);
    input_fini(&c->next);
    if (r == 0) {
        system = from = request.gen.n_messages - 1;
        if (!c->o->session) r = put_turns(c, &request.gen);
    }
    if (r == 0) {
        from = request.gen.n_messages - 1;
        /* Each answer starts with a clear interrupt flag. */
        interrupt_clear();
        interrupt_init();
        status = tool_loop_run(&c->loop, &request);
        interrupt_init();
        interrupt_unblock();
        r = keep_turn(c, &request.gen, from, typed_at);
    }
    if (c->n_turns == kept && request.gen.n_messages > from) chat_attach_again(c, &request.gen.messages[from], text);
    if (!c->next.n_media && !c->next.text.len) chat_attach_none(c);
    if (r == -ENOMEM) error_say(r, "no memory for the conversation");
    if (r < 0) status = exit_status_report(r);
    end_request(&request, system, from);
    return status;
}

/* Run the turn of one line. 0, or an exit status. */
static int run_line(struct chat *c, struct buf *line)
{
    size_t bad = utf8_check(line->data, line->len);
    if (bad < line->len || strlen(line->data) < line->len) {
        if (bad < line->len)
            log_error("the line is not text: invalid UTF-8 at byte %zu", bad);
        else
            log_error("the line is not text: a NUL at byte %zu", strlen(line->data));
        return EXIT_FAILED;
    }
    if (line->data[strspn(line->data, " \t\n")] == 0) return 0;
    return chat_is_command(line->data) ? chat_command(c, line->data) : send_turn(c, line);
}

/* On a terminal the chat continues after an answer that failed. In a script it ends with the exit status. */
static int run_chat(struct chat *c, struct chat_line *lines)
{
    struct buf line = BUF_INIT;
    bool edits = chat_line_edits(lines);
    int r = 0, status = 0;
    while (!c->quit && (edits || status == 0)) {
        r = chat_line_read(lines, &line);
        if (r == -EINTR && edits) {
            interrupt_clear();
            interrupt_init();
            continue;
        }
        if (r != 0) {
            status = r < 0 ? exit_status_report(r) : 0;
            if (r > 0 && edits) fputc('\n', stderr);
            break;
        }
        if (output_closed(STDOUT_FILENO)) break; /* what is asked now would be answered to nobody */
        if (line.len) status = run_line(c, &line);
    }
    buf_fini(&line);
    return edits && (c->quit || r > 0) ? 0 : status;
}

static char *history_file(void)
{
    _cleanup_(freep) char *dir = NULL;
    char *path;
    /* Without a state directory there is no history. */
    if (paths_dir(PATHS_STATE, false, &dir) < 0 || paths_make(dir) < 0) return NULL;
    return asprintf(&path, "%s/chat-history", dir) < 0 ? NULL : path;
}

static int run(struct options *o, void *ctx)
{
    _cleanup_(freep) char *history = NULL;
    struct chat chat = {.o = o, .loop = TOOL_LOOP_INIT};
    struct chat_line *lines = NULL;
    chat.loop.opt = o;
    int status = chat_attach_pipe(&chat);
    if (status == 0) status = chat_attach_given(&chat);
    if (status == 0) status = tool_loop_add_all(&chat.loop);
    if (status == 0) {
        if (isatty(STDIN_FILENO)) history = history_file();
        int r = chat_line_new(&lines, history);
        status = r < 0 ? exit_status_report(r) : run_chat(&chat, lines);
    }
    chat_line_free(lines);
    chat_forget(&chat, 0);
    chat_attach_none(&chat);
    free(chat.turns);
    tool_loop_fini(&chat.loop);
    return status;
}

int main(int argc, char **argv)
{
    struct options o;
    startup_begin();
    setlocale(LC_CTYPE, "");
    int r = options_parse(&o, argc, argv);
    o.command = COMMAND_CHAT;
    return startup_run(&o, r, run, NULL);
}
