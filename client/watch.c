/* SPDX-License-Identifier: MIT */
#include "client/watch.h"
#include "client/exit-status.h"
#include "client/interrupt.h"
#include "client/output.h"
#include "client/rpc.h"
#include "client/watch-view.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#define WATCH_WAIT_MS 10000
#define WATCH_COLUMNS 80 /* width of the output without a terminal */

struct watch {
    const struct options *o;
    struct connection connection;
    struct output out;
    struct watch_sample now, before;
    bool screen; /* standard output is a terminal that supports cursor movement */
    bool keys;   /* standard input is a terminal, whose settings are saved in old */
    int resized; /* signalfd of SIGWINCH, or -1 */
    struct termios old;
};

/* --- the terminal --- */

static void screen_open(struct watch *w)
{
    sigset_t set;
    w->resized = -1;
    w->screen = output_draws(STDOUT_FILENO);
    if (!w->screen) return;
    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    if (sigprocmask(SIG_BLOCK, &set, NULL) == 0) w->resized = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    w->keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &w->old) == 0;
    if (!w->keys) return;
    struct termios t = w->old;
    t.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    t.c_cc[VMIN] = 1;
    t.c_cc[VTIME] = 0;
    t.c_cc[VSUSP] = _POSIX_VDISABLE; /* a shell would inherit the settings of raw mode */
    tcsetattr(STDIN_FILENO, TCSADRAIN, &t);
}

/* Leave the last frame on the screen; later output appears below it. */
static void screen_close(struct watch *w)
{
    static const char show[] = "\033[?25h";
    if (w->screen && write(STDOUT_FILENO, show, sizeof(show) - 1) < 0) log_debug("the terminal is closed");
    if (w->keys) tcsetattr(STDIN_FILENO, TCSADRAIN, &w->old);
    if (w->resized >= 0) close(w->resized);
}

/* Append @text as a frame that overwrites the previous one line by line, in one write, so that nothing flickers. */
static int screen_frame(struct buf *out, const struct buf *text, bool first)
{
    int r = buf_puts(out, first ? "\033[?25l\033[H\033[2J" : "\033[?25l\033[H");
    for (size_t at = 0; r == 0 && at < text->len;) {
        size_t n = strcspn(text->data + at, "\n");
        r = buf_append(out, text->data + at, n);
        if (r == 0) r = buf_puts(out, "\033[K\n");
        at += n + 1;
    }
    return r == 0 ? buf_puts(out, "\033[J") : r;
}

/* --- frames --- */

/* 0, or negative as output_write. */
static int draw(struct watch *w, bool first)
{
    struct winsize size = {0};
    struct buf text = BUF_INIT, frame = BUF_INIT;
    unsigned columns = WATCH_COLUMNS, rows = 0;
    int r = 0;
    if (w->screen && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col) {
        columns = size.ws_col;
        rows = size.ws_row > 2 ? size.ws_row - 1u : 1; /* one row is left for the cursor */
    }
    if (!w->screen && !first) r = buf_puts(&text, "\n");
    if (r == 0) r = watch_draw(&text, &w->now, w->before.at ? &w->before : NULL, columns, rows);
    if (r == 0 && w->screen) r = screen_frame(&frame, &text, first);
    if (r == 0) r = output_write(&w->out, w->screen ? frame.data : text.data, w->screen ? frame.len : text.len);
    buf_fini(&text);
    buf_fini(&frame);
    return r;
}

static int show_json(struct watch *w, const struct proto_text *json)
{
    int r = output_write(&w->out, json->data, json->len);
    return r == 0 ? output_write(&w->out, "\n", 1) : r;
}

/* Request the status and draw one frame. 0, or the exit status + 1 (1: regular end). */
static int refresh(struct watch *w, bool first)
{
    static const struct rpc how = {.want = PROTO_EV_STATUS, .wait_ms = WATCH_WAIT_MS};
    const struct proto_request request = {.type = PROTO_STATUS, .id = 1};
    struct proto_event e = {0};
    struct watch_sample s;
    int status = rpc_call(w->o, &w->connection, &request, &how, &e);
    if (status != 0) return status + 1;
    int r = watch_read(&s, e.status.data, e.status.len, interrupt_now());
    if (r == 0) {
        watch_fini(&w->before);
        w->before = w->now;
        w->now = s;
        r = w->o->json ? show_json(w, &e.status) : draw(w, first);
    }
    proto_event_fini(&e);
    return r < 0 ? exit_status_report(r) + 1 : 0;
}

/* Wait until @until. Returns like refresh. */
static int wait_until(struct watch *w, int64_t until)
{
    for (;;) {
        struct pollfd fds[3] = {{.fd = w->keys ? STDIN_FILENO : -1, .events = POLLIN},
                                {.fd = w->resized, .events = POLLIN},
                                {.fd = w->out.watch ? w->out.fd : -1}};
        struct signalfd_siginfo si;
        char key = 0;
        int r = interrupt_poll(fds, 3, until);
        if (r == 0) return 0;
        if (r < 0) return exit_status_report(r) + 1;
        if (fds[2].revents & (POLLERR | POLLHUP)) return EXIT_ANSWERED + 1;
        if (fds[0].revents && (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 4)) return EXIT_ANSWERED + 1;
        if (fds[1].revents && read(w->resized, &si, sizeof(si)) > 0 && !w->o->json) {
            r = draw(w, false);
            if (r < 0) return exit_status_report(r) + 1;
        }
    }
}

int watch_run(const struct options *o)
{
    struct watch w = {.o = o, .connection = CONNECTION_INIT};
    int64_t next = interrupt_now();
    interrupt_also(SIGTERM);
    interrupt_also(SIGHUP);
    interrupt_also(SIGQUIT);
    output_init(&w.out, STDOUT_FILENO, false);
    screen_open(&w);
    int end = refresh(&w, true);
    while (!end) {
        /* If a frame took longer than the interval, delay the next one, so that two never come at once. */
        next = next + o->watch_ms > interrupt_now() ? next + o->watch_ms : interrupt_now() + o->watch_ms;
        end = wait_until(&w, next);
        if (!end) end = refresh(&w, false);
    }
    screen_close(&w);
    connection_close(&w.connection);
    watch_fini(&w.now);
    watch_fini(&w.before);
    return end - 1;
}
