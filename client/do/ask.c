/* SPDX-License-Identifier: MIT */
#include "client/do/ask.h"
#include "client/do/visible.h"
#include "client/editor.h"
#include "client/interrupt.h"
#include "client/output.h"
#include "libcommon/error.h"
#include "libcommon/plain.h"
#include <ctype.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static int put(int tty, const char *text, size_t n)
{
    struct output out;
    output_init(&out, tty, false);
    int r = output_write(&out, text, n);
    return r == -EPIPE ? error_say(-EIO, "the terminal is closed") : r;
}

static int say(int tty, const char *text)
{
    return put(tty, text, strlen(text));
}

/* Show the command as it would run, and the question. @safe: whether that is possible. */
static int show(int tty, const struct buf *command, const char *does, bool safe)
{
    struct buf text = BUF_INIT;
    int r = buf_puts(&text, "\n  ");
    if (r == 0) r = visible_escape(&text, command->data, command->len);
    if (r == 0) r = buf_puts(&text, "\n\n");
    if (r == 0 && does && *does) {
        r = plain_line(&text, does, strlen(does));
        if (r == 0) r = buf_puts(&text, "\n");
    }
    if (r == 0 && !safe)
        r = buf_puts(&text, "A terminal does not show the characters in <> as they are, so it does not run.\n");
    if (r == 0) r = buf_puts(&text, safe ? "[y]es, run it  [n]o  [e]dit  [c]opy: " : "[n]o  [e]dit: ");
    r = r < 0 ? error_say(r, "no memory for the question") : put(tty, text.data, text.len);
    buf_fini(&text);
    return r;
}

/* Let single keys come without Enter and without their echo. What was typed before is dropped, so that it answers no
 * question. */
static int keys_begin(int tty, struct termios *before)
{
    if (tcgetattr(tty, before) < 0) return error_origin(-errno);
    struct termios keys = *before;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    keys.c_lflag |= ISIG;
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    keys.c_cc[VSUSP] = _POSIX_VDISABLE; /* the shell would find the terminal in this state */
    return tcsetattr(tty, TCSAFLUSH, &keys) < 0 ? error_origin(-errno) : 0;
}

/* Wait for a key. Returns it; 0: several at once, which are no answer. */
static int read_key(int tty)
{
    struct pollfd pfd = {.fd = tty, .events = POLLIN};
    unsigned char chunk[64];
    int r = interrupt_poll(&pfd, 1, -1);
    if (r < 0) return r;
    ssize_t n = read(tty, chunk, sizeof(chunk));
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        r = error_origin(-errno);
        return error_in(r, "the terminal");
    }
    if (n == 0) return 'n'; /* hung up */
    return n == 1 ? chunk[0] : 0;
}

/* Show the command, and wait for a key that is an answer: y, c, n or e. */
static int answer(int tty, const struct buf *command, const char *does)
{
    const bool safe = visible_check(command->data, command->len) == command->len;
    struct termios before;
    int key = 0, r = keys_begin(tty, &before);
    if (r < 0) return error_in(r, "the terminal");
    r = show(tty, command, does, safe);
    while (r == 0 && key == 0) {
        key = read_key(tty);
        if (key == 4) key = 'n'; /* Ctrl-D */
        if (key > 0) key = tolower(key);
        if (key > 0 && !strchr(safe ? "ycne" : "ne", key)) key = 0;
    }
    tcsetattr(tty, TCSAFLUSH, &before);
    if (r < 0 || key < 0) return r < 0 ? r : key;
    const char line[] = {(char)key, '\n'};
    r = put(tty, line, sizeof(line));
    return r < 0 ? r : key;
}

/* Edit the command; the newlines at its end are the editor's. */
static int edit(int tty, struct buf *command)
{
    int r = editor_text(tty, command, ".sh");
    if (r == -EINTR || r == -ENOMEM) return r;
    if (r < 0) { /* the question comes again */
        struct buf line = BUF_INIT;
        const char *text = error_text(r);
        r = plain_line(&line, text, strlen(text)) < 0 ? error_say(-ENOMEM, "out of memory")
                                                      : put(tty, line.data, line.len);
        buf_fini(&line);
        return r;
    }
    while (command->len && (command->data[command->len - 1] == '\n' || command->data[command->len - 1] == '\r'))
        command->data[--command->len] = 0;
    return 0;
}

static int ask(int tty, struct buf *command, const char *does)
{
    for (;;) {
        int r = answer(tty, command, does);
        if (r < 0) return r;
        if (r != 'e') return r == 'y' ? DO_RUN : r == 'c' ? DO_COPY : DO_NOT;
        r = edit(tty, command);
        if (r < 0) return r;
        if (!command->len) return DO_NOT;
        does = NULL; /* it was said of another command */
    }
}

int do_ask(int tty, struct buf *command, const char *does)
{
    interrupt_block();
    int r = ask(tty, command, does);
    if (r == -EINTR) say(tty, "\n");
    interrupt_unblock();
    return r;
}

int do_copy(int tty, const struct buf *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct buf out = BUF_INIT;
    int r = buf_puts(&out, "\x1b]52;c;");
    for (size_t i = 0; r == 0 && i < text->len; i += 3) { /* RFC 4648 */
        const unsigned char *p = (const unsigned char *)text->data + i;
        size_t left = text->len - i;
        unsigned bits = (unsigned)p[0] << 16 | (left > 1 ? (unsigned)p[1] << 8 : 0u) | (left > 2 ? p[2] : 0u);
        char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63], digits[bits >> 6 & 63], digits[bits & 63]};
        if (left < 3) four[3] = '=';
        if (left < 2) four[2] = '=';
        r = buf_append(&out, four, 4);
    }
    if (r == 0) r = buf_puts(&out, "\x1b\\");
    r = r < 0 ? error_say(r, "no memory for the clipboard") : put(tty, out.data, out.len);
    buf_fini(&out);
    return r;
}
