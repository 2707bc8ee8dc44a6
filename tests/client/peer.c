/* SPDX-License-Identifier: MIT */
#include "tests/client/peer.h"
#include "client/embed/embed-command.h"
#include "client/generate.h"
#include "client/interrupt.h"
#include "client/options.h"
#include "client/sessions.h"
#include "client/status.h"
#include "libcommon/frame.h"
#include "libcommon/log.h"
#include "libcommon/sock.h"
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The test itself cannot go on. */
static void require(int ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "peer: %s\n", what);
    abort();
}

static int client_main(const char *const *args)
{
    const char *argv[32] = {"hob"};
    struct options o;
    int argc = 1, r;

    while (args[argc - 1] && argc < 31) {
        argv[argc] = args[argc - 1];
        argc++;
    }
    argv[argc] = NULL;
    interrupt_init();
    log_init("hob", LOG_INFO);
    r = options_parse(&o, argc, (char **)argv);
    if (r == 0) r = options_complete(&o, NULL);
    require(r == 0, "the test's options");
    if (o.quiet) log_init("hob", LOG_ERROR);
    if (o.command == COMMAND_STATUS) r = status_run(&o);
    if (o.command == COMMAND_STOP) r = status_stop(&o);
    if (o.command == COMMAND_SESSIONS) r = sessions_run(&o);
    if (o.command == COMMAND_EMBED) r = embed_run(&o);
    if (o.command == COMMAND_GENERATE) r = generate_run(&o, -1);
    options_fini(&o);
    return r;
}

static void catch_file(int fd, char **data, size_t *len)
{
    off_t n = lseek(fd, 0, SEEK_END);

    require(n >= 0, "lseek");
    *data = calloc(1, (size_t)n + 1);
    require(*data && pread(fd, *data, (size_t)n, 0) == n, "pread");
    *len = (size_t)n;
    close(fd);
}

static int temporary(void)
{
    char name[] = "/tmp/hob-test-XXXXXX";
    int fd = mkostemp(name, O_CLOEXEC);

    require(fd >= 0, "mkostemp");
    unlink(name);
    return fd;
}

static pid_t client_start(const char *path, int listener, int out, int err, const char *const *args)
{
    pid_t pid = fork();

    require(pid >= 0, "fork");
    if (pid > 0) return pid;
    close(listener);
    dup2(out, 1);
    dup2(err, 2);
    setenv("HOB_SOCKET", path, 1);
    unsetenv("JOURNAL_STREAM");
    exit(client_main(args));
}

/* Serve until the client has ended. */
static void serve(struct peer_result *r, int listener, pid_t pid, const peer_script *scripts)
{
    int wstatus = 0;

    for (;;) {
        struct pollfd pfd = {.fd = listener, .events = POLLIN};
        struct peer p = {.pid = pid};

        if (poll(&pfd, 1, 5) <= 0) {
            if (waitpid(pid, &wstatus, WNOHANG) == pid) break;
            continue;
        }
        p.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        require(p.fd >= 0, "accept");
        if (*scripts) (*scripts++)(&p);
        if (r->connections < 8) memcpy(r->uuids[r->connections], p.uuid, sizeof p.uuid);
        r->connections++;
        if (p.fd >= 0) close(p.fd);
    }
    r->status = WIFEXITED(wstatus) ? WEXITSTATUS(wstatus) : 1000 + WTERMSIG(wstatus);
}

void peer_run(struct peer_result *r, const peer_script *scripts, int out_fd, const char *const *args)
{
    peer_run_on(r, scripts, out_fd, -1, args);
}

void peer_run_on(struct peer_result *r, const peer_script *scripts, int out_fd, int err_fd, const char *const *args)
{
    char dir[] = "/tmp/hob-test-XXXXXX", path[sizeof dir + 8];
    int listener, out = temporary(), err = temporary();
    pid_t pid;

    *r = (struct peer_result){0};
    require(mkdtemp(dir) != NULL, "mkdtemp");
    snprintf(path, sizeof path, "%s/s.sock", dir);
    listener = sock_listen(path, 0600, 8);
    require(listener >= 0, "listen");
    fflush(NULL);
    alarm(60); /* a client that hangs fails the test instead of hanging it */
    pid = client_start(path, listener, out_fd >= 0 ? out_fd : out, err_fd >= 0 ? err_fd : err, args);
    serve(r, listener, pid, scripts);
    alarm(0);
    close(listener);
    unlink(path);
    rmdir(dir);
    catch_file(out, &r->out, &r->out_len);
    catch_file(err, &r->err, &r->err_len);
}

void peer_terminal(int master, char *out, size_t size, const char *want)
{
    struct pollfd pfd = {.fd = master, .events = POLLIN};
    size_t n = 0;

    while (n < size - 1 && poll(&pfd, 1, n < strlen(want) ? 50000 : 0) > 0) {
        ssize_t more = read(master, out + n, size - 1 - n);

        if (more <= 0) break;
        n += (size_t)more;
    }
    out[n] = 0;
}

void peer_fini(struct peer_result *r)
{
    free(r->out);
    free(r->err);
    *r = (struct peer_result){0};
}

static void read_all(int fd, void *p, size_t n)
{
    ssize_t got = n > 0 ? recv(fd, p, n, MSG_WAITALL) : 0;

    require(got == (ssize_t)n, "the client ended in the middle of a request");
}

void peer_take(struct peer *p, enum proto_type type, struct proto_request *req)
{
    unsigned char head[4];
    size_t len;
    char *body;

    read_all(p->fd, head, 4);
    len = (size_t)head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
    require(len <= FRAME_MAX, "the client's frame is too large");
    body = malloc(len + 1);
    require(body != NULL, "malloc");
    read_all(p->fd, body, len);
    require(proto_read_request(req, body, len) == 0, "the client's request");
    require(req->type == type, "the type of the client's request");
    if (type == PROTO_GENERATE || type == PROTO_WARM) memcpy(p->uuid, req->gen.uuid, sizeof p->uuid);
    free(body);
}

void peer_expect_next(struct peer *p, enum proto_type type)
{
    struct proto_request req;

    peer_take(p, type, &req);
    proto_request_fini(&req);
}

void peer_expect(struct peer *p, enum proto_type type)
{
    peer_expect_next(p, PROTO_HELLO);
    peer_expect_next(p, type);
}

void peer_bytes(struct peer *p, const void *data, size_t n)
{
    const char *from = data;

    while (n > 0) {
        ssize_t done = send(p->fd, from, n, MSG_NOSIGNAL);

        if (done < 0) return; /* the client has had enough, which is what some tests are about */
        from += done;
        n -= (size_t)done;
    }
}

void peer_frame(struct peer *p, const void *body, size_t n)
{
    unsigned char head[4];

    frame_header(head, (uint32_t)n);
    peer_bytes(p, head, 4);
    peer_bytes(p, body, n);
}

void peer_send(struct peer *p, const struct proto_event *e)
{
    struct buf b = BUF_INIT;

    require(proto_write_event(&b, e) == 0, "proto_write_event");
    peer_bytes(p, b.data, b.len);
    buf_fini(&b);
}

void peer_hello(struct peer *p)
{
    peer_send(p, &(struct proto_event){.type = PROTO_EV_HELLO, .version = PROTO_VERSION});
}

void peer_text(struct peer *p, const char *text)
{
    struct proto_event e = {.type = PROTO_EV_TEXT, .id = 1, .text = {(char *)text, strlen(text)}};

    peer_send(p, &e);
}

void peer_done(struct peer *p, enum proto_reason reason)
{
    struct proto_event e = {.type = PROTO_EV_DONE,
                            .id = 1,
                            .reason = reason,
                            .usage_prompt = 11,
                            .usage_cached = 4,
                            .usage_completion = 7,
                            .queue_ms = 0.25,
                            .prefill_ms = 1.5,
                            .decode_ms = 3,
                            .ttft_ms = 2,
                            .miss_at = -1,
                            .seed = INT64_C(9007199254740993)};

    peer_send(p, &e);
}

void peer_error(struct peer *p, int code, const char *message)
{
    struct proto_event e = {
        .type = PROTO_EV_ERROR, .id = 1, .code = code, .message = {(char *)message, strlen(message)}};

    peer_send(p, &e);
}
