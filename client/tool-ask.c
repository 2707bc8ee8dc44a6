/* SPDX-License-Identifier: MIT */
#include "client/tool-ask.h"
#include "client/editor.h"
#include "client/interrupt.h"
#include "client/json.h"
#include "client/output.h"
#include "libcommon/error.h"
#include "libcommon/plain.h"
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <termios.h>
#include <unistd.h>

int tool_ask_open(void)
{
    int fd = isatty(STDERR_FILENO) ? open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY) : -1;
    return fd < 0 ? -ENOTTY : fd;
}

static int write_tty(int tty, const char *s, size_t n)
{
    struct output out;
    output_init(&out, tty, false);
    return output_write(&out, s, n);
}

/* The whole call: the user confirms nothing that is not on the screen. */
static int show(int tty, const struct tool *t, const struct buf *arguments)
{
    static const char question[] = "\nrun it? y (yes), n (no), a (always), e (edit): ";
    struct buf text = BUF_INIT;
    int r = buf_printf(&text, "%s ", t->about.name);
    if (r == 0) r = plain_line(&text, arguments->data, arguments->len);
    if (r == 0) r = buf_puts(&text, question);
    r = r < 0 ? error_say(r, "no memory for the question") : write_tty(tty, text.data, text.len);
    buf_fini(&text);
    return r;
}

/* Read a line that was typed after the question, without its newline; longer ones are cut. 0; 1: end of input. */
static int read_line(int tty, char *line, size_t size)
{
    size_t used = 0;
    for (;;) {
        struct pollfd pfd = {.fd = tty, .events = POLLIN};
        char chunk[256];
        int r = interrupt_poll(&pfd, 1, -1);
        if (r < 0) return r;
        ssize_t n = read(tty, chunk, sizeof(chunk));
        if (n == 0) return 1;
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (n < 0) {
            r = error_origin(-errno);
            return error_in(r, "the terminal");
        }
        size_t len = chunk[n - 1] == '\n' ? (size_t)n - 1 : (size_t)n, room = size - 1 - used;
        memcpy(line + used, chunk, len < room ? len : room);
        used += len < room ? len : room;
        line[used] = 0;
        if (chunk[n - 1] == '\n') return 0;
    }
}

/* The line is @word or its first letter. */
static bool says(const char *line, const char *word)
{
    line += strspn(line, " ");
    size_t n = strcspn(line, " ");
    if (line[n + strspn(line + n, " ")]) return false;
    return (n == 1 || n == strlen(word)) && strncasecmp(line, word, n) == 0;
}

/* Edit the arguments, until they are a JSON object. */
static int edit(int tty, struct buf *arguments, bool *edited)
{
    struct buf text = BUF_INIT, line = BUF_INIT;
    int r = buf_append(&text, arguments->data, arguments->len);
    if (r == 0) r = editor_text(tty, &text, ".json");
    if (r == 0) r = json_one_line(&line, text.data, text.len);
    if (r == 0 && *line.data != '{') r = error_say(-EBADMSG, "not a JSON object");
    if (r == 0) {
        *edited |= strcmp(line.data, arguments->data) != 0;
        buf_fini(arguments);
        *arguments = line;
        line = (struct buf)BUF_INIT;
    } else if (r != -EINTR && r != -ENOMEM) { /* the question comes again */
        buf_clear(&line);
        r = buf_puts(&line, error_text(r));
        if (r == 0) r = buf_puts(&line, "\n");
        if (r == 0) r = write_tty(tty, line.data, line.len);
    }
    buf_fini(&line);
    buf_fini(&text);
    return r;
}

/* As tool_ask. */
static int ask(int tty, struct tool *t, struct buf *arguments, bool *edited)
{
    for (;;) {
        char line[16];
        /* Keys that were pressed before the question do not answer it. */
        tcflush(tty, TCIFLUSH);
        int r = show(tty, t, arguments);
        if (r == 0) r = read_line(tty, line, sizeof(line));
        if (r == 1) {
            r = write_tty(tty, "\n", 1);
            return r < 0 ? r : TOOL_REFUSED;
        }
        if (r < 0) return r;
        if (says(line, "yes")) return 0;
        if (says(line, "no")) return TOOL_REFUSED;
        t->always = says(line, "always");
        if (t->always) return 0;
        if (says(line, "edit")) r = edit(tty, arguments, edited);
        if (r < 0) return r;
    }
}

int tool_ask(int tty, struct tool *t, struct buf *arguments, bool *edited)
{
    *edited = false;
    interrupt_block();
    int r = ask(tty, t, arguments, edited);
    interrupt_unblock();
    return r;
}
