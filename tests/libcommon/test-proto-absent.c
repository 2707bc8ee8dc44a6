/* SPDX-License-Identifier: MIT */
/* The keys of messages in which nothing is set that can be left out: a value that is absent has no key. */
#include "libcommon/frame.h"
#include "libcommon/proto-embed.h"
#include "libcommon/proto.h"
#include "tests/libcommon/check.h"
#include <errno.h>
#include <msgpack.h>
#include <string.h>

enum { HEADER = 4 };

/* The keys of a map in order, with those of maps in it and in lists in it. */
static void list_keys(struct buf *out, const msgpack_object *o)
{
    if (o->type == MSGPACK_OBJECT_ARRAY) {
        for (uint32_t i = 0; i < o->via.array.size; i++) {
            if (i) assert_int_equal(buf_puts(out, ", "), 0);
            list_keys(out, &o->via.array.ptr[i]);
        }
        return;
    }
    assert_int_equal(o->type, MSGPACK_OBJECT_MAP);
    for (uint32_t i = 0; i < o->via.map.size; i++) {
        const msgpack_object_kv *kv = &o->via.map.ptr[i];
        assert_int_equal(kv->key.type, MSGPACK_OBJECT_STR);
        assert_int_equal(buf_printf(out, "%s%.*s", i ? " " : "", (int)kv->key.via.str.size, kv->key.via.str.ptr), 0);
        if (kv->val.type != MSGPACK_OBJECT_MAP && (kv->val.type != MSGPACK_OBJECT_ARRAY || kv->val.via.array.size == 0))
            continue;
        assert_int_equal(buf_puts(out, "{"), 0);
        list_keys(out, &kv->val);
        assert_int_equal(buf_puts(out, "}"), 0);
    }
}

static void assert_keys(const struct buf *message, const char *want)
{
    struct buf have = BUF_INIT;
    msgpack_unpacked u;
    msgpack_unpacked_init(&u);
    assert_int_equal(msgpack_unpack_next(&u, message->data + HEADER, message->len - HEADER, NULL),
                     MSGPACK_UNPACK_SUCCESS);
    list_keys(&have, &u.data);
    assert_string_equal(have.data, want);
    msgpack_unpacked_destroy(&u);
    buf_fini(&have);
}

static void events(void **state)
{
    static const char *const keys[] = {
        [PROTO_EV_QUEUED] = "event id position",
        [PROTO_EV_PREFILL] = "event id done total cached",
        [PROTO_EV_TEXT] = "event id index channel text",
        [PROTO_EV_DONE] = "event id index reason usage{prompt cached completion} "
                          "timings{queue_ms prefill_ms decode_ms ttft_ms}",
        [PROTO_EV_ERROR] = "event id code message",
        [PROTO_EV_TOKENS] = "event id ids",
        [PROTO_EV_STATUS] = "event id status",
        [PROTO_EV_STOPPING] = "event id",
        [PROTO_EV_SESSIONS] = "event id sessions",
        [PROTO_EV_OK] = "event id",
        [PROTO_EV_TOOL_CALL] = "event id index call arguments",
        [PROTO_EV_WARNING] = "event id message",
        [PROTO_EV_DETOKENIZED] = "event id text",
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        struct proto_event e = {.type = (enum proto_event_type)i, .id = 1, .miss_at = -1, .seed = -1};
        struct buf b = BUF_INIT;
        if (!keys[i]) continue;
        assert_int_equal(proto_write_event(&b, &e), 0);
        assert_keys(&b, keys[i]);
        buf_fini(&b);
    }
}

/* What is set has its key: of an answer that is not the first, and of images of which one was cached. */
static void set(void **state)
{
    struct proto_media_usage media[] = {{.kind = PROTO_MEDIA_IMAGE, .cached = true}, {.kind = PROTO_MEDIA_SOUND}};
    const struct proto_event e[] = {
        {.type = PROTO_EV_ERROR, .id = 1, .index = 1, .more = true},
        {.type = PROTO_EV_WARNING, .id = 1, .index = 1},
        {.type = PROTO_EV_DONE, .id = 1, .media = media, .n_media = 2, .miss_at = -1, .seed = -1},
    };
    static const char *const keys[] = {
        "event id index more code message",
        "event id index message",
        "event id index reason usage{prompt cached completion media_encoded media_cached} "
        "timings{queue_ms prefill_ms decode_ms ttft_ms} media{kind tokens cached, kind tokens encode_ms}",
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        struct buf b = BUF_INIT;
        assert_int_equal(proto_write_event(&b, &e[i]), 0);
        assert_keys(&b, keys[i]);
        buf_fini(&b);
    }
}

/* The options of a schema go with a schema, and with nothing else. */
static void options_of_a_schema(void **state)
{
    for (int i = 0; i < 6; i++) {
        struct proto_request r = {.type = PROTO_GENERATE, .id = 1}, read;
        struct buf b = BUF_INIT;
        proto_generate_init(&r.gen);
        r.gen.raw = true;
        r.gen.prompt = r.constraint.text = (struct proto_text){(char *)(uintptr_t) "{}", 2};
        r.constraint.type = i < 3 ? PROTO_CONSTRAINT_SCHEMA : PROTO_CONSTRAINT_GRAMMAR;
        r.constraint.schema_lenient = i % 3 == 0;
        r.constraint.any_order = i % 3 == 1;
        r.constraint.compact = i % 3 == 2;
        assert_int_equal(proto_write_request(&b, &r), 0);
        assert_int_equal(proto_read_request(&read, b.data + HEADER, b.len - HEADER), i < 3 ? 0 : -EINVAL);
        if (i < 3) {
            assert_int_equal(read.constraint.schema_lenient, i == 0);
            assert_int_equal(read.constraint.any_order, i == 1);
            assert_int_equal(read.constraint.compact, i == 2);
            proto_request_fini(&read);
        }
        buf_fini(&b);
    }
}

static void requests(void **state)
{
    static const char *const keys[] = {
        [PROTO_GENERATE] = "type id messages",
        [PROTO_CANCEL] = "type id",
        [PROTO_TOKENIZE] = "type id text",
        [PROTO_DETOKENIZE] = "type id ids",
        [PROTO_STATUS] = "type id",
        [PROTO_STOP] = "type id",
        [PROTO_WARM] = "type id messages",
        [PROTO_INFILL] = "type id prefix suffix",
        [PROTO_SESSION_LIST] = "type id",
        [PROTO_SESSION_SHOW] = "type id name",
        [PROTO_SESSION_FORK] = "type id name to",
        [PROTO_SESSION_RENAME] = "type id name to",
        [PROTO_SESSION_REMOVE] = "type id name",
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        struct proto_request r = {.type = (enum proto_type)i, .id = 1};
        struct buf b = BUF_INIT;
        if (!keys[i]) continue;
        proto_generate_init(&r.gen);
        r.gen.n = 1; /* one answer, as without the key */
        assert_int_equal(proto_write_request(&b, &r), 0);
        assert_keys(&b, keys[i]);
        buf_fini(&b);
    }
}

/* Values of requests of other types are left out. */
static void other_types(void **state)
{
    static const char *const keys[] = {
        [PROTO_STATUS] = "type id",
        [PROTO_SESSION_SHOW] = "type id name",
        [PROTO_SESSION_LIST] = "type id after limit",
    };
    int32_t id = 5;
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        struct proto_request r = {.type = (enum proto_type)i, .id = 1, .limit = 3, .n_ids = 1, .ids = &id};
        struct buf b = BUF_INIT;
        if (!keys[i]) continue;
        proto_generate_init(&r.gen);
        r.after = r.name = r.to = r.text = (struct proto_text){(char *)(uintptr_t) "x", 1};
        assert_int_equal(proto_write_request(&b, &r), 0);
        assert_keys(&b, keys[i]);
        buf_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(events), cmocka_unit_test(set),
                                       cmocka_unit_test(options_of_a_schema), cmocka_unit_test(requests),
                                       cmocka_unit_test(other_types)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
