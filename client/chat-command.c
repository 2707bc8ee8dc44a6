/* SPDX-License-Identifier: MIT */
#include "client/chat-attach.h"
#include "client/chat-carry.h"
#include "client/exit-status.h"
#include "client/interrupt.h"
#include "client/option-table.h"
#include "client/sessions.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/utf8.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Lines of at most 40 columns. */
static const char help_text[] = "/model [NAME]    show or set the model\n"
                                "/system [TEXT]   set the system message\n"
                                "/session [NAME]  switch to a session;\n"
                                "                 without NAME: leave it\n"
                                "/sessions        list the sessions\n"
                                "/schema [FILE]   JSON of this schema;\n"
                                "                 without FILE: any text\n"
                                "/tools [PATH]    list the tools, add one\n"
                                "/file [PATH]     a text file before the\n"
                                "                 next message, or list;\n"
                                "                 none: attach nothing\n"
                                "/image [PATH]    attach an image to the\n"
                                "                 next message, or list;\n"
                                "                 none: attach nothing\n"
                                "/audio [PATH]    the same for a sound\n"
                                "/think [HOW]     thinking: hide, show,\n"
                                "                 stderr, on or off\n"
                                "/undo            remove the last turn\n"
                                "/save FILE       save the conversation\n"
                                "/help, /quit\n"
                                "\\ at the end continues the line.\n"
                                "Ctrl-R searches in earlier lines.\n"
                                "Ctrl-C ends an answer, Ctrl-D the chat.\n";

static int replace(char **to, const char *value)
{
    char *copy = *value ? strdup(value) : NULL;
    if (*value && !copy) return exit_status_report(error_say(-ENOMEM, "out of memory"));
    free(*to);
    *to = copy;
    return 0;
}

static int command_help(struct chat *c, const char *arg)
{
    fputs(help_text, stderr);
    return 0;
}

static int command_quit(struct chat *c, const char *arg)
{
    c->quit = true;
    return 0;
}

static int command_model(struct chat *c, const char *arg)
{
    const char *model = c->o->model ? c->o->model : "default";
    if (!*arg) log_info("the model is %s", model);
    if (!*arg) return 0;
    if (getenv("HOB_SOCKET")) {
        log_info("HOB_SOCKET is set: its daemon answers with its own model");
        return 0;
    }
    int status = strcmp(arg, model) == 0 ? 0 : chat_carry(c);
    return status == 0 ? replace(&c->o->model, arg) : status;
}

static int command_system(struct chat *c, const char *arg)
{
    if (*arg && c->o->session) log_info("a session uses only the system message of its first turn");
    return replace(&c->o->system, arg);
}

static int command_session(struct chat *c, const char *arg)
{
    int r = *arg ? options_session_name(arg) : 0;
    if (r < 0) {
        log_error("/session: %s", error_text(r));
        return EXIT_USAGE;
    }
    chat_forget(c, 0);
    return replace(&c->o->session, arg);
}

static int command_schema(struct chat *c, const char *arg)
{
    struct option_constraint *given = &c->o->constraint;
    if (*arg && c->loop.tools.n) {
        log_error("/schema cannot be used: the chat has tools");
        return EXIT_USAGE;
    }
    if (!given->grammar && !given->regex && !given->n_choices) return replace(&given->schema, arg);
    log_error("/schema cannot be used: the chat has another constraint");
    return EXIT_USAGE;
}

static int command_tools(struct chat *c, const char *arg)
{
    const struct option_constraint *given = &c->o->constraint;
    const struct tool_set *tools = &c->loop.tools;
    for (size_t i = 0; !*arg && i < tools->n; i++)
        log_info("%s: %s%s", tools->tools[i].about.name, tools->tools[i].path,
                 tools->tools[i].always ? " (runs without a question)" : "");
    if (!*arg && !tools->n) log_info("no tools; /tools PATH adds one");
    if (!*arg) return 0;
    if (given->schema || given->grammar || given->regex || given->n_choices) {
        log_error("/tools cannot be used: the chat has a constraint");
        return EXIT_USAGE;
    }
    int r = tool_loop_add(&c->loop, arg);
    interrupt_clear();
    interrupt_init();
    if (r == 0) return 0;
    error_in(r, "/tools");
    return exit_status_before(r);
}

static int command_think(struct chat *c, const char *arg)
{
    int r = *arg ? options_think(c->o, arg) : 0;
    if (!*arg) log_info("thinking: %s", options_think_name(c->o));
    if (r == 0) return 0;
    log_error("/think: %s", error_text(r));
    return EXIT_USAGE;
}

static int command_file(struct chat *c, const char *arg)
{
    return chat_attach(c, 0, arg);
}

static int command_image(struct chat *c, const char *arg)
{
    return chat_attach(c, PROTO_MEDIA_IMAGE, arg);
}

static int command_audio(struct chat *c, const char *arg)
{
    return chat_attach(c, PROTO_MEDIA_SOUND, arg);
}

static int command_sessions(struct chat *c, const char *arg)
{
    struct options list = *c->o;
    list.verb = SESSIONS_LIST;
    list.n_words = 0;
    int status = sessions_run(&list);
    interrupt_unblock();
    return status;
}

static int command_undo(struct chat *c, const char *arg)
{
    if (c->o->session) {
        log_error("/undo cannot remove turns of a session; see 'hob sessions fork'");
        return EXIT_FAILED;
    }
    if (!c->n_turns) {
        log_error("nothing to undo");
        return EXIT_FAILED;
    }
    const struct chat_turn *last = &c->turns[c->n_turns - 1];
    const char *asked = last->messages[0].content.data + last->typed_at;
    log_info("removed: %.*s", (int)strcspn(asked, "\n"), asked);
    chat_forget(c, c->n_turns - 1);
    return 0;
}

/* A part of the output of 'hob sessions show': a line with @head, lines for the media of @m (NULL: none), then @text.
 */
static void save_part(FILE *f, bool first, const char *head, const struct proto_text *name,
                      const struct proto_text *text, const struct proto_message *m)
{
    bool ends = text->len && text->data[text->len - 1] == '\n';
    fprintf(f, "%s[%s%s%.*s]\n", first ? "" : "\n", head, name->len ? " " : "", (int)name->len,
            name->len ? name->data : "");
    for (size_t i = 0; m && i < m->n_media; i++)
        fprintf(f, "[%s: %zu bytes]\n", proto_media_name(m->media[i].kind), blob_size(m->media[i].file));
    if (text->len) fwrite(text->data, 1, text->len, f);
    if (!ends) fputc('\n', f);
}

static void save_message(FILE *f, bool first, const struct proto_message *m)
{
    static const struct proto_text none;
    if (m->thinking.len) save_part(f, first, "thinking", &none, &m->thinking, NULL);
    if (m->content.len || !m->n_calls) save_part(f, first && !m->thinking.len, m->role.data, &m->name, &m->content, m);
    for (size_t i = 0; i < m->n_calls; i++)
        save_part(f, false, "call", &m->calls[i].name, &m->calls[i].arguments, NULL);
}

/* Write a new file with the output of 'hob sessions show'. */
static int command_save(struct chat *c, const char *arg)
{
    _cleanup_(fclosep) FILE *f = NULL;
    int r = 0;
    if (!*arg) {
        log_error("usage: /save FILE");
        return EXIT_USAGE;
    }
    int fd = open(arg, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) f = fdopen(fd, "w");
    for (size_t i = 0; f && i < c->n_turns; i++)
        for (size_t k = 0; k < c->turns[i].n; k++) save_message(f, i + k == 0, &c->turns[i].messages[k]);
    if (!f || fflush(f) != 0) r = -errno;
    if (r == 0) return 0;
    log_error("%s: %s", arg, strerror(-r));
    return EXIT_FAILED;
}

static const struct {
    const char *name;
    int (*run)(struct chat *c, const char *arg);
} commands[] = {
    {"help", command_help},       {"quit", command_quit},   {"model", command_model}, {"system", command_system},
    {"session", command_session}, {"undo", command_undo},   {"save", command_save},   {"sessions", command_sessions},
    {"schema", command_schema},   {"tools", command_tools}, {"think", command_think}, {"image", command_image},
    {"audio", command_audio},     {"file", command_file},
};

static size_t word_of(const char *line)
{
    return strspn(line, "abcdefghijklmnopqrstuvwxyz");
}

bool chat_is_command(const char *line)
{
    size_t n = *line == '/' ? word_of(line + 1) : 0;
    return n && (!line[1 + n] || line[1 + n] == ' ');
}

int chat_command(struct chat *c, const char *line)
{
    size_t n = word_of(line + 1);
    const char *arg = line + 1 + n;
    arg += strspn(arg, " ");
    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
        if (strlen(commands[i].name) == n && memcmp(commands[i].name, line + 1, n) == 0) return commands[i].run(c, arg);
    log_error("unknown command /%.*s, see /help; to send it as text, start the line with a space", (int)n, line + 1);
    return EXIT_USAGE;
}
