/* SPDX-License-Identifier: MIT */
/* Names of values on the wire, both ways: the exact words, and what numbers and words give that nobody knows. */
#include "libcommon/proto-embed.h"
#include "libcommon/proto.h"
#include "tests/libcommon/check.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const near[] = {"", " ", "x", "auto ", "aut", "EBUS", "EBUSYY", "Image", "offf", "non", "batch\n"};

/* @words are the names of 1, 2, …; 0 has none, nor have the numbers beside them. */
#define CHECK(type, name, value, ...)                                                                                  \
    do {                                                                                                               \
        static const char *const words[] = {__VA_ARGS__};                                                              \
        const int n = (int)(sizeof(words) / sizeof(*words));                                                           \
        for (int i = 0; i < n; i++) {                                                                                  \
            assert_string_equal(name((type)(i + 1)), words[i]);                                                        \
            assert_int_equal(value(words[i]), i + 1);                                                                  \
        }                                                                                                              \
        assert_string_equal(name((type)0), "");                                                                        \
        assert_string_equal(name((type)(n + 1)), "");                                                                  \
        assert_string_equal(name((type)-1), "");                                                                       \
        for (size_t i = 0; i < sizeof(near) / sizeof(*near); i++) assert_int_equal(value(near[i]), 0);                 \
    } while (0)

static void names(void **state)
{
    CHECK(enum proto_context, proto_context_name, proto_context_value, "refuse", "shift", "rotate");
    CHECK(enum proto_priority, proto_priority_name, proto_priority_value, "infill", "interactive", "batch");
    CHECK(enum proto_speculate, proto_speculate_name, proto_speculate_value, "auto", "off", "lookup", "draft");
    CHECK(enum proto_constraint_type, proto_constraint_name, proto_constraint_value, "schema", "grammar", "regex",
          "choice");
    CHECK(enum proto_on_limit, proto_on_limit_name, proto_on_limit_value, "close", "cut");
    CHECK(enum proto_tool_choice, proto_tool_choice_name, proto_tool_choice_value, "auto", "none", "required", "named");
    CHECK(enum proto_thinking_mode, proto_thinking_name, proto_thinking_value, "on", "off");
    CHECK(enum proto_pooling, proto_pooling_name, proto_pooling_value, "mean", "cls", "last");
}

static void media(void **state)
{
    assert_string_equal(proto_media_name(PROTO_MEDIA_IMAGE), "image");
    assert_string_equal(proto_media_name(PROTO_MEDIA_SOUND), "audio");
    assert_int_equal(proto_media_value("image"), PROTO_MEDIA_IMAGE);
    assert_int_equal(proto_media_value("audio"), PROTO_MEDIA_SOUND);
    for (size_t i = 0; i < sizeof(near) / sizeof(*near); i++) assert_int_equal(proto_media_value(near[i]), 0);
}

/* The first of several. */
static void features(void **state)
{
    static const char *const words[] = {"constraint", "thinking", "tools", "media", "embed"};
    for (unsigned i = 0; i < 5; i++) {
        assert_string_equal(proto_feature_name(1u << i), words[i]);
        assert_string_equal(proto_feature_name(31u & ~((1u << i) - 1)), words[i]);
    }
    assert_string_equal(proto_feature_name(0), "");
    assert_string_equal(proto_feature_name(1u << 5), "");
}

static void errors(void **state)
{
    static const struct {
        int code;
        const char *name;
    } known[] = {{EINVAL, "EINVAL"}, {EBUSY, "EBUSY"}, {ENOENT, "ENOENT"}, {EDQUOT, "EDQUOT"}, {EFBIG, "EFBIG"}};
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        assert_string_equal(proto_errno_name(known[i].code), known[i].name);
        assert_int_equal(proto_errno_value(known[i].name), known[i].code);
    }
    assert_string_equal(proto_errno_name(0), "EIO");
    assert_string_equal(proto_errno_name(ENOTTY), "EIO");
    for (size_t i = 0; i < sizeof(near) / sizeof(*near); i++) assert_int_equal(proto_errno_value(near[i]), EIO);
}

static void channels(void **state)
{
    const struct proto_event none = {0}, answer = {.channel = "answer"}, other = {.channel = "answers"};
    assert_true(proto_is_answer(&none));
    assert_true(proto_is_answer(&answer));
    assert_false(proto_is_answer(&other));
}

#define TEXT(n)                                                                                                        \
    {                                                                                                                  \
        NULL, n                                                                                                        \
    }

/* Every text counts, and a file beside them. */
static void sizes(void **state)
{
    struct proto_call calls[2] = {{TEXT(1), TEXT(2), TEXT(4)}, {TEXT(8), TEXT(16), TEXT(32)}};
    struct proto_media image[2] = {{.kind = PROTO_MEDIA_IMAGE}, {.kind = PROTO_MEDIA_IMAGE}};
    struct proto_message m = {TEXT(64)};
    char *file = calloc(1, 1000);
    m.role.len = 64, m.content.len = 128, m.thinking.len = 256, m.call_id.len = 512, m.name.len = 1024;
    m.calls = calls, m.n_calls = 2;
    assert_int_equal(proto_message_text(&m), 2047);
    assert_int_equal(blob_take(&image[0].file, file, 1000), 0);
    image[1].file = image[0].file;
    m.media = image, m.n_media = 2;
    assert_int_equal(proto_message_text(&m), 2047);
    assert_int_equal(proto_message_bytes(&m), 4047);
    blob_unref(image[0].file);
}

/* The result of a tool may be empty, and a message with a call or an image is not. */
static void empty(void **state)
{
    char tool[] = "tool", toll[] = "toll", tools[] = "tools";
    struct proto_message m = {.role = {tool, 4}};
    assert_false(proto_message_empty(&m));
    m.role.data = toll;
    assert_true(proto_message_empty(&m));
    m.role = (struct proto_text){tools, 5};
    assert_true(proto_message_empty(&m));
    m.content.len = 1;
    assert_false(proto_message_empty(&m));
    m.content.len = 0, m.n_calls = 1;
    assert_false(proto_message_empty(&m));
    m.n_calls = 0, m.n_media = 1;
    assert_false(proto_message_empty(&m));
}

static void encoded(void **state)
{
    struct proto_media_usage media[3] = {{.cached = true}, {.cached = false}, {.cached = true}};
    const struct proto_event e = {.media = media, .n_media = 3};
    assert_int_equal(proto_media_encoded(&e), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),    cmocka_unit_test(media), cmocka_unit_test(features), cmocka_unit_test(errors),
        cmocka_unit_test(channels), cmocka_unit_test(sizes), cmocka_unit_test(empty),    cmocka_unit_test(encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
