/* SPDX-License-Identifier: MIT */
/* Messages at the limits of what is written, and memory that msgpack-c lacks. */
#include "libcommon/error.h"
#include "libcommon/frame.h"
#include "libcommon/proto-embed.h"
#include "libcommon/proto-read.h"
#include "tests/libcommon/check.h"
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* A warning with a text of @n bytes, behind what the buffer has. */
static int write_text(struct buf *out, const char *text, size_t n)
{
    const struct proto_event e = {.type = PROTO_EV_WARNING, .id = 1, .message = {(char *)text, n}};
    return proto_write_event(out, &e);
}

/* A body has at most FRAME_MAX bytes. A message that is not written leaves what was there before, with its end. */
static void the_largest_message(void **state)
{
    struct buf out = BUF_INIT;
    char *text = malloc(FRAME_MAX);
    assert_non_null(text);
    memset(text, 'x', FRAME_MAX);
    assert_int_equal(write_text(&out, text, 1 << 20), 0);
    const size_t rest = out.len - 4 - (1 << 20);
    buf_clear(&out);
    assert_int_equal(buf_puts(&out, "kept"), 0);
    assert_int_equal(write_text(&out, text, FRAME_MAX - rest + 1), -EMSGSIZE);
    assert_int_equal(out.len, 4);
    assert_string_equal(out.data, "kept");
    assert_int_equal(write_text(&out, text, FRAME_MAX - rest), 0);
    assert_int_equal(out.len, 4 + 4 + FRAME_MAX);
    buf_fini(&out);
    free(text);
}

/* The limit of elements counts more than the message may have, but always the same: 128, and those of lists. */
static void the_most_elements(void **state)
{
    static int32_t ids[PROTO_ELEMS_MAX];
    struct proto_media file = {.kind = PROTO_MEDIA_IMAGE};
    struct proto_message message = {.role = {"user", 4}, .media = &file, .n_media = 1};
    struct proto_request r = {.type = PROTO_GENERATE, .id = 1, .ids = ids};
    assert_int_equal(blob_new(&file.file, "x", 1), 0);
    proto_generate_init(&r.gen);
    r.gen.messages = &message;
    r.gen.n_messages = 1;
    for (size_t more = 0; more < 2; more++) {
        struct buf out = BUF_INIT;
        r.n_ids = PROTO_ELEMS_MAX - 128 - 5 - 10 - 6 + more; /* a message, a file, its parts */
        assert_int_equal(proto_write_request(&out, &r), more ? -EMSGSIZE : 0);
        buf_fini(&out);
    }
    blob_unref(file.file);
}

/* Values are written in pieces of 256. */
static void many_values(void **state)
{
    float values[3 * 256 + 2];
    uint32_t tokens[2] = {1, 2};
    enum { N = sizeof(values) / sizeof(*values) };
    struct proto_event read, e = {.type = PROTO_EV_EMBEDDINGS, .id = 1};
    struct buf out = BUF_INIT;
    for (int i = 0; i < N; i++) values[i] = (float)i / 3;
    e.vectors = (struct proto_vectors){.n = 2, .dim = N / 2, .values = values, .tokens = tokens};
    assert_int_equal(proto_write_event(&out, &e), 0);
    assert_int_equal(proto_read_event(&read, out.data + 4, out.len - 4), 0);
    assert_int_equal(read.vectors.n, 2);
    assert_int_equal(read.vectors.dim, N / 2);
    assert_memory_equal(read.vectors.values, values, sizeof(values));
    proto_event_fini(&read);
    buf_fini(&out);
}

/* Up to 40 bytes of a text are printed, whole if it has no more. */
static void printable_bytes(void **state)
{
    char out[64], *s = malloc(40), *longer = malloc(41), want[64];
    assert_true(s && longer);
    memset(s, 'a', 40);
    memset(longer, 'a', 41);
    memset(want, 'a', 40);
    strcpy(want + 40, "");
    assert_string_equal(proto_printable(out, s, 40), want);
    s[39] = (char)0xc3;
    want[39] = '?';
    assert_string_equal(proto_printable(out, s, 40), want);
    strcpy(want + 40, "…");
    want[39] = 'a';
    assert_string_equal(proto_printable(out, longer, 41), want);
    free(s);
    free(longer);
}

/* The elements of a message need more memory than the process may have. */
static void elements_without_memory(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* its own memory has no limit */
#endif
    enum { N = 50000 };
    static char body[64 + N] = "\x82\xa4type\xa4stop\xa1x\xdd\x00\x00\xc3\x50";
    struct proto_request r;
    struct rlimit old, none;
    const size_t head = 18;
    memset(body + head, 0xc0, N);
    mallopt(M_MMAP_THRESHOLD, 1 << 16);
    malloc_trim(0);
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    none = (struct rlimit){0, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    int result = proto_read_request(&r, body, head + N);
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_int_equal(result, -ENOMEM);
    assert_int_equal(proto_read_request(&r, body, head + N), -EINVAL); /* no such key, and no id */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_message), cmocka_unit_test(the_most_elements),       cmocka_unit_test(many_values),
        cmocka_unit_test(printable_bytes),     cmocka_unit_test(elements_without_memory),
    };
    return cmocka_run_group_tests_name("proto-write", tests, NULL, NULL);
}
