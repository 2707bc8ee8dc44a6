/* SPDX-License-Identifier: MIT */
/*
 * A script of what peers, signals and the service manager do to a daemon: the real loop and engine, a tiny model, and
 * sockets. Every event that comes back must be one of the protocol. The daemon continues from one input to the next
 * until it is stopped; an input ends when all of its connections are closed and the daemon answers a status request.
 * Byte 0: the model; another one than the daemon has stops it first. It also stops after some inputs, before it finds
 * that users connect too often.
 */
#include "daemon/io/server.h"
#include "libcommon/error.h"
#include "libcommon/sock.h"
#include "tests/fuzz/fuzz-edit.h"
#include "tests/fuzz/fuzz-request.h"
#include "tests/io/wire.h"
#include "tests/support/tiny.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

const char *const fuzz_seeds[] = {NULL};

enum { PEERS = 4, STEPS_MAX = 64, INPUTS_MAX = 32, WAIT_MS = 60000, SHORT_MS = 200, WATCHDOG_MS = 20 };

/* Without states, with recurrent states, with windows, for embeddings; a file that cannot be read. */
static const char *const archs[] = {"llama", "lfm2", "gemma3", "bert", NULL};
enum { MODELS = sizeof(archs) / sizeof(*archs) };

static struct daemon {
    char dir[64], models[MODELS][96], path[96], state[96], cache[96], packed[96];
    struct engine_config engine;
    struct listener listener;
    struct server_config config;
    pthread_t thread;
    unsigned model, inputs;
    bool runs, ends; /* ends: it was told to stop */
    int manager, pressure;
    unsigned reloads;
} d = {.manager = -1, .pressure = -1};

static struct wire peers[PEERS];

static int on_reload(void *ctx, struct engine *e, struct server_reload *out)
{
    d.reloads++;
    if (d.reloads % 4 == 3) return error_say(-EINVAL, "the file is damaged");
    d.engine.queue = 4 + d.reloads % 3;
    d.engine.cache_bytes = (1 + d.reloads % 2) << 20;
    d.engine.sessions.count = 3 + d.reloads % 5;
    if (engine_check(e, &d.engine) < 0) return -EINVAL;
    if (d.reloads % 2) out->taken = strdup("queue");
    if (d.reloads % 3 == 0) out->pending = strdup("threads");
    return 0;
}

/* What the service manager gives a daemon: sockets for messages, and a pipe that tells of memory pressure. */
static void be_manager(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char path[96];
    snprintf(a.sun_path, sizeof(a.sun_path), "%s/notify", d.dir);
    d.manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    FUZZ_CHECK(bind(d.manager, (const struct sockaddr *)&a, sizeof(a)) == 0);
    setenv("NOTIFY_SOCKET", a.sun_path, 1);
    setenv("WATCHDOG_USEC", "40000", 1); /* it is told at half of that */
    snprintf(path, sizeof(path), "%s/pressure", d.dir);
    FUZZ_CHECK(mkfifo(path, 0600) == 0);
    d.pressure = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    setenv("MEMORY_PRESSURE_WATCH", path, 1);
    setenv("MEMORY_PRESSURE_WRITE", "c29tZQ==", 1);
}

static void make_models(void)
{
    for (unsigned i = 0; i < MODELS; i++) {
        struct tiny t;
        snprintf(d.models[i], sizeof(d.models[i]), "%s/m%u.gguf", d.dir, i);
        if (!archs[i]) continue;
        tiny_init(&t);
        t.ctx = 512;
        if (i == 0) {
            t.dim = 32;
            t.heads = 2;
            t.kv_heads = 1;
            t.ffn = 32;
        } else {
            t.arch = archs[i];
            if (i == 3) t.tokenizer = "bert";
        }
        FUZZ_CHECK(tiny_write(&t, d.models[i]) == 0);
    }
}

static void make_daemon(void)
{
    static const uid_t gateways[] = {65534};
    fuzz_quiet();
    signal(SIGPIPE, SIG_IGN);
    fuzz_folder(d.dir);
    chmod(d.dir, 0755);
    snprintf(d.path, sizeof(d.path), "%s/h.sock", d.dir);
    make_models();
    be_manager();
    engine_config_init(&d.engine);
    d.engine.model_name = (char *)"tiny";
    d.engine.threads = 1;
    d.engine.cpu = "scalar"; /* the others are not built with sanitizers */
    d.engine.no_numa = true;
    d.engine.vector_bytes = 64 << 10;
    d.engine.state_dir = d.state;
    d.engine.cache_dir = d.cache;
    d.engine.cache_bytes = 1 << 20;
    d.engine.parallel = 3;
    d.engine.queue = 6;
    d.config = (struct server_config){.engine = &d.engine,
                                      .listener = &d.listener,
                                      .gateways = gateways,
                                      .n_gateways = 1,
                                      .client_bytes = 8 << 20,
                                      .stop_timeout_usec = 200000,
                                      .reload = on_reload};
}

static void *serve(void *ctx)
{
    server_run(&d.config);
    return NULL;
}

/* The messages to the manager, which the socket would else have no more room for. */
static void read_messages(void)
{
    char text[512];
    while (recv(d.manager, text, sizeof(text), MSG_DONTWAIT) > 0) continue;
}

static void join(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    for (int i = 0; i < WAIT_MS / 10; i++) {
        until.tv_nsec += 10000000;
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        read_messages();
        if (pthread_timedjoin_np(d.thread, NULL, &until) == 0) {
            d.runs = false;
            return;
        }
    }
    fuzz_fail("the daemon does not stop", "");
}

/* The daemon's folders; others if an engine that a daemon has left behind, as it may before its process ends, uses
 * them. */
static void choose_folders(void)
{
    static unsigned n;
    char lock[112];
    snprintf(lock, sizeof(lock), "%s/lock", d.state);
    int fd = n ? open(lock, O_RDONLY | O_CLOEXEC) : -1;
    if (!n || (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)) {
        snprintf(d.state, sizeof(d.state), "%s/state-%u", d.dir, n);
        snprintf(d.cache, sizeof(d.cache), "%s/cache-%u", d.dir, n++);
    }
    if (fd >= 0) close(fd);
}

static void start(unsigned model)
{
    if (!d.dir[0]) make_daemon();
    if (d.runs && (d.model != model || ++d.inputs > INPUTS_MAX)) {
        pthread_kill(d.thread, SIGTERM);
        join();
    }
    if (d.runs) return;
    d.model = model;
    d.inputs = 0;
    choose_folders();
    d.engine.model_path = d.models[model];
    d.engine.kv_bytes = (model ? 512ul : 128ul) << 10;
    d.listener = (struct listener)LISTENER_INIT;
    FUZZ_CHECK(listener_make(&d.listener, d.path, 0666) == 0);
    /* A signal that comes before the daemon waits for it must not end this program. */
    sigset_t told, before;
    sigemptyset(&told);
    for (int i = 0; i < 3; i++) sigaddset(&told, (int[]){SIGHUP, SIGINT, SIGTERM}[i]);
    pthread_sigmask(SIG_BLOCK, &told, &before);
    FUZZ_CHECK(pthread_create(&d.thread, NULL, serve, NULL) == 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    d.runs = true;
    d.ends = false;
}

/* A connection of a peer with the user id @uid, if this process may choose it. */
static int connect_as(uid_t uid)
{
    bool other = geteuid() == 0 && uid != 0 && syscall(SYS_setresuid, -1, uid, -1) == 0;
    int fd = sock_connect(d.path);
    if (other) FUZZ_CHECK(syscall(SYS_setresuid, -1, 0, -1) == 0);
    return fd;
}

static struct wire *peer(unsigned which)
{
    static const uid_t uids[] = {0, 1000, 1001, 65534};
    struct wire *w = &peers[which % PEERS];
    if (w->fd > 0) return w;
    int fd = connect_as(uids[which / PEERS % 4]);
    if (fd < 0) return NULL;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    wire_init(w, fd);
    return w;
}

static void hang_up(struct wire *w)
{
    if (w->fd > 0) wire_fini(w);
    *w = (struct wire){0};
}

/* The events that have come. Returns whether an answer has ended. */
static bool read_events(struct wire *w)
{
    struct proto_event e;
    bool ended = false;
    while (w->fd > 0 && wire_next(w, &e)) {
        ended |= e.type >= PROTO_EV_DONE;
        FUZZ_CHECK(e.type != PROTO_EV_UNKNOWN);
        proto_event_fini(&e);
    }
    return ended;
}

/* Waits for events at most @ms, and reads meanwhile what the daemon, which waits for that, tells its manager. */
static bool await(struct wire *w, int ms)
{
    struct pollfd p[2] = {{.fd = w->fd, .events = POLLIN}, {.fd = d.manager, .events = POLLIN}};
    while (w->fd > 0 && !w->eof) {
        if (read_events(w)) return true;
        if (w->eof || ms < 0) return false;
        const int n = poll(p, 2, ms < SHORT_MS ? ms : SHORT_MS);
        read_messages();
        if (n <= 0 || !p[0].revents) ms -= n ? WATCHDOG_MS : SHORT_MS;
    }
    return false;
}

static void send_some(struct wire *w, const char *s, size_t n)
{
    if (n) send(w->fd, s, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* A sealed file, a pipe, or an ordinary file. */
static int some_file(struct fuzz_input *in)
{
    unsigned how = fuzz_byte(in);
    size_t n = 1 + how / 8;
    if (how % 4 == 3) return open(d.models[0], O_RDONLY | O_CLOEXEC);
    int fd = memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const char *bytes = fuzz_bytes(in, &n);
    if (n) FUZZ_CHECK(write(fd, bytes, n) == (ssize_t)n);
    if (how % 4) fcntl(fd, F_ADD_SEALS, how % 4 == 1 ? F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW : F_SEAL_SHRINK);
    return fd;
}

static void send_files(struct wire *w, struct fuzz_input *in, unsigned n, const struct buf *b)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int) * 4)];
    } control = {0};
    int fds[4];
    n = 1 + n % 4;
    for (unsigned i = 0; i < n; i++) fds[i] = some_file(in);
    struct iovec io = {b->data, b->len};
    struct msghdr m = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(sizeof(int) * n)};
    control.head = (struct cmsghdr){CMSG_LEN(sizeof(int) * n), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.head), fds, sizeof(int) * n);
    sendmsg(w->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    for (unsigned i = 0; i < n; i++) close(fds[i]);
}

static void send_frame(struct wire *w, unsigned op, struct fuzz_input *in)
{
    struct buf b = BUF_INIT;
    size_t n = op & 64 ? fuzz_short(in) : fuzz_byte(in);
    if (op & 32) {
        fuzz_request(&b, in);
        if (op & 64) fuzz_edit(&b, in);
    } else {
        const char *body = fuzz_bytes(in, &n);
        put_body(&b, body ? body : "", n);
    }
    if (op & 128)
        send_files(w, in, op >> 4, &b);
    else
        send_some(w, b.data, b.len);
    buf_fini(&b);
}

static void tell_daemon(unsigned op)
{
    if (op & 32) {
        FUZZ_CHECK(write(d.pressure, "x", 1) == 1 || errno == EAGAIN);
    } else if (op & 64) {
        pthread_kill(d.thread, SIGHUP);
    } else if (op & 128) {
        pthread_kill(d.thread, op & 16 ? SIGINT : SIGTERM);
        d.ends = true;
    }
    read_messages();
}

static void step(struct fuzz_input *in, struct wire **current)
{
    struct wire *w = *current;
    unsigned op = fuzz_byte(in);
    size_t n = op >> 3;
    const char *bytes;
    if (op % 8 == 0) w = *current = peer(op >> 3);
    if (op % 8 == 1) tell_daemon(op);
    if (!w || w->fd <= 0) return;
    switch (op % 8) {
    case 2: /* some bytes */
        bytes = fuzz_bytes(in, &n);
        send_some(w, bytes, n);
        break;
    case 3: /* a hello, of a named user perhaps */
        fuzz_hello(&(struct fuzz_hello){w->fd, op >> 3}, in);
        break;
    case 4:
    case 5:
        send_frame(w, op, in);
        break;
    case 6:
        await(w, op & 8 ? SHORT_MS : 0);
        break;
    case 7:
        if (op & 8)
            hang_up(w);
        else
            shutdown(w->fd, op & 16 ? SHUT_RD : SHUT_WR);
        break;
    default:
        break;
    }
}

/* The daemon still answers, unless it was stopped. */
static void end(void)
{
    struct buf b = BUF_INIT;
    for (int i = 0; i < PEERS; i++) hang_up(&peers[i]);
    struct wire *w = d.ends ? NULL : peer(0);
    if (w) {
        put_hello(&b, PROTO_VERSION);
        put_request(&b, PROTO_STATUS, 1);
        send_some(w, b.data, b.len);
        if (!await(w, WAIT_MS) && !w->eof) fuzz_fail("no status", "");
        d.ends = w->eof; /* a peer has stopped it */
        hang_up(w);
    } else {
        d.ends = true;
    }
    buf_fini(&b);
    read_messages();
    if (d.ends) join();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct wire *current;
    start(fuzz_byte(&in) % MODELS);
    current = peer(0);
    for (int i = 0; i < STEPS_MAX && in.n; i++) step(&in, &current);
    end();
    return 0;
}
