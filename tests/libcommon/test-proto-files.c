/* SPDX-License-Identifier: MIT */
/* Files of requests that go by descriptors (proto-files.c, and the parts of messages that name them). */
#include "libcommon/error.h"
#include "libcommon/proto.h"
#include "tests/libcommon/check.h"
#include "tests/libcommon/pack.h"
#include "tests/support/calls.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SMALL = 64 << 10, LARGE = SMALL + 1 };

static void add(struct proto_message *m, size_t bytes, int fill)
{
    char *p = malloc(bytes);
    assert_non_null(p);
    memset(p, fill, bytes);
    m->media = realloc(m->media, (m->n_media + 1) * sizeof *m->media);
    assert_non_null(m->media);
    m->media[m->n_media] = (struct proto_media){.kind = PROTO_MEDIA_IMAGE, .at = m->content.len};
    assert_int_equal(blob_take(&m->media[m->n_media++].file, p, bytes), 0);
}

/* A generate with two messages, whose files have the sizes LARGE; SMALL, LARGE + 1. */
static void init(struct proto_request *r)
{
    *r = (struct proto_request){.type = PROTO_GENERATE, .id = 9};
    proto_generate_init(&r->gen);
    r->gen.n_messages = 2;
    r->gen.messages = calloc(2, sizeof *r->gen.messages);
    assert_non_null(r->gen.messages);
    for (int i = 0; i < 2; i++) {
        struct proto_message *m = &r->gen.messages[i];
        assert_int_equal(proto_text_set(&m->role, "user", 4), 0);
        assert_int_equal(proto_text_set(&m->content, "see:", 4), 0);
        add(m, i ? SMALL : LARGE, 'a' + i);
    }
    add(&r->gen.messages[1], LARGE + 1, 'c');
}

static void large_files_go_by_descriptors(void **state)
{
    struct proto_request r, read;
    struct proto_fds fds;
    struct blob *files[2];
    struct buf out = BUF_INIT;
    init(&r);
    assert_int_equal(proto_write_request_fds(&out, &fds, &r), 0);
    assert_int_equal(fds.n, 2);
    assert_true(out.len > SMALL && out.len < LARGE + 1000);
    assert_int_equal(proto_read_request(&read, out.data + 4, out.len - 4), 0);
    assert_int_equal(read.n_fds, 2);
    for (int i = 0; i < 2; i++) assert_int_equal(blob_map(&files[i], fds.fds[i], LARGE + 1), 0);
    const size_t before = read.bytes;
    proto_set_files(&read, files);
    assert_int_equal(read.bytes, before + LARGE + LARGE + 1);
    for (int i = 0; i < 2; i++) blob_unref(files[i]);
    for (size_t i = 0; i < 2; i++) {
        const struct proto_message *a = &r.gen.messages[i], *b = &read.gen.messages[i];
        assert_int_equal(a->n_media, b->n_media);
        for (size_t k = 0; k < a->n_media; k++) {
            assert_int_equal(blob_size(a->media[k].file), blob_size(b->media[k].file));
            assert_memory_equal(blob_data(a->media[k].file), blob_data(b->media[k].file), blob_size(a->media[k].file));
            assert_int_equal(b->media[k].at, 4);
        }
    }
    proto_request_fini(&read);
    proto_fds_fini(&fds);
    assert_int_equal(fds.n, 0);
    buf_clear(&out);
    assert_int_equal(proto_write_request(&out, &r), 0); /* for a peer that descriptors do not reach */
    assert_int_equal(proto_read_request(&read, out.data + 4, out.len - 4), 0);
    assert_int_equal(read.n_fds, 0);
    assert_int_equal(blob_size(read.gen.messages[1].media[1].file), LARGE + 1);
    proto_request_fini(&read);
    proto_request_fini(&r);
    buf_fini(&out);
}

/* A file that cannot be written whole gets no descriptor, and none is left open. */
static void writing_a_file_fails(void **state)
{
    static const int errors[] = {EINTR, EIO, ENOSPC, 0};
    struct proto_request r;
    struct proto_fds fds;
    const int next = dup(STDERR_FILENO);
    close(next);
    init(&r);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct buf out = BUF_INIT;
        calls_short(1000);
        calls_stale(EINTR);
        calls_fail(CALL_WRITE, 3, errors[i]);
        assert_int_equal(proto_write_request_fds(&out, &fds, &r), 0);
        assert_true(calls_end());
        assert_int_equal(fds.n, errors[i] == EINTR ? 2 : 0);
        struct proto_request read;
        assert_int_equal(proto_read_request(&read, out.data + 4, out.len - 4), 0);
        assert_int_equal(read.n_fds, fds.n);
        for (size_t k = 0; k < fds.n; k++) {
            struct blob *file;
            assert_int_equal(blob_map(&file, fds.fds[k], LARGE + 1), 0);
            assert_int_equal(blob_size(file), LARGE + k);
            for (size_t at = 0; at < LARGE + k; at++)
                assert_true(((const char *)blob_data(file))[at] == (k ? 'c' : 'a'));
            blob_unref(file);
        }
        proto_request_fini(&read);
        proto_fds_fini(&fds);
        buf_fini(&out);
        const int now = dup(STDERR_FILENO);
        assert_int_equal(now, next);
        close(now);
    }
    proto_request_fini(&r);
}

/* Linux before 6.3 does not know one of the flags. What else fails is not tried again, and nothing is written then. */
static void making_a_file_fails(void **state)
{
    static const int errors[] = {0, EINVAL, ENOMEM};
    struct proto_request r;
    struct proto_fds fds;
    init(&r);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct buf out = BUF_INIT;
        calls_stale(EINVAL);
        calls_fail(CALL_MEMFD, errors[i] ? 0 : 99, errors[i]);
        assert_int_equal(proto_write_request_fds(&out, &fds, &r), 0);
        assert_int_equal(calls_count(CALL_MEMFD), errors[i] == ENOMEM ? 1 : errors[i] == EINVAL ? 3 : 2);
        assert_int_equal(calls_count(CALL_WRITE), errors[i] == ENOMEM ? 0 : 2);
        calls_end();
        assert_int_equal(fds.n, errors[i] == ENOMEM ? 0 : 2);
        proto_fds_fini(&fds);
        buf_fini(&out);
    }
    proto_request_fini(&r);
}

/* The process may have no more descriptors. */
static void files_without_a_descriptor_are_written(void **state)
{
    struct proto_request r, read;
    struct proto_fds fds;
    struct blob *file;
    struct buf out = BUF_INIT;
    struct rlimit old, low;
    const int next = dup(STDERR_FILENO);
    assert_true(next >= 0);
    close(next);
    init(&r);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = (struct rlimit){(rlim_t)next + 1, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    int result = proto_write_request_fds(&out, &fds, &r);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(result, 0);
    assert_int_equal(fds.n, 1);
    assert_int_equal(proto_read_request(&read, out.data + 4, out.len - 4), 0);
    assert_int_equal(read.n_fds, 1);
    assert_int_equal(blob_map(&file, fds.fds[0], LARGE), 0);
    proto_set_files(&read, &file);
    blob_unref(file);
    assert_int_equal(blob_size(read.gen.messages[0].media[0].file), LARGE);
    assert_int_equal(blob_size(read.gen.messages[1].media[1].file), LARGE + 1);
    proto_request_fini(&read);
    proto_request_fini(&r);
    proto_fds_fini(&fds);
    buf_fini(&out);
}

/* A request has at most PROTO_MEDIA_MAX descriptors, and none when it cannot be written. */
static void too_many_files(void **state)
{
    struct proto_request r;
    struct proto_fds fds;
    struct buf out = BUF_INIT;
    init(&r);
    struct proto_message *m = &r.gen.messages[1];
    struct proto_media one = m->media[1];
    const size_t many = PROTO_MEDIA_MAX + 2;
    m->media = realloc(m->media, many * sizeof *m->media);
    assert_non_null(m->media);
    for (; m->n_media < many; m->n_media++) {
        m->media[m->n_media] = one;
        blob_ref(one.file);
    }
    assert_int_equal(proto_write_request_fds(&out, &fds, &r), 0);
    assert_int_equal(fds.n, PROTO_MEDIA_MAX);
    for (size_t i = 0; i < fds.n; i++) assert_true(fds.fds[i] > 2);
    const size_t len = out.len;
    proto_fds_fini(&fds);
    r.n_ids = PROTO_ELEMS_MAX; /* more elements than a message may have */
    assert_int_equal(proto_write_request_fds(&out, &fds, &r), -EMSGSIZE);
    assert_int_equal(fds.n, 0);
    assert_int_equal(out.len, len);
    r.n_ids = 0;
    proto_request_fini(&r);
    buf_fini(&out);
}

static void refuse(const char *text, uint32_t n_fds, const char *message)
{
    struct proto_request r;
    struct buf body = BUF_INIT;
    pack(&body, text);
    assert_int_equal(proto_read_request(&r, body.data, body.len), -EINVAL);
    if (!strstr(error_text(-EINVAL), message)) fail_msg("%s", error_text(-EINVAL));
    assert_int_equal(r.n_fds, n_fds);
    buf_fini(&body);
}

/* The number of descriptors is known also if the message is refused, so that they are dropped with it. */
static void refused_messages_tell_their_descriptors(void **state)
{
    refuse("{'type': 'generate', 'id': 1, 'fds': 3, 'messages': [{'role': 'user', 'content': [{'type': 'image', 'fd': "
           "3}]}]}",
           3, "messages[0].content[0].fd: must be less than the number of descriptors, which is 'fds', 3");
    refuse("{'type': 'generate', 'id': 1, 'fds': 1, 'messages': [{'role': 'user', 'content': [{'type': 'image', 'fd': "
           "0, 'data': b'x'}]}]}",
           1, "messages[0].content[0]: needs either 'data' or 'fd'");
    refuse("{'type': 'generate', 'id': 1, 'fds': 1, 'messages': [{'role': 'user', 'content': [{'type': 'image', 'fd': "
           "0}, {'type': 'audio', 'fd': 0}]}]}",
           1, "messages[0].content[1].fd: two parts name descriptor 0");
    refuse("{'type': 'generate', 'id': 1, 'fds': 2, 'messages': [{'role': 'user', 'content': [{'type': 'image', 'fd': "
           "0}]}]}",
           2, "fds: no part names descriptor 1");
    refuse("{'type': 'warm', 'id': 1, 'fds': 1, 'prompt': 'x', 'raw': true}", 1, "fds: no part names descriptor 0");
    refuse("{'type': 'infill', 'id': 1, 'fds': 1, 'prefix': 'x'}", 1, "'fds' cannot be used with infill");
    refuse("{'type': 'status', 'id': 1, 'fds': 2}", 2, "status: unknown key 'fds'");
    refuse("{'type': 'nonsense', 'id': 1, 'fds': 128}", 128, "unknown type 'nonsense'");
    refuse("{'type': 'status', 'id': 1, 'fds': 129}", 0, "status: unknown key 'fds'");
    refuse("{'type': 'generate', 'id': 1, 'fds': -1, 'prompt': 'x', 'raw': true}", 0, "fds: must be a whole number");
}

static void too_many_are_refused(void **state)
{
    struct buf text = BUF_INIT;
    assert_int_equal(buf_puts(&text, "{'type': 'generate', 'id': 1, 'messages': [{'role': 'user', 'content': ["), 0);
    for (int i = 0; i < 64; i++) assert_int_equal(buf_puts(&text, "{'type': 'image', 'data': b'x'},"), 0);
    assert_int_equal(buf_puts(&text, "{'type': 'text', 'text': 'x'}]}, {'role': 'user', 'content': ["), 0);
    for (int i = 0; i < 65; i++)
        assert_int_equal(buf_puts(&text, i ? ",{'type': 'image', 'data': b'x'}" : "{'type': 'image', 'data': b'x'}"),
                         0);
    assert_int_equal(buf_puts(&text, "]}]}"), 0);
    refuse(text.data, 0, "messages[1].content[64]: the request has more than 128 images and sounds");
    buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_files_go_by_descriptors),
        cmocka_unit_test(writing_a_file_fails),
        cmocka_unit_test(making_a_file_fails),
        cmocka_unit_test(too_many_files),
        cmocka_unit_test(files_without_a_descriptor_are_written),
        cmocka_unit_test(refused_messages_tell_their_descriptors),
        cmocka_unit_test(too_many_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
