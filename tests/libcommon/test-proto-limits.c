/* SPDX-License-Identifier: MIT */
/* Types and lengths of values that the tables of test-proto-refuse.c do not reach: each check is the only one that
 * keeps its reader from another type's bytes, or from more elements than the limit. */
#include "libcommon/error.h"
#include "libcommon/proto-embed.h"
#include "libcommon/proto.h"
#include "tests/libcommon/check.h"
#include "tests/libcommon/pack.h"
#include <stdio.h>
#include <string.h>

static int read_text(const char *text, bool event)
{
    struct buf b = BUF_INIT;
    struct proto_request r;
    struct proto_event e;
    pack(&b, text);
    int result = event ? proto_read_event(&e, b.data, b.len) : proto_read_request(&r, b.data, b.len);
    if (result == 0 && event) proto_event_fini(&e);
    if (result == 0 && !event) proto_request_fini(&r);
    buf_fini(&b);
    return result;
}

static void refuse(const char *text, bool event, const char *words)
{
    int r = read_text(text, event);
    if (r >= 0) fail_msg("%s is accepted", text);
    if (!strstr(error_text(r), words)) fail_msg("%s: %s", text, error_text(r));
}

static void events(void **state)
{
    static const char *const wrong[][2] = {
        {"{'event': 'hello', 'version': 1, 'software': 'x', 'features': 5}", "features: must be a list of strings"},
        {"{'event': 'hello', 'version': 1, 'software': 'x', 'features': [5]}", "features: must be a list of strings"},
        {"{'event': 'text', 'id': 1, 'text': 'x', 'ids': 'x'}", "ids: must be a list of numbers"},
        {"{'event': 'text', 'id': 1, 'text': 'x', 'logprobs': true}", "logprobs: must be a list of numbers"},
        {"{'event': 'text', 'id': 1, 'text': 'x', 'top': 'x'}", "top: must be a list of at most 21 tokens"},
        {"{'event': 'text', 'id': 1, 'text': 'x', 'top': [1]}", "must be a list of three"},
        {"{'event': 'text', 'id': 1, 'text': 'x', 'top': [[true, 0.5, b'x']]}", "must begin with a token id"},
        {"{'event': 'text', 'id': 1, 'text': 'x', 'top': [[2147483648, 0.5, b'x']]}", "must begin with a token id"},
        {"{'event': 'text', 'id': 1, 'text': 'x', 'top': [[1, 0.5, 'x']]}", "must end with bytes"},
        {"{'event': 'text', 'id': 1, 'text': 'x', 'top': [[1, 'x', b'x']]}", "must be"},
        {"{'event': 'embeddings', 'id': 1, 'tokens': [true], 'vectors': b'abcd'}",
         "element 0 is not a number of tokens"},
        {"{'event': 'embeddings', 'id': 1, 'tokens': [1, 4294967296], 'vectors': b'abcdefgh'}",
         "element 1 is not a number"},
        {"{'event': 'embeddings', 'id': 1, 'tokens': [1], 'cached': 2, 'vectors': b'abcd'}",
         "more texts than a request has"},
        {"{'event': 'embeddings', 'id': 1, 'tokens': [1], 'first': 16384, 'vectors': b'abcd'}",
         "more texts than a request"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) refuse(wrong[i][0], true, wrong[i][1]);
    assert_int_equal(read_text("{'event': 'embeddings', 'id': 1, 'tokens': [1], 'cached': 1, 'first': 16383, "
                               "'vectors': b'abcd'}",
                               true),
                     0);
}

static void requests(void **state)
{
    static const char *const wrong[][2] = {
        {"{'type': 'detokenize', 'id': 1, 'ids': [true]}", "element 0 is not a token id"},
        {"{'type': 'detokenize', 'id': 1, 'ids': [2147483648]}", "element 0 is not a token id"},
        {"{'type': 'generate', 'id': 1, 'raw': true, 'prompt': 'x', 'session': 'a\x7f'}", "control characters"},
        {"{'type': 'generate', 'id': 1, 'raw': true, 'prompt': 'x', 'timeout_ms': true}", "timeout_ms: must be"},
        {"{'type': 'generate', 'id': 1, 'raw': true, 'prompt': 'x', 'timeout_ms': false}", "timeout_ms: must be"},
        {"{'type': 'generate', 'id': 1, 'raw': true, 'prompt': 'x', 'logit_bias': [false]}", "logit_bias[0]: must be"},
        {"{'type': 'generate', 'id': 1, 'messages': [{'role': 'assistant', 'content': 'x', 'tool_calls': true}]}",
         "tool_calls: must be"},
        {"{'type': 'embed', 'id': 1, 'texts': 'x'}", "texts: must be a list of strings"},
        {"{'type': 'embed', 'id': 1, 'texts': ['x'], 'pooling': 'most'}", "pooling: must be"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) refuse(wrong[i][0], false, wrong[i][1]);
    assert_int_equal(read_text("{'type': 'detokenize', 'id': 1, 'ids': [2147483647]}", false), 0);
}

/* The names of features that a daemon has. */
static void features(void **state)
{
    static const struct {
        const char *name;
        uint32_t feature;
    } known[] = {{"constraint", PROTO_FEATURE_CONSTRAINT}, {"thinking", PROTO_FEATURE_THINKING},
                 {"tools", PROTO_FEATURE_TOOLS},           {"media", PROTO_FEATURE_MEDIA},
                 {"embed", PROTO_FEATURE_EMBED},           {"fireworks", 0}};
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        char text[128];
        struct buf b = BUF_INIT;
        struct proto_event e;
        snprintf(text, sizeof(text), "{'event': 'hello', 'version': 1, 'software': 'x', 'features': ['none', '%s']}",
                 known[i].name);
        pack(&b, text);
        assert_int_equal(proto_read_event(&e, b.data, b.len), 0);
        assert_int_equal(e.features, known[i].feature);
        proto_event_fini(&e);
        buf_fini(&b);
    }
}

/* Messages are scanned before msgpack allocates anything for them: it would believe their counts. */
static void messages_are_scanned(void **state)
{
    static const char many[] = "\x82\xa4type\xa4stop\xa1x\xdd\xff\xff\xff\xff",
                      extension[] = "\x82\xa4type\xa4stop\xa1x\xd4\1\1";
    struct proto_request r;
    char deep[64] = "\x81\xa1x";
    memset(deep + 3, 0x91, sizeof(deep) - 4);
    assert_int_equal(proto_read_request(&r, many, sizeof(many) - 1), -EBADMSG);
    assert_non_null(strstr(error_text(-EBADMSG), "a count beyond the end"));
    assert_int_equal(proto_read_request(&r, deep, sizeof(deep)), -EBADMSG);
    assert_non_null(strstr(error_text(-EBADMSG), "nested too deep"));
    assert_int_equal(proto_read_request(&r, extension, sizeof(extension) - 1), -EBADMSG);
    assert_non_null(strstr(error_text(-EBADMSG), "an extension type"));
}

/* A message with a list of @n elements @each. */
static int read_list(const char *before, const char *each, size_t n, const char *behind, bool event)
{
    struct buf b = BUF_INIT;
    assert_int_equal(buf_puts(&b, before), 0);
    for (size_t i = 0; i < n; i++) assert_int_equal(buf_printf(&b, "%s%s", i ? ", " : "", each), 0);
    assert_int_equal(buf_puts(&b, behind), 0);
    assert_int_equal(buf_append(&b, "", 1), 0);
    int r = read_text(b.data, event);
    buf_fini(&b);
    return r;
}

static void lengths(void **state)
{
    static const struct {
        const char *before, *each, *behind;
        size_t most;
        bool event;
    } lists[] = {
        {"{'type': 'embed', 'id': 1, 'texts': [", "'x'", "]}", PROTO_TEXTS_MAX, false},
        {"{'event': 'text', 'id': 1, 'text': 'x', 'ids': [1], 'top': [", "[1, 0.5, b'x']", "]}", PROTO_TOP_MAX + 1,
         true},
        {"{'type': 'generate', 'id': 1, 'messages': [{'role': 'assistant', 'content': '', 'tool_calls': [",
         "{'id': 'a', 'name': 'f', 'arguments': '{}'}", "]}]}", PROTO_CALLS_MAX, false},
    };
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        for (int more = 0; more < 2; more++) {
            int r = read_list(lists[i].before, lists[i].each, lists[i].most + (size_t)more, lists[i].behind,
                              lists[i].event);
            if ((r < 0) != more) fail_msg("list %zu with %d more: %d %s", i, more, r, r < 0 ? error_text(r) : "");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events),   cmocka_unit_test(requests),
        cmocka_unit_test(features), cmocka_unit_test(messages_are_scanned),
        cmocka_unit_test(lengths),
    };
    return cmocka_run_group_tests_name("proto-limits", tests, NULL, NULL);
}
