/* SPDX-License-Identifier: MIT */
/* Descriptors from peers that may be hostile (conn-files.c). No descriptor is left over. */
#include "daemon/io/conn-files.h"
#include "libcommon/blob.h"
#include "libcommon/error.h"
#include "libcommon/proto.h"
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* A socket pair, and the input of its second end. */
struct link {
    int peer, mine, fds; /* @fds: open descriptors at the beginning */
    struct conn_files files;
};

static int count_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static int setup(void **state)
{
    static struct link l;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    l = (struct link){.peer = ends[0], .mine = ends[1]};
    l.fds = count_fds();
    *state = &l;
    return 0;
}

static int teardown(void **state)
{
    struct link *l = *state;
    conn_files_fini(&l->files);
    assert_int_equal(count_fds(), l->fds);
    close(l->peer);
    close(l->mine);
    return 0;
}

/* The peer sends @bytes with @n descriptors. */
static void send_fds(struct link *l, const char *bytes, const int *fds, size_t n)
{
    char space[CMSG_SPACE(253 * sizeof(int))] __attribute__((aligned(sizeof(size_t)))) = {0};
    struct iovec v = {(char *)bytes, strlen(bytes)};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    if (n) {
        m.msg_control = space;
        m.msg_controllen = CMSG_SPACE(n * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n * sizeof(int));
    }
    assert_int_equal(sendmsg(l->peer, &m, MSG_NOSIGNAL), strlen(bytes));
}

static int sealed(const char *text)
{
    int fd = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK), 0);
    return fd;
}

/* The same with one new file, which the peer closes. */
static void send_file(struct link *l, const char *bytes, const char *text)
{
    int fd = sealed(text);
    send_fds(l, bytes, &fd, 1);
    close(fd);
}

/* @n times the same descriptor. */
static void send_many(struct link *l, size_t n)
{
    int fds[253], fd = sealed("many");
    for (size_t i = 0; i < n; i++) fds[i] = fd;
    send_fds(l, "x", fds, n);
    close(fd);
}

static ssize_t receive(struct link *l, size_t most)
{
    char piece[64];
    bool more;
    return conn_files_receive(&l->files, l->mine, piece, most, &more);
}

static struct proto_request request(uint32_t n_fds)
{
    static struct proto_media media[2];
    static struct proto_message message;
    for (size_t i = 0; i < 2; i++) media[i] = (struct proto_media){.kind = PROTO_MEDIA_IMAGE, .fd = (uint32_t)i};
    message = (struct proto_message){.media = media, .n_media = n_fds < 2 ? n_fds : 2};
    return (struct proto_request){
        .type = PROTO_GENERATE, .id = 5, .n_fds = n_fds, .gen = {.messages = &message, .n_messages = 1}};
}

/* The content of file @i, which @r then does not hold any more. */
static void expect_file(struct proto_request *r, size_t i, const char *text)
{
    struct proto_media *m = &r->gen.messages[0].media[i];
    assert_int_equal(blob_size(m->file), strlen(text));
    assert_memory_equal(blob_data(m->file), text, strlen(text));
    m->file = blob_unref(m->file);
}

/* A message without parts, whose files are not given to it. */
static int give_none(struct link *l, uint32_t n_fds, int result)
{
    struct proto_request r = {.type = PROTO_STATUS, .id = 6, .n_fds = n_fds};
    return conn_files_give(&l->files, &r, result, 0);
}

static void files_come_in_order(void **state)
{
    struct link *l = *state;
    send_file(l, "abc", "first");
    send_file(l, "def", "second");
    assert_int_equal(receive(l, 64), 3); /* the kernel ends a read at descriptors */
    assert_int_equal(receive(l, 64), 3);
    assert_int_equal(l->files.n, 2);
    assert_int_equal(l->files.bytes, 11);
    assert_int_equal(conn_files_memory(&l->files), 11 + l->files.cap * sizeof(struct passed));
    assert_int_equal(count_fds(), l->fds); /* also before the message is complete */
    struct proto_request r = request(2);
    assert_int_equal(conn_files_give(&l->files, &r, 0, 0), 0);
    expect_file(&r, 0, "first");
    expect_file(&r, 1, "second");
    assert_int_equal(l->files.n, 0);
    assert_int_equal(l->files.bytes, 0);
}

/* Descriptors come with the first byte of what they were sent with. */
static void a_message_in_pieces(void **state)
{
    struct link *l = *state;
    send_file(l, "abcdef", "file");
    assert_int_equal(receive(l, 2), 2);
    assert_int_equal(l->files.n, 1);
    assert_int_equal(receive(l, 64), 4);
    struct proto_request r = request(1);
    assert_int_equal(conn_files_give(&l->files, &r, 0, 0), 0);
    expect_file(&r, 0, "file");
}

static void fewer_than_announced(void **state)
{
    struct link *l = *state;
    send_file(l, "abc", "file");
    assert_int_equal(receive(l, 64), 3);
    assert_int_equal(give_none(l, 2, 0), -EBADF);
    assert_string_equal(error_text(-EBADF), "fds: 2 descriptors are announced, but 1 came");
    assert_int_equal(l->files.n, 0);
    assert_int_equal(give_none(l, 1, 0), -EBADF);
}

static void those_of_no_message_are_dropped(void **state)
{
    struct link *l = *state;
    send_file(l, "abc", "unasked");
    assert_int_equal(receive(l, 64), 3);
    send_file(l, "def", "of the next message");
    assert_int_equal(receive(l, 64), 3);
    struct proto_request first = {.type = PROTO_STATUS, .id = 1}, r = request(1);
    assert_int_equal(conn_files_give(&l->files, &first, 0, 3), 0);
    assert_int_equal(l->files.n, 1);
    assert_int_equal(conn_files_give(&l->files, &r, 0, 0), 0);
    expect_file(&r, 0, "of the next message");
}

static void a_refused_message_drops_its_own(void **state)
{
    struct link *l = *state;
    send_file(l, "abc", "of the refused one");
    send_file(l, "def", "file");
    assert_int_equal(receive(l, 64), 3);
    assert_int_equal(receive(l, 64), 3);
    error_say(-EINVAL, "wrong");
    assert_int_equal(give_none(l, 1, -EINVAL), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "wrong");
    assert_int_equal(l->files.n, 0); /* the second came before the end of the message, too */
}

static void other_descriptors_are_refused(void **state)
{
    struct link *l = *state;
    int ends[2], plain = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    char byte;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    send_fds(l, "abc", &ends[1], 1);
    close(ends[1]);
    assert_int_equal(receive(l, 64), 3);
    assert_int_equal(give_none(l, 1, 0), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "fds: descriptor 0: the file descriptor is not a memfd that is sealed "
                                             "against writing and shrinking");
    assert_int_equal(read(ends[0], &byte, 1), 0); /* waits until it is closed */
    close(ends[0]);
    assert_int_equal(write(plain, "x", 1), 1);
    send_fds(l, "def", &plain, 1);
    close(plain);
    assert_int_equal(receive(l, 64), 3);
    assert_int_equal(give_none(l, 1, 0), -EINVAL);
}

/* Threads that close them may not have ended. */
static void wait_for_fds(int n)
{
    while (count_fds() > n) usleep(1000);
}

static void too_many_end_the_connection(void **state)
{
    struct link *l = *state;
    send_many(l, PROTO_MEDIA_MAX);
    send_many(l, 1);
    assert_int_equal(receive(l, 64), 1);
    assert_int_equal(receive(l, 64), -EPROTO);
    assert_string_equal(error_text(-EPROTO), "more than 128 descriptors came for messages that are not complete");
    conn_files_fini(&l->files);
    send_many(l, 253);
    assert_int_equal(receive(l, 64), -EPROTO);
    assert_non_null(strstr(error_text(-EPROTO), "more than 128 descriptors"));
    conn_files_fini(&l->files);
    wait_for_fds(l->fds);
}

static void no_room_for_descriptors(void **state)
{
    struct link *l = *state;
    struct rlimit old, low;
    int fd = sealed("file");
    const int fds[] = {fd, fd, fd};
    send_fds(l, "abc", fds, 3);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = (struct rlimit){(rlim_t)dup(fd) + 2, old.rlim_max};
    close((int)low.rlim_cur - 2);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    ssize_t n = receive(l, 64);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    close(fd);
    assert_int_equal(n, 3);
    wait_for_fds(l->fds);
    assert_int_equal(l->files.n, 3);
    assert_int_equal(give_none(l, 3, 0), -EBADF);
    assert_string_equal(error_text(-EBADF), "fds: hobd has no room for descriptor 2; try again");
    assert_int_equal(l->files.n, 0);
    send_file(l, "def", "file"); /* the connection continues */
    assert_int_equal(receive(l, 64), 3);
    struct proto_request r = request(1);
    assert_int_equal(conn_files_give(&l->files, &r, 0, 0), 0);
    expect_file(&r, 0, "file");
}

/* Messages A and B came with three descriptors, of which one arrived; that of the next message is no other's. */
static void lost_descriptors_are_of_all_messages_that_came_with_them(void **state)
{
    struct link *l = *state;
    l->files.received = 10;
    l->files.list = calloc(4, sizeof(*l->files.list));
    assert_non_null(l->files.list);
    l->files.cap = 4;
    l->files.n = 1;
    l->files.list[0] = (struct passed){.error = -EBADF, .until = 10, .lost = true};
    send_file(l, "abc", "of the next message");
    assert_int_equal(receive(l, 64), 3);
    struct proto_request a = {.type = PROTO_STATUS, .id = 6, .n_fds = 1}, b = a, c = request(1);
    assert_int_equal(conn_files_give(&l->files, &a, 0, 8), -EBADF);
    assert_int_equal(conn_files_give(&l->files, &b, 0, 3), -EBADF);
    assert_int_equal(conn_files_give(&l->files, &c, 0, 0), 0);
    expect_file(&c, 0, "of the next message");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_come_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(a_message_in_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(fewer_than_announced, setup, teardown),
        cmocka_unit_test_setup_teardown(those_of_no_message_are_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refused_message_drops_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(other_descriptors_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many_end_the_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(no_room_for_descriptors, setup, teardown),
        cmocka_unit_test_setup_teardown(lost_descriptors_are_of_all_messages_that_came_with_them, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
