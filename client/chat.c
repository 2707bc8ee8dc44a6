/* SPDX-License-Identifier: MIT */
/* hob-chat: what 'hob chat' runs, so that hob itself needs no line editor. */
#include "client/chat.h"
#include "client/chat-line.h"
#include "client/exit-status.h"
#include "client/generate.h"
#include "client/interrupt.h"
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

void chat_forget(struct chat *c, size_t keep)
{
    while (c->n_turns > keep) {
        c->n_turns--;
        free(c->turns[c->n_turns].asked);
        free(c->turns[c->n_turns].said);
    }
}

static int put_message(struct proto_generate *g, const char *role, const char *text)
{
    struct proto_message *m = &g->messages[g->n_messages++];
    int r = proto_text_set(&m->role, role, strlen(role));
    return r == 0 ? proto_text_set(&m->content, text, strlen(text)) : r;
}

/* The earlier turns, inserted between the system message and the new message in @g. */
static int put_turns(const struct chat *c, struct proto_generate *g)
{
    struct proto_message *m = reallocarray(g->messages, 2 + 2 * c->n_turns, sizeof(*m));
    int r = 0;
    if (!m) return -ENOMEM;
    g->messages = m;
    struct proto_message last = m[--g->n_messages];
    memset(m + g->n_messages, 0, (2 + 2 * c->n_turns - g->n_messages) * sizeof(*m));
    for (size_t i = 0; r == 0 && i < c->n_turns; i++) {
        r = put_message(g, "user", c->turns[i].asked);
        if (r == 0) r = put_message(g, "assistant", c->turns[i].said);
    }
    g->messages[g->n_messages++] = last;
    return r;
}

/* Keep a turn, unless the model generated no text. */
static int keep_turn(struct chat *c, char **asked, struct buf *said)
{
    struct chat_turn *turns;
    size_t len;
    if (!said->len) return 0;
    turns = reallocarray(c->turns, c->n_turns + 1, sizeof(*turns));
    if (!turns) return -ENOMEM;
    c->turns = turns;
    turns[c->n_turns++] = (struct chat_turn){.asked = *asked, .said = buf_steal(said, &len)};
    *asked = NULL;
    return 0;
}

static int send_turn(struct chat *c, struct buf *line)
{
    _cleanup_(freep) char *asked = strdup(line->data);
    struct proto_request request = {0};
    struct buf said = BUF_INIT;
    int status = EXIT_FAILED, r = asked ? generate_request(&request, c->o, line) : -ENOMEM;
    if (r == 0 && !c->o->session) r = put_turns(c, &request.gen);
    if (r == 0) {
        /* Each answer starts with a clear interrupt flag. */
        interrupt_clear();
        interrupt_init();
        status = generate_turn(c->o, &request, &said);
        interrupt_init();
        interrupt_unblock();
        r = keep_turn(c, &asked, &said);
    }
    if (r == -ENOMEM) error_say(r, "no memory for the conversation");
    if (r < 0) status = exit_status_report(r);
    proto_request_fini(&request);
    buf_fini(&said);
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
    _cleanup_(freep) char *history = isatty(STDIN_FILENO) ? history_file() : NULL;
    struct chat chat = {.o = o};
    struct chat_line *lines = NULL;
    int r = chat_line_new(&lines, history);
    r = r < 0 ? exit_status_report(r) : run_chat(&chat, lines);
    chat_line_free(lines);
    chat_forget(&chat, 0);
    free(chat.turns);
    return r;
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
