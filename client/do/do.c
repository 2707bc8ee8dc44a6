/* SPDX-License-Identifier: MIT */
#include "client/do/do.h"
#include "client/conversation.h"
#include "client/do/ask.h"
#include "client/do/context.h"
#include "client/do/visible.h"
#include "client/exit-status.h"
#include "client/generate.h"
#include "client/interrupt.h"
#include "client/output.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One line, which may end with a newline, so that the model can end it. It begins with neither a space, nor a quote of
 * Markdown, a comment or the prompt "$ ". */
#define ONE_LINE    "[^\\x{0}-\\x{20}`#$\\x{7f}-\\x{a0}][^\\x{0}-\\x{1f}\\x{7f}-\\x{9f}]*\\n?"
#define LINE_TOKENS 512 /* default of --max-tokens */

static const char task[] =
    "You turn a request into one command line for a shell. Answer with the command line only: no "
    "explanation, no Markdown, no prompt character.";
static const char explain[] = "You explain command lines. Answer with one short sentence that says what the given "
                              "command line does, and what it changes or removes.";

/* Earlier turns of the conversation, which show small models the form of the answer. */
struct example {
    const char *asked, *answered;
};

enum { EXAMPLES = 4 };

static const struct example commands[EXAMPLES] = {
    {"how full are the disks?", "df -h"},
    {"remove all files that end in .o", "rm -- *.o"},
    {"which lines of main.c have the word error?", "grep -n error main.c"},
    {"the five largest files in /var/log", "ls -S /var/log | head -n 5"},
};
static const struct example meanings[EXAMPLES] = {
    {"df -h", "It shows how full each file system is."},
    {"rm -- *.o", "It removes all files in this directory whose names end in .o."},
    {"grep -n error main.c", "It prints the lines of main.c that have the word error, with their numbers."},
    {"mkdir -p a/b", "It makes the directory a and in it the directory b, unless they exist."},
};

/* Put the examples before the last message. */
static int add_examples(struct proto_generate *g, const struct example *examples)
{
    struct proto_message asked = g->messages[--g->n_messages], *last = NULL;
    int r = 0;
    for (size_t i = 0; r == 0 && i < EXAMPLES; i++) {
        r = conversation_add(g, "user", examples[i].asked, strlen(examples[i].asked), NULL);
        if (r == 0) r = conversation_add(g, "assistant", examples[i].answered, strlen(examples[i].answered), NULL);
    }
    if (r == 0) r = conversation_add(g, "user", "", 0, &last);
    if (r < 0) {
        proto_message_fini(&asked);
        return error_say(r, "no memory for the request");
    }
    proto_message_fini(last);
    *last = asked;
    return 0;
}

/* Ask the model for one line. @text is taken. 0: the line is in @line, without its newline; else an exit status. */
static int one_line(const struct options *o, const char *system, const struct example *examples, struct buf *text,
                    struct buf *line)
{
    struct options ask = *o;
    struct proto_request request = {0};
    struct answer_parts said = {0};
    struct input input = {.text = *text};
    int status;
    *text = (struct buf)BUF_INIT;
    ask.system = (char *)system;
    ask.constraint = (struct option_constraint){.regex = (char *)ONE_LINE};
    if (ask.max_tokens < 0) ask.max_tokens = LINE_TOKENS;
    if (ask.sampling.temperature != ask.sampling.temperature) ask.sampling.temperature = 0; /* NaN: not given */
    int r = generate_request(&request, &ask, &input);
    if (r == 0) r = add_examples(&request.gen, examples);
    input_fini(&input);
    status = r < 0 ? exit_status_before(r) : generate_silent(&ask, &request, &said);
    proto_request_fini(&request);
    while (said.text.len && (said.text.data[said.text.len - 1] == '\n' || said.text.data[said.text.len - 1] == ' '))
        said.text.data[--said.text.len] = 0;
    if (status == 0 && said.reason != PROTO_STOP_EOS) {
        log_error("the model's line is incomplete; see --max-tokens");
        status = EXIT_FAILED;
    }
    if (status == 0 && !said.text.len) {
        log_error("the model gave no command; ask in other words");
        status = EXIT_FAILED;
    }
    if (status == 0) {
        *line = said.text;
        said.text = (struct buf)BUF_INIT;
    }
    answer_parts_fini(&said);
    return status;
}

/* The system message, with the context unless --no-context; says what is sent. */
static int system_message(const struct options *o, struct buf *out)
{
    struct do_context c;
    int r = buf_puts(out, task);
    if (r < 0) return error_say(r, "no memory for the request");
    if (o->no_context) return 0;
    r = do_context_read(&c);
    if (r == 0) {
        log_info("sent with the request (--no-context: nothing): %s, %s, %s", c.system, c.shell, c.directory.data);
        r = buf_printf(out, "\nSystem: %s\nShell: %s\nCurrent directory: %s", c.system, c.shell, c.directory.data);
        if (r < 0) error_say(r, "no memory for the request");
    }
    do_context_fini(&c);
    return r;
}

/* The command of the model. 0, or an exit status. */
static int find_command(const struct options *o, struct buf *command)
{
    struct input asked = {0};
    struct buf system = BUF_INIT;
    int status = EXIT_USAGE;
    int r = input_read(o, o->no_stdin || isatty(STDIN_FILENO) ? -1 : STDIN_FILENO, &asked);
    if (r > 0) log_error("say what the command shall do: hob do TEXT");
    if (r == 0) r = system_message(o, &system);
    if (r < 0) status = exit_status_before(r);
    if (r == 0) status = one_line(o, system.data, commands, &asked.text, command);
    buf_fini(&system);
    input_fini(&asked);
    return status;
}

/* Replace this process by the user's shell. Standard input that was a pipe has been read, so the command gets the
 * terminal. Returns only on failure. */
static int run_command(const struct options *o, int tty, const char *command)
{
    const char *shell = do_shell(), *name = strrchr(shell, '/') + 1;
    sigset_t none;
    if (!o->no_stdin && !isatty(STDIN_FILENO)) dup2(tty, STDIN_FILENO);
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execl(shell, name, "-c", command, (char *)NULL);
    int r = error_origin(-errno);
    return exit_status_report(error_in(r, "%s", shell));
}

static int print_command(struct buf *command)
{
    if (visible_check(command->data, command->len) < command->len) {
        struct buf shown = BUF_INIT;
        int r = visible_escape(&shown, command->data, command->len);
        if (r == 0) log_error("the command has hidden characters and is not printed: %s", shown.data);
        buf_fini(&shown);
        return r < 0 ? exit_status_report(r) : EXIT_FAILED;
    }
    int r = buf_puts(command, "\n");
    r = r < 0 ? error_say(r, "out of memory") : output_print(command->data, command->len);
    return r < 0 ? exit_status_report(r) : EXIT_ANSWERED;
}

/* Let the user choose. @does: what the command does; may be empty. */
static int offer(const struct options *o, int tty, struct buf *command, const struct buf *does)
{
    int r = do_ask(tty, command, does->data);
    if (r == DO_RUN) return run_command(o, tty, command->data);
    if (r == DO_COPY && (r = do_copy(tty, command)) == 0) {
        log_info("copied, if the terminal lets programs set its clipboard (OSC 52)");
        return EXIT_ANSWERED;
    }
    return r < 0 ? exit_status_report(r) : EXIT_FAILED;
}

int do_run(const struct options *o)
{
    struct buf command = BUF_INIT, does = BUF_INIT, copy = BUF_INIT;
    _cleanup_(closep) int tty = o->print ? -1 : open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (tty < 0 && !o->print)
        return exit_status_before(error_say(-EINVAL, "do runs a command only after a key at a terminal, and there is "
                                                     "none; --print prints it"));
    interrupt_also(SIGTERM);
    interrupt_also(SIGHUP);
    int status = find_command(o, &command);
    if (status == 0 && o->print)
        status = print_command(&command);
    else if (status == 0) {
        int r = visible_escape(&copy, command.data, command.len);
        status = r < 0 ? exit_status_report(r) : one_line(o, explain, meanings, &copy, &does);
        if (status != EXIT_INTERRUPTED) status = offer(o, tty, &command, &does); /* the user can judge without it */
    }
    buf_fini(&command);
    buf_fini(&does);
    buf_fini(&copy);
    return status;
}
