/* SPDX-License-Identifier: MIT */
#include "daemon/engine/background-verify.h"
#include "daemon/io/server.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/sock.h"
#include "tests/io/wire.h"
#include "tests/support/tiny.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { LONG = 30000, WAIT_MS = 60000, MANY = 70 /* more than are accepted at once */ };

/* A daemon that leaves while the model loads, or at once, joins no threads: the exit of the process ends them. The
 * thread sanitizer would call those leaked that have ended by then. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "report_thread_leaks=0";
}

/* A whole daemon in a child. Its reader that does not read keeps an answer from ending. */
struct fixture {
    char dir[64], model[96], path[96], notify[96];
    pid_t pid;
    int notify_fd, inherited; /* -1: none */
    bool late;                /* the event loop begins when the engine has nothing to do */
    bool damaged;             /* the weights: found during the first reload */
    bool counted;             /* each reload writes a byte to the pipe */
    int pipe[2];              /* a reload waits for a byte from it if the weights are damaged; -1: none */
    uint64_t idle, stop;
    struct buf out;
};

static int setup(void **state)
{
    struct fixture *g = calloc(1, sizeof *g);
    struct tiny t;

    if (!g) return -1;
    *g = (struct fixture){.notify_fd = -1, .inherited = -1, .pipe = {-1, -1}, .stop = 3600ull * 1000000};
    snprintf(g->dir, sizeof g->dir, "/tmp/hob-server-XXXXXX");
    if (!mkdtemp(g->dir)) return -1;
    snprintf(g->model, sizeof g->model, "%s/m.gguf", g->dir);
    snprintf(g->path, sizeof g->path, "%s/h.sock", g->dir);
    snprintf(g->notify, sizeof g->notify, "%s/notify", g->dir);
    tiny_init(&t);
    t.ctx = 32768;
    *state = g;
    return tiny_write(&t, g->model);
}

static int teardown(void **state)
{
    struct fixture *g = *state;

    if (g->pid > 0) {
        kill(g->pid, SIGKILL);
        waitpid(g->pid, NULL, 0);
    }
    if (g->notify_fd >= 0) close(g->notify_fd);
    if (g->inherited >= 0) close(g->inherited);
    for (int i = 0; i < 2; i++)
        if (g->pipe[i] >= 0) close(g->pipe[i]);
    unlink(g->model);
    unlink(g->path);
    unlink(g->notify);
    rmdir(g->dir);
    buf_fini(&g->out);
    free(g);
    return 0;
}

/* A thread of this process runs or waits for a disk. */
static bool works(const char *tid)
{
    char path[300], text[512] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", tid);
    FILE *f = fopen(path, "re");
    if (!f) return false;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end && strncmp(name_end, ") S", 3) != 0;
}

/* Another thread of this process works. */
static bool others_work(void)
{
    char own[16];
    bool busy = false;
    DIR *d = opendir("/proc/self/task");
    snprintf(own, sizeof own, "%ld", (long)gettid());
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' && strcmp(e->d_name, own) != 0) busy |= works(e->d_name);
    if (d) closedir(d);
    return busy;
}

/* A reload that changes nothing. Waits until all other threads sleep. One that ends may have woken another, which was
 * looked at before: it works, or sleeps again, at the second look. */
static int wait_for_engine(void *ctx, struct engine *e, struct server_reload *out)
{
    for (int idle = 0; idle < 2;) idle = others_work() ? 0 : idle + 1;
    return 0;
}

/* The loop handles a signal that is pending before all else. */
static void begin_late(struct server_config *sc)
{
    sigset_t hup;
    sigemptyset(&hup);
    sigaddset(&hup, SIGHUP);
    sigprocmask(SIG_BLOCK, &hup, NULL);
    raise(SIGHUP);
    sc->reload = wait_for_engine;
}

static atomic_bool is_found; /* the damage */

static int find_damage(struct backend *b, const atomic_bool *stop)
{
    while (!is_found && !*stop) sched_yield(); /* it counts as working */
    return error_say(-EBADMSG, "the weights are damaged");
}

static bool is_damaged;
void __real_background_verify_start(struct background_verify *v, struct core *core);
void __wrap_background_verify_start(struct background_verify *v, struct core *core);
void __wrap_background_verify_start(struct background_verify *v, struct core *core)
{
    static struct backend_ops ops;
    ops = *core->model.backend->ops;
    ops.verify_weights = find_damage;
    if (is_damaged) core->model.backend->ops = &ops;
    __real_background_verify_start(v, core);
}

/* Waits until the parent wants the damage to be found, and the engine has failed. */
static int reload_and_fail(void *ctx, struct engine *e, struct server_reload *out)
{
    struct fixture *g = ctx;
    char c;
    if (read(g->pipe[0], &c, 1) != 1) return -EIO;
    is_found = true;
    return wait_for_engine(NULL, e, out);
}

static int count_reload(void *ctx, struct engine *e, struct server_reload *out)
{
    struct fixture *g = ctx;
    return write(g->pipe[1], "r", 1) == 1 ? 0 : -EIO;
}

/* Of the parent's descriptors from @first on, only the pipe stays. With a client's end of a connection, which may be
 * open before the start, the daemon would hold the connection that the test closes. */
static void close_inherited(const struct fixture *g, int first)
{
    for (int fd = first; fd < 1024; fd++)
        if (fd != g->pipe[0] && fd != g->pipe[1]) close(fd);
}

static int child(struct fixture *g)
{
    static struct engine_config ec;
    static struct listener l;
    struct server_config sc = {.engine = &ec, .listener = &l, .idle_exit_usec = g->idle, .stop_timeout_usec = g->stop};
    char pid[24];

    if (g->inherited >= 0) dup2(g->inherited, 3);
    close_inherited(g, g->inherited >= 0 ? 4 : 3);
    log_init("hobd", LOG_ERROR);
    engine_config_init(&ec);
    ec.model_path = g->model;
    ec.model_name = (char *)"tiny";
    ec.threads = 1;
    ec.kv_bytes = 64 << 20;
    if (g->late) begin_late(&sc);
    sc.ctx = g;
    is_damaged = g->damaged;
    if (g->damaged) sc.reload = reload_and_fail;
    if (g->counted) sc.reload = count_reload;
    if (g->inherited >= 0) {
        snprintf(pid, sizeof pid, "%ld", (long)getpid());
        setenv("LISTEN_PID", pid, 1);
        setenv("LISTEN_FDS", "1", 1);
        if (listener_inherit(&l) != 0) return 50;
    } else if (listener_make(&l, g->path, 0600) < 0) {
        return 51;
    }
    return server_run(&sc);
}

static void start(struct fixture *g)
{
    fflush(NULL);
    g->pid = fork();
    assert_true(g->pid >= 0);
    if (g->pid == 0) _exit(child(g));
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

/* A pipe that leaves the descriptor of an inherited socket free. */
static void open_pipe(struct fixture *g)
{
    int p[2];

    assert_int_equal(pipe(p), 0);
    for (int i = 0; i < 2; i++) {
        g->pipe[i] = fcntl(p[i], F_DUPFD_CLOEXEC, 10);
        assert_true(g->pipe[i] >= 10);
        close(p[i]);
    }
}

/* Connected and greeted; waits until the daemon listens. */
static void greet(struct fixture *g, struct wire *w)
{
    int fd = -1;

    for (int i = 0; i < WAIT_MS / 5 && (fd = sock_connect(g->path)) < 0; i++) pause_ms(5);
    assert_true(fd >= 0);
    wire_init(w, fd);
    put_hello(&g->out, PROTO_VERSION);
    wire_write(w, &g->out);
}

static void ask(struct fixture *g, struct wire *w, uint64_t id, int64_t tokens)
{
    struct proto_request r = {.type = PROTO_GENERATE, .id = id};

    proto_generate_init(&r.gen);
    r.gen.raw = true;
    r.gen.prompt = (struct proto_text){(char *)"hello", 5};
    r.gen.max_tokens = tokens;
    r.gen.ignore_eos = true;
    r.gen.logprobs = true;
    assert_int_equal(proto_write_request(&g->out, &r), 0);
    wire_write(w, &g->out);
}

/* The next event of type @type (others are dropped); false: closed before. The caller has to finish *e. */
static bool wait_for(struct wire *w, enum proto_event_type type, struct proto_event *e)
{
    struct pollfd p = {.fd = w->fd, .events = POLLIN};

    for (;;) {
        while (wire_next(w, e)) {
            if (e->type == type) return true;
            proto_event_fini(e);
        }
        if (w->eof) return false;
        assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    }
}

static void expect(struct wire *w, enum proto_event_type type)
{
    struct proto_event e;

    assert_true(wait_for(w, type, &e));
    proto_event_fini(&e);
}

static void expect_closed(struct wire *w)
{
    struct proto_event e;

    assert_false(wait_for(w, PROTO_EV_UNKNOWN, &e));
}

static void wait_until_removed(const char *path)
{
    for (int i = 0; i < WAIT_MS / 5 && access(path, F_OK) == 0; i++) pause_ms(5);
    assert_int_equal(access(path, F_OK), -1);
}

static void expect_exit(struct fixture *g, int code)
{
    int status;

    assert_int_equal(waitpid(g->pid, &status, 0), g->pid);
    g->pid = 0;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
}

static void sigterm_ends_an_idle_daemon(void **state)
{
    struct fixture *g = *state;
    struct wire w;

    start(g);
    greet(g, &w);
    expect(&w, PROTO_EV_HELLO);
    kill(g->pid, SIGTERM);
    expect_closed(&w);
    expect_exit(g, 0);
    assert_int_equal(access(g->path, F_OK), -1);
    wire_fini(&w);
}

static void sigterm_serves_what_was_accepted(void **state)
{
    struct fixture *g = *state;
    struct proto_event e;
    struct wire w;

    start(g);
    greet(g, &w);
    ask(g, &w, 1, 300);
    expect(&w, PROTO_EV_TEXT);
    kill(g->pid, SIGINT);
    assert_true(wait_for(&w, PROTO_EV_DONE, &e));
    assert_int_equal(e.usage_completion, 300);
    proto_event_fini(&e);
    expect_closed(&w);
    expect_exit(g, 0);
    wire_fini(&w);
}

static void second_sigterm_ends_at_once(void **state)
{
    struct fixture *g = *state;
    struct wire w;

    start(g);
    greet(g, &w);
    ask(g, &w, 1, LONG);
    expect(&w, PROTO_EV_TEXT);
    kill(g->pid, SIGTERM);
    wait_until_removed(g->path);
    assert_int_equal(waitpid(g->pid, NULL, WNOHANG), 0); /* the answer holds it */
    kill(g->pid, SIGTERM);
    expect_exit(g, 0);
    wire_fini(&w);
}

static void stop_timeout_cuts_answers(void **state)
{
    struct fixture *g = *state;
    struct proto_event e;
    struct wire w;

    g->stop = 100000;
    start(g);
    greet(g, &w);
    ask(g, &w, 1, LONG);
    expect(&w, PROTO_EV_TEXT);
    kill(g->pid, SIGTERM);
    expect_exit(g, 0);
    if (wait_for(&w, PROTO_EV_ERROR, &e)) { /* unless the socket was full of text */
        assert_int_equal(e.code, ESHUTDOWN);
        proto_event_fini(&e);
    }
    wire_fini(&w);
}

static void another_daemon_starts_while_one_drains(void **state)
{
    struct fixture *g = *state;
    struct wire w, w2;
    pid_t old;

    start(g);
    greet(g, &w);
    ask(g, &w, 1, LONG);
    expect(&w, PROTO_EV_TEXT);
    kill(g->pid, SIGTERM);
    wait_until_removed(g->path);
    old = g->pid;
    start(g);
    greet(g, &w2);
    ask(g, &w2, 1, 3);
    expect(&w2, PROTO_EV_DONE);
    kill(old, SIGTERM);
    assert_int_equal(waitpid(old, NULL, 0), old);
    assert_int_equal(access(g->path, F_OK), 0); /* the old one took nothing of the new one's */
    kill(g->pid, SIGTERM);
    expect_exit(g, 0);
    wire_fini(&w);
    wire_fini(&w2);
}

static void sighup_is_survived(void **state)
{
    struct fixture *g = *state;
    struct wire w;

    start(g);
    greet(g, &w);
    expect(&w, PROTO_EV_HELLO);
    kill(g->pid, SIGHUP);
    ask(g, &w, 1, 3);
    expect(&w, PROTO_EV_DONE);
    kill(g->pid, SIGTERM);
    expect_exit(g, 0);
    wire_fini(&w);
}

/* A daemon that stops reads no configuration. */
static void sighup_is_ignored_while_it_drains(void **state)
{
    struct fixture *g = *state;
    struct wire w;
    char c;

    g->counted = true;
    open_pipe(g);
    start(g);
    greet(g, &w);
    expect(&w, PROTO_EV_HELLO);
    kill(g->pid, SIGHUP);
    assert_int_equal(read(g->pipe[0], &c, 1), 1);
    close(g->pipe[1]);
    g->pipe[1] = -1;
    ask(g, &w, 1, LONG);
    expect(&w, PROTO_EV_TEXT);
    kill(g->pid, SIGTERM);
    wait_until_removed(g->path);
    kill(g->pid, SIGHUP); /* of two signals that are pending, it is the first */
    kill(g->pid, SIGTERM);
    expect_exit(g, 0);
    assert_int_equal(read(g->pipe[0], &c, 1), 0);
    wire_fini(&w);
}

static void stop_request_is_answered_and_waits(void **state)
{
    struct fixture *g = *state;
    struct wire w;

    start(g);
    greet(g, &w);
    put_request(&g->out, PROTO_STOP, 9);
    wire_write(&w, &g->out);
    expect(&w, PROTO_EV_STOPPING);
    assert_int_equal(access(g->path, F_OK), -1); /* whoever was told finds no daemon any more */
    expect_closed(&w);
    expect_exit(g, 0);
    wire_fini(&w);
}

static void idle_daemon_exits(void **state)
{
    struct fixture *g = *state;
    struct wire w;

    g->idle = 50000;
    g->inherited = sock_listen(g->path, 0600, 5);
    greet(g, &w); /* an open connection does not hold it */
    start(g);
    expect_closed(&w);
    expect_exit(g, 0);
    wire_fini(&w);
}

static void busy_daemon_is_not_idle(void **state)
{
    struct fixture *g = *state;
    struct wire w;

    g->idle = 50000;
    g->inherited = sock_listen(g->path, 0600, 5);
    greet(g, &w);
    ask(g, &w, 1, LONG); /* paused as long as it is not read */
    start(g);
    pause_ms(400);
    assert_int_equal(waitpid(g->pid, NULL, WNOHANG), 0);
    wire_fini(&w);
    expect_exit(g, 0);
}

static void expect_failed_load(struct fixture *g)
{
    struct proto_event e;
    struct wire w;
    int fd = open(g->model, O_WRONLY | O_TRUNC);

    assert_int_equal(write(fd, "no model at all, really", 23), 23);
    close(fd);
    g->inherited = sock_listen(g->path, 0600, 5); /* listening before it starts: no race */
    greet(g, &w);
    ask(g, &w, 1, 3);
    start(g);
    assert_true(wait_for(&w, PROTO_EV_ERROR, &e));
    assert_int_equal(e.id, 1);
    assert_non_null(strstr(e.message.data, g->model));
    proto_event_fini(&e);
    expect_closed(&w);
    expect_exit(g, 1);
    wire_fini(&w);
}

static void failed_load_is_told_and_exits_1(void **state)
{
    expect_failed_load(*state);
}

static void load_that_fails_before_the_first_accept_is_told(void **state)
{
    struct fixture *g = *state;

    g->late = true;
    expect_failed_load(g);
}

/* The next daemon could not load the model either. */
static void failed_load_is_told_to_all_that_wait(void **state)
{
    struct fixture *g = *state;
    struct wire w[MANY];
    struct proto_event e;

    assert_int_equal(truncate(g->model, 1000), 0);
    g->late = true;
    g->inherited = sock_listen(g->path, 0600, MANY);
    for (int i = 0; i < MANY; i++) {
        greet(g, &w[i]);
        ask(g, &w[i], 1, 3);
    }
    start(g);
    for (int i = 0; i < MANY; i++) {
        assert_true(wait_for(&w[i], PROTO_EV_ERROR, &e));
        assert_int_equal(e.id, 1);
        assert_int_equal(e.code, EIO);
        proto_event_fini(&e);
        expect_closed(&w[i]);
        wire_fini(&w[i]);
    }
    expect_exit(g, 1);
}

static void inherited_socket_outlives_it(void **state)
{
    struct fixture *g = *state;
    struct wire w, w2;

    g->inherited = sock_listen(g->path, 0600, 5);
    start(g);
    greet(g, &w);
    ask(g, &w, 1, 3);
    expect(&w, PROTO_EV_DONE);
    kill(g->pid, SIGTERM);
    expect_closed(&w);
    expect_exit(g, 0);
    assert_int_equal(access(g->path, F_OK), 0);
    greet(g, &w2); /* waits in the socket for the next one */
    ask(g, &w2, 1, 3);
    start(g);
    expect(&w2, PROTO_EV_DONE);
    kill(g->pid, SIGTERM);
    expect_exit(g, 0);
    wire_fini(&w);
    wire_fini(&w2);
}

static void open_notify(struct fixture *g)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    memcpy(a.sun_path, g->notify, strlen(g->notify) + 1);
    g->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(g->notify_fd, (struct sockaddr *)&a, sizeof a), 0);
    setenv("NOTIFY_SOCKET", g->notify, 1);
}

/* Reads notifications until one has @what; fails when one has @never before. */
static void expect_notice(struct fixture *g, const char *what, const char *never)
{
    struct pollfd p = {.fd = g->notify_fd, .events = POLLIN};
    char text[1024];
    ssize_t n;

    for (;;) {
        assert_int_equal(poll(&p, 1, WAIT_MS), 1);
        n = recv(g->notify_fd, text, sizeof text - 1, 0);
        assert_true(n >= 0);
        text[n] = 0;
        if (strstr(text, what)) return;
        if (never && strstr(text, never)) fail_msg("'%s' came before '%s'", text, what);
    }
}

static void manager_is_told(void **state)
{
    struct fixture *g = *state;

    open_notify(g);
    setenv("WATCHDOG_USEC", "300000", 1);
    start(g);
    unsetenv("WATCHDOG_USEC");
    unsetenv("NOTIFY_SOCKET");
    expect_notice(g, "STATUS=Loading tiny", "READY=1");
    expect_notice(g, "READY=1", "WATCHDOG=1");
    expect_notice(g, "WATCHDOG=1", NULL);
    expect_notice(g, "WATCHDOG=1", NULL);
    kill(g->pid, SIGTERM);
    expect_notice(g, "STOPPING=1", NULL);
    expect_exit(g, 0);
}

static void manager_is_told_of_failure(void **state)
{
    struct fixture *g = *state;

    open_notify(g);
    assert_int_equal(truncate(g->model, 1000), 0);
    start(g);
    unsetenv("NOTIFY_SOCKET");
    expect_notice(g, "ERRNO=", "READY=1");
    expect_exit(g, 1);
}

/* Damage that is found after the load ends the daemon. It is not told to peers that wait in an inherited socket: the
 * next daemon serves them. */
static void damage_found_late_leaves_peers_to_the_next(void **state)
{
    struct fixture *g = *state;
    struct wire w, waiting[3];

    g->damaged = true;
    g->inherited = sock_listen(g->path, 0600, 5);
    open_pipe(g);
    open_notify(g);
    start(g);
    unsetenv("NOTIFY_SOCKET");
    expect_notice(g, "READY=1", NULL);
    greet(g, &w);
    expect(&w, PROTO_EV_HELLO);
    kill(g->pid, SIGHUP);
    expect_notice(g, "RELOADING=1", NULL); /* from now on it accepts nobody */
    for (int i = 0; i < 3; i++) {
        greet(g, &waiting[i]);
        ask(g, &waiting[i], 1, 3);
    }
    assert_int_equal(write(g->pipe[1], "", 1), 1);
    expect_notice(g, "ERRNO=", NULL);
    expect_closed(&w);
    expect_exit(g, 1);
    g->damaged = false;
    start(g);
    for (int i = 0; i < 3; i++) {
        expect(&waiting[i], PROTO_EV_DONE);
        wire_fini(&waiting[i]);
    }
    kill(g->pid, SIGTERM);
    expect_exit(g, 0);
    wire_fini(&w);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(sigterm_ends_an_idle_daemon),
        T(sigterm_serves_what_was_accepted),
        T(second_sigterm_ends_at_once),
        T(stop_timeout_cuts_answers),
        T(another_daemon_starts_while_one_drains),
        T(sighup_is_survived),
        T(sighup_is_ignored_while_it_drains),
        T(stop_request_is_answered_and_waits),
        T(idle_daemon_exits),
        T(busy_daemon_is_not_idle),
        T(failed_load_is_told_and_exits_1),
        T(load_that_fails_before_the_first_accept_is_told),
        T(failed_load_is_told_to_all_that_wait),
        T(inherited_socket_outlives_it),
        T(manager_is_told),
        T(manager_is_told_of_failure),
        T(damage_found_late_leaves_peers_to_the_next),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
