/* SPDX-License-Identifier: MIT */
#include "client/chat-line.h"
#include "client/interrupt.h"
#include "client/output.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <fcntl.h>
#include <histedit.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#define CHAT_HISTORY   1000
#define CHAT_PASTE_END L"\x1b[201~"
#define CHAT_NO_PASTE  "\x1b[?2004l"

struct chat_line {
    EditLine *editor; /* NULL: no terminal, so no line editing */
    History *history;
    char *file; /* path of the history; NULL: no history is kept */
    FILE *terminal;
    bool more;     /* the line continues the previous one */
    bool given_up; /* Ctrl-C */
    bool paste;    /* the terminal supports bracketed paste */
    char *read;    /* buffer of getline */
    size_t size;
};

/* Settings of the terminal before line editing; chat_killed restores them. */
static struct {
    struct termios before;
    int fd;
    bool paste;
} typing;

static void chat_killed(int sig)
{
    static const char no_paste[] = CHAT_NO_PASTE;
    tcsetattr(STDIN_FILENO, TCSANOW, &typing.before);
    ssize_t n = typing.paste ? write(typing.fd, no_paste, sizeof(no_paste) - 1) : 0;
    (void)n;
    raise(sig); /* SA_RESETHAND: delivered as this returns */
}

static void chat_guard(const struct chat_line *l)
{
    static const int signals[] = {SIGTERM, SIGHUP};
    const struct sigaction act = {.sa_handler = chat_killed, .sa_flags = (int)SA_RESETHAND};
    struct sigaction old;
    typing.fd = fileno(l->terminal);
    typing.paste = l->paste;
    if (tcgetattr(STDIN_FILENO, &typing.before) < 0) return;
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(signals[i], &act, NULL);
}

static char *chat_prompt(EditLine *el)
{
    static char first[] = "> ", next[] = ". ";
    struct chat_line *l;
    el_get(el, EL_CLIENTDATA, &l);
    return l->more ? next : first;
}

static unsigned char chat_give_up(EditLine *el, int key)
{
    struct chat_line *l;
    el_get(el, EL_CLIENTDATA, &l);
    l->given_up = true;
    fputs("^C\n", l->terminal);
    return CC_NEWLINE;
}

/* Bracketed paste: input between ESC [200~ and ESC [201~ is text, newlines included. */
static unsigned char chat_paste(EditLine *el, int key)
{
    wchar_t piece[2] = {0};
    const wchar_t *end = CHAT_PASTE_END;
    size_t matched = 0;
    while (end[matched] && el_wgetc(el, &piece[0]) == 1) {
        if (piece[0] == end[matched]) {
            matched++;
            continue;
        }
        /* An escape sequence inside the pasted text would move the cursor. Without its first byte it is harmless. */
        matched = piece[0] == end[0];
        if (matched || (piece[0] < L' ' && piece[0] != L'\n' && piece[0] != L'\r' && piece[0] != L'\t')) continue;
        if (piece[0] == L'\r') piece[0] = L'\n';
        if (el_winsertstr(el, piece) < 0) return CC_ERROR;
    }
    return CC_REFRESH;
}

static int chat_edit(struct chat_line *l)
{
    HistEvent e;

    l->editor = el_init("hob", stdin, l->terminal, l->terminal);
    l->history = history_init();
    if (!l->editor || !l->history) return -ENOMEM;
    l->paste = output_draws(fileno(l->terminal));
    chat_guard(l);
    el_set(l->editor, EL_CLIENTDATA, l);
    el_set(l->editor, EL_PROMPT, chat_prompt);
    el_set(l->editor, EL_EDITOR, "emacs");
    el_set(l->editor, EL_SIGNAL, 0);
    /* While a line is edited, the editor reads Ctrl-C as a key. */
    el_set(l->editor, EL_SETTY, "-d", "-isig", NULL);
    el_set(l->editor, EL_ADDFN, "hob-give-up", "Discard the line", chat_give_up);
    el_set(l->editor, EL_ADDFN, "hob-paste", "Insert pasted text", chat_paste);
    el_set(l->editor, EL_BIND, "^C", "hob-give-up", NULL);
    el_set(l->editor, EL_BIND, "\\e[200~", "hob-paste", NULL);
    el_set(l->editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
    history(l->history, &e, H_SETSIZE, CHAT_HISTORY);
    history(l->history, &e, H_SETUNIQUE, 1);
    el_set(l->editor, EL_HIST, history, l->history);
    if (l->file) history(l->history, &e, H_LOAD, l->file);
    el_source(l->editor, NULL);
    return 0;
}

/* libedit opens the history by name: if that were a pipe, the open would wait for its other end. */
static bool chat_is_file(const char *path)
{
    struct stat st;
    return lstat(path, &st) < 0 ? errno == ENOENT : S_ISREG(st.st_mode);
}

int chat_line_new(struct chat_line **out, const char *history)
{
    struct chat_line *l = calloc(1, sizeof(*l));
    int r = l ? 0 : -ENOMEM;
    /* Prompts go to a stream that does not carry the answers. */
    if (l) l->terminal = isatty(STDERR_FILENO) ? stderr : isatty(STDOUT_FILENO) ? stdout : NULL;
    if (r == 0 && history && chat_is_file(history)) {
        l->file = strdup(history);
        if (!l->file) r = -ENOMEM;
    }
    if (r == 0 && l->terminal && isatty(STDIN_FILENO)) r = chat_edit(l);
    if (r < 0) {
        chat_line_free(l);
        return error_say(r, "no memory for the line editor");
    }
    *out = l;
    return 0;
}

struct chat_line *chat_line_free(struct chat_line *l)
{
    if (!l) return NULL;
    if (l->history) history_end(l->history);
    if (l->editor) el_end(l->editor);
    free(l->file);
    free(l->read);
    free(l);
    return NULL;
}

bool chat_line_edits(const struct chat_line *l)
{
    return l->editor;
}

/* Save at once, so that the next chat has the line. Only the user may read the file. */
static void chat_remember(struct chat_line *l, const char *text)
{
    HistEvent e;
    int fd;

    if (!l->history || !*text) return;
    history(l->history, &e, H_ENTER, text);
    if (!l->file) return;
    fd = open(l->file, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
    if (fd < 0) return;
    close(fd);
    history(l->history, &e, H_SAVE, l->file);
}

/* Read one line; *n is its length with the newline. NULL: end of input, or Ctrl-C. */
static const char *chat_get(struct chat_line *l, size_t *n)
{
    const char *line;
    int count = 0;
    if (l->editor) {
        /* Enter raw mode before the prompt is shown: keys typed earlier are still handled by the terminal. */
        el_set(l->editor, EL_PREP_TERM, 1);
        if (l->paste) fputs("\x1b[?2004h", l->terminal);
        fflush(l->terminal);
        line = el_gets(l->editor, &count);
        if (l->paste) fputs(CHAT_NO_PASTE, l->terminal);
        fflush(l->terminal);
        *n = count > 0 ? (size_t)count : 0;
        return line && *n ? line : NULL;
    }
    ssize_t got = interrupted() ? -1 : getline(&l->read, &l->size, stdin);
    *n = got > 0 ? (size_t)got : 0;
    return got > 0 ? l->read : NULL;
}

int chat_line_read(struct chat_line *l, struct buf *out)
{
    int r = 0;
    buf_clear(out);
    l->given_up = l->more = false;
    do {
        size_t n;
        const char *line = chat_get(l, &n);
        if (l->given_up || interrupted()) return -EINTR;
        if (!line) break;
        if (n && line[n - 1] == '\n') n--;
        r = buf_append(out, line, n);
        l->more = r == 0 && n && line[n - 1] == '\\';
        if (l->more) out->data[out->len - 1] = '\n';
        if (r == 0 && !l->more) {
            chat_remember(l, out->data ? out->data : "");
            return 0;
        }
    } while (r == 0);
    if (r < 0) return error_say(r, "no memory for a line");
    return out->len == 0;
}
