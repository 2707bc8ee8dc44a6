/* SPDX-License-Identifier: MIT */
/*
 * Connections of one user that do a daemon no good; attackers.py starts one process of this for each user.
 *
 * usage: attacker UID SOCKET SECONDS (MODE CONNECTIONS OUTSTANDING FILE)...
 *
 * FILE holds messages as they stand on the wire, one behind the other; what is not a whole message at its end is one
 * too. In the first 256 bytes of each message, the integer 0xfeedfacecafebeef (as msgpack's uint 64) becomes an id
 * of its own, and each text "########" becomes a word of its own for each round through FILE. MODE is
 *   ask    OUTSTANDING requests at a time on each connection: each answer is read and brings the next message
 *   push   messages as fast as the socket takes them; what the daemon says is read
 *   deaf   the same, and nothing is read
 *   hold   each message once; then the connection is kept
 *   churn  each message once; then the connection is closed, and another one opened
 * A connection that the daemon ends is opened again. Prints "ready" when each was opened once, and at the end (after
 * SECONDS, or SIGTERM) an object of JSON with what has happened, and the last error that the daemon told.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 256, BATCH = 32, READS = 4, EVENTS = 256, WORDS = 3 };

enum mode { ASK, PUSH, DEAF, HOLD, CHURN };

struct message {
    const char *at;
    size_t len;
    size_t id, words[WORDS]; /* offsets of what is replaced; 0: none */
};

struct kind {
    enum mode mode;
    unsigned connections, outstanding;
    struct message *messages;
    size_t n;
};

struct conn {
    const struct kind *kind;
    int fd;
    bool greeted, opened;
    uint32_t watched;
    size_t hello;       /* bytes of it that are sent */
    size_t next, at;    /* the message to be sent, and how much of it is */
    uint64_t id, round; /* of that message, and of this way through all of them */
    unsigned inflight;
    uint64_t wait_until; /* ms; the next try to connect */
    unsigned char head[4], body[96];
    size_t head_len, body_len, body_left;
};

static struct {
    uint64_t connects, refused, ended, sent, answers, errors, bytes_out, bytes_in;
} count;

static char last_error[96];
static const char HELLO[] = "\x2c\0\0\0\x84\xa4type\xa5hello\xa7version\x01\xa8"
                            "features\x90\xa8software\xa3"
                            "att";
static struct sockaddr_un address;
static int poller;
static volatile sig_atomic_t over;

static void on_signal(int number)
{
    over = 1;
}

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void *give_up(const char *what)
{
    fprintf(stderr, "attacker: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint32_t length(const void *header)
{
    const unsigned char *p = header;

    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Its offset behind @from, 0 when there is none. */
static size_t find(const struct message *m, size_t from, const char *what, size_t n)
{
    size_t len = m->len < HEAD ? m->len : HEAD;
    const char *p = from < len ? memmem(m->at + from, len - from, what, n) : NULL;

    return p ? (size_t)(p - m->at) : 0;
}

static void add_message(struct kind *k, const char *at, size_t len)
{
    struct message *m;

    k->messages = reallocarray(k->messages, k->n + 1, sizeof *k->messages);
    if (!k->messages) give_up("memory");
    m = &k->messages[k->n++];
    *m = (struct message){.at = at, .len = len};
    m->id = find(m, 4, "\xcf\xfe\xed\xfa\xce\xca\xfe\xbe\xef", 9);
    m->words[0] = find(m, 4, "########", 8);
    for (size_t i = 1; i < WORDS && m->words[i - 1]; i++) m->words[i] = find(m, m->words[i - 1] + 8, "########", 8);
}

static void read_kind(struct kind *k, char **args)
{
    static const char *const modes[] = {"ask", "push", "deaf", "hold", "churn"};
    int fd = open(args[3], O_RDONLY | O_CLOEXEC);
    struct stat st;
    const char *p;

    while (strcmp(args[0], modes[k->mode]) != 0)
        if (++k->mode > CHURN) give_up(args[0]);
    k->connections = (unsigned)atoi(args[1]);
    k->outstanding = (unsigned)atoi(args[2]);
    if (fd < 0 || fstat(fd, &st) < 0) give_up(args[3]);
    p = st.st_size ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : "";
    if (p == MAP_FAILED) give_up(args[3]);
    close(fd);
    for (size_t at = 0, left = (size_t)st.st_size; left;) {
        size_t n = left >= 4 && length(p + at) <= left - 4 ? 4 + (size_t)length(p + at) : left;

        add_message(k, p + at, n);
        at += n;
        left -= n;
    }
}

static bool wants_to_send(const struct conn *c)
{
    if (c->hello < sizeof HELLO - 1) return true;
    if (c->kind->mode == ASK) return c->at || c->inflight < c->kind->outstanding;
    if (c->kind->mode == HOLD || c->kind->mode == CHURN) return c->next < c->kind->n;
    return c->kind->n > 0;
}

static void watch(struct conn *c)
{
    struct epoll_event e = {.data.ptr = c};

    if (c->fd < 0) return;
    if (c->kind->mode != DEAF) e.events |= EPOLLIN;
    if (wants_to_send(c)) e.events |= EPOLLOUT;
    if (e.events == c->watched) return;
    c->watched = e.events;
    if (epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e) < 0) give_up("epoll_ctl");
}

static void end(struct conn *c)
{
    if (c->fd < 0) return;
    close(c->fd);
    *c = (struct conn){.kind = c->kind, .fd = -1, .opened = c->opened, .id = 1, .round = c->round + 1};
}

static void begin(struct conn *c)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};

    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0) give_up("socket");
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0) {
        end(c); /* the queue of those who connect is full, or the daemon has gone */
        c->wait_until = now_ms() + 5;
        return;
    }
    count.connects++;
    c->opened = true;
    c->watched = e.events;
    if (epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &e) < 0) give_up("epoll_ctl");
}

static void lost(struct conn *c)
{
    count.ended++;
    if (!c->greeted) count.refused++;
    end(c);
    if (c->kind->mode == HOLD) c->wait_until = now_ms() + 100; /* it has nothing to gain by haste */
}

/* The message that is the next, with what is its own in @head, into two parts at most; how many. */
static size_t prepare(const struct conn *c, char head[HEAD], struct iovec *v)
{
    const struct message *m = &c->kind->messages[c->next];
    size_t n = m->len < HEAD ? m->len : HEAD;

    if (c->at >= n) {
        v[0] = (struct iovec){(char *)m->at + c->at, m->len - c->at};
        return 1;
    }
    memcpy(head, m->at, n);
    if (m->id)
        for (int i = 0; i < 8; i++) head[m->id + 1 + i] = (char)(c->id >> 8 * (7 - i));
    for (size_t w = 0; w < WORDS && m->words[w]; w++)
        for (int i = 0; i < 8; i++) head[m->words[w] + i] = "0123456789abcdef"[c->round >> 4 * (7 - i) & 15];
    v[0] = (struct iovec){head + c->at, n - c->at};
    v[1] = (struct iovec){(char *)m->at + n, m->len - n};
    return m->len > n ? 2 : 1;
}

/* @n bytes were taken, of message after message from @c's on. How many messages came to their end. */
static unsigned taken(struct conn *c, size_t n)
{
    unsigned whole = 0;

    while (n) {
        size_t left = c->kind->messages[c->next].len - c->at, step = n < left ? n : left;

        c->at += step;
        n -= step;
        if (step < left) break;
        c->at = 0;
        c->id++;
        c->inflight++;
        whole++;
        if (++c->next < c->kind->n || c->kind->mode == HOLD || c->kind->mode == CHURN) continue;
        c->next = 0;
        c->round++;
    }
    return whole;
}

/* Up to BATCH messages at once. 1 when the socket took all of them, 0 when not, -1 when it is closed. */
static int send_some(struct conn *c)
{
    char heads[BATCH][HEAD];
    struct iovec v[2 * BATCH];
    struct msghdr h = {.msg_iov = v};
    struct conn ahead = *c;
    size_t all = 0;
    ssize_t n;

    for (int i = 0; i < BATCH && wants_to_send(&ahead); i++) {
        size_t left = ahead.kind->messages[ahead.next].len - ahead.at;

        h.msg_iovlen += prepare(&ahead, heads[i], v + h.msg_iovlen);
        taken(&ahead, left);
        all += left;
    }
    if (!all) return 1;
    n = sendmsg(c->fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
    count.bytes_out += (uint64_t)n;
    count.sent += taken(c, (size_t)n);
    return (size_t)n == all;
}

static int send_hello(struct conn *c)
{
    ssize_t n = send(c->fd, HELLO + c->hello, sizeof HELLO - 1 - c->hello, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
    c->hello += (size_t)n;
    return c->hello == sizeof HELLO - 1;
}

static bool says(const struct conn *c, const char *what, size_t n)
{
    return memmem(c->body, c->body_len, what, n) != NULL;
}

/* A whole event, of which the beginning is in @c. */
static void heard(struct conn *c)
{
    static const char *const last[] = {"done", "tokens", "status", "sessions", "ok"};
    size_t n = c->body_len > 7 ? c->body[7] & 31 : 0; /* {"event": a short string, … */

    if (!c->greeted) {
        c->greeted = says(c, "hello", 5);
        return;
    }
    if (n > c->body_len - 8 || says(c, "\xa4more\xc3", 6)) return;
    for (size_t i = 0; i < sizeof last / sizeof *last; i++)
        if (strlen(last[i]) == n && memcmp(c->body + 8, last[i], n) == 0) {
            count.answers++;
            c->inflight -= c->inflight > 0;
        }
    if (n != 5 || memcmp(c->body + 8, "error", 5) != 0) return;
    count.errors++;
    for (size_t i = 0; i < c->body_len; i++)
        last_error[i] = (char)(c->body[i] < ' ' || c->body[i] > '~' || strchr("\"\\", c->body[i]) ? ' ' : c->body[i]);
    last_error[c->body_len < sizeof last_error ? c->body_len : sizeof last_error - 1] = 0;
    c->inflight -= c->inflight > 0;
}

static void take(struct conn *c, const unsigned char *p, size_t n)
{
    while (n) {
        if (c->head_len < 4) {
            c->head[c->head_len++] = *p++;
            n--;
            c->body_left = length(c->head);
            c->body_len = 0;
        } else {
            size_t step = n < c->body_left ? n : c->body_left;
            size_t room = sizeof c->body - c->body_len;

            memcpy(c->body + c->body_len, p, step < room ? step : room);
            c->body_len += step < room ? step : room;
            c->body_left -= step;
            p += step;
            n -= step;
        }
        if (c->head_len < 4 || c->body_left) continue;
        heard(c);
        c->head_len = 0;
    }
}

/* -1 when the daemon has closed. */
static int read_some(struct conn *c)
{
    static unsigned char piece[256 << 10];

    for (int i = 0; i < READS; i++) {
        ssize_t n = recv(c->fd, piece, sizeof piece, MSG_DONTWAIT);

        if (n < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
        if (n == 0) return -1;
        count.bytes_in += (uint64_t)n;
        take(c, piece, (size_t)n);
        if ((size_t)n < sizeof piece) break;
    }
    return 0;
}

static void serve(struct conn *c, uint32_t events)
{
    int r = 0;

    if (c->fd < 0) return;
    if (c->kind->mode != DEAF && events & (EPOLLIN | EPOLLHUP | EPOLLERR)) r = read_some(c);
    if (c->kind->mode == DEAF && events & (EPOLLHUP | EPOLLERR)) r = -1;
    if (r == 0 && c->hello < sizeof HELLO - 1) r = send_hello(c) < 0 ? -1 : 0;
    if (r == 0 && c->hello == sizeof HELLO - 1 && wants_to_send(c)) r = send_some(c) < 0 ? -1 : 0;
    if (r < 0) {
        lost(c);
    } else if (c->kind->mode == CHURN && c->hello == sizeof HELLO - 1 && !wants_to_send(c)) {
        end(c);
    } else {
        watch(c);
    }
}

/* Open what is closed. True when each was opened once. */
static bool open_all(struct conn *conns, size_t n)
{
    uint64_t now = now_ms();
    bool all = true;

    for (size_t i = 0; i < n; i++) {
        if (conns[i].fd < 0 && conns[i].wait_until <= now) begin(&conns[i]);
        all &= conns[i].opened;
    }
    return all;
}

static void run(struct conn *conns, size_t n, uint64_t until)
{
    struct epoll_event events[EVENTS];
    bool ready = false;

    while (!over && now_ms() < until) {
        int got;

        if (open_all(conns, n) && !ready) {
            ready = true;
            puts("ready");
            fflush(stdout);
        }
        got = epoll_wait(poller, events, EVENTS, 5);
        for (int i = 0; i < got; i++) serve(events[i].data.ptr, events[i].events);
    }
}

static void show(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    printf("{\"connects\": %llu, \"refused\": %llu, \"ended\": %llu, \"sent\": %llu, \"answers\": %llu, "
           "\"errors\": %llu, \"bytes_out\": %llu, \"bytes_in\": %llu, \"cpu_s\": %.2f, "
           "\"last_error\": \"%s\"}\n",
           (unsigned long long)count.connects, (unsigned long long)count.refused, (unsigned long long)count.ended,
           (unsigned long long)count.sent, (unsigned long long)count.answers, (unsigned long long)count.errors,
           (unsigned long long)count.bytes_out, (unsigned long long)count.bytes_in,
           (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6,
           last_error);
}

static void become(uid_t uid)
{
    struct rlimit files = {4096, 4096};

    setrlimit(RLIMIT_NOFILE, &files);
    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0)) give_up("setuid");
    /* Behind setuid, which takes it back. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == 1) give_up("its parent has gone");
}

int main(int argc, char **argv)
{
    size_t n_kinds = argc > 4 ? (size_t)(argc - 4) / 4 : 0, n = 0, at = 0;
    struct kind *kinds = calloc(n_kinds + 1, sizeof *kinds);
    struct conn *conns;

    if (!kinds || !n_kinds || (argc - 4) % 4)
        give_up("usage: attacker UID SOCKET SECONDS (MODE CONNECTIONS OUTSTANDING FILE)...");
    for (size_t i = 0; i < n_kinds; i++) {
        read_kind(&kinds[i], argv + 4 + 4 * i);
        n += kinds[i].connections;
    }
    become((uid_t)atoi(argv[1]));
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, argv[2], sizeof address.sun_path - 1);
    poller = epoll_create1(EPOLL_CLOEXEC);
    conns = calloc(n + 1, sizeof *conns);
    if (poller < 0 || !conns) give_up("epoll");
    for (size_t i = 0; i < n_kinds; i++)
        for (unsigned k = 0; k < kinds[i].connections; k++, at++) {
            conns[at] = (struct conn){.kind = &kinds[i], .fd = -1, .id = 1, .round = at << 18};
            /* Not all begin with the same one: a session is in use by one request at a time. */
            if (kinds[i].mode <= DEAF) conns[at].next = k * 7 % kinds[i].n;
        }
    signal(SIGTERM, on_signal);
    run(conns, n, now_ms() + (uint64_t)(atof(argv[3]) * 1000));
    show();
    return 0;
}
