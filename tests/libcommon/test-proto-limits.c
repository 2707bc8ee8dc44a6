/* SPDX-License-Identifier: MIT */
/* Types and lengths of values that the tables of test-proto-refuse.c do not reach: each check is the only one that
 * keeps its reader from another type's bytes, or from more elements than the limit. */
#include "libcommon/error.h"
#include "libcommon/proto-embed.h"
#include "libcommon/proto.h"
#include "tests/libcommon/check.h"
#include "tests/libcommon/pack.h"
#include <errno.h>
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

#define ASK "{'type': 'generate', 'id': 1, 'messages': [{'role': 'user', 'content': 'x'}]"
#define RAW "{'type': 'generate', 'id': 1, 'raw': true, 'prompt': 'x'"

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
        {"{'event': 'text', 'id': 1, 'text': 'x', 'ids': [0.0]}", "element 0 is not a token id"},
        {"{'event': 'text', 'id': 1, 'text': 'x', 'ids': [2147483648]}", "element 0 is not a token id"},
        {"{'event': 'text', 'id': 1, 'text': 'x', 'top': 5}", "top: must be a list"},
        {"{'event': 'text', 'id': 1, 'text': 'x', 'top': [3]}", "must be a list of three"},
        {"{'event': 'text', 'id': 1, 'text': 'x', 'top': [{'a': 1, 'b': 2, 'c': 3}]}", "must be a list of three"},
        {"{'event': 'text', 'id': 1, 'text': 'x', 'channel': b'answer'}", "channel: must be a string"},
        {"{'event': 'hello', 'version': 1, 'software': 'x', 'features': 0}", "features: must be a list of strings"},
        {"{'event': 'error', 'id': 1, 'code': 5}", "code: must be a string"},
        {"{'event': 'done', 'id': 1, 'reason': 'stop', 'media': 5}", "media: must be a list of at most 128 maps"},
        {"{'event': 'done', 'id': 1, 'reason': 'stop', 'media': [{'kind': 5}]}", "kind: must be a string"},
        {"{'event': 'done', 'id': 1, 'reason': 'stop', 'media': [{'kind': 'smell'}]}", "kind: must be image or audio"},
        {"{'event': 'done', 'id': 1, 'reason': 'stop', 'media': [{'tokens': 5}]}", "missing key 'kind'"},
        {"{'event': 'embeddings', 'id': 1, 'tokens': 5, 'vectors': b'abcd'}", "tokens: must be a list"},
        {"{'event': 'embeddings', 'id': 1, 'tokens': {'a': 1}, 'vectors': b'abcd'}", "tokens: must be a list"},
        {"{'event': 'scores', 'id': 1, 'tokens': [1], 'scores': b'abcd', 'method': 5}", "method: must be a string"},
        {"{'event': 'text', 'id': 1, 'text': 'x', 'index': 4294967296}", "index: must be a whole number"},
        {"{'event': 'embeddings', 'id': 1, 'tokens': [true], 'vectors': b'abcd'}",
         "element 0 is not a number of tokens"},
        {"{'event': 'embeddings', 'id': 1, 'tokens': [1, 4294967296], 'vectors': b'abcdefgh'}",
         "element 1 is not a number"},
        {"{'event': 'embeddings', 'id': 1, 'tokens': [1], 'cached': 2, 'vectors': b'abcd'}",
         "more texts than a request has"},
        {"{'event': 'embeddings', 'id': 1, 'tokens': [1], 'first': 16384, 'vectors': b'abcd'}",
         "more texts than a request"},
    };
    static const char *const right[] = {
        "{'event': 'text', 'id': 1, 'text': 'x', 'ids': [2147483647], 'top': [[2147483647, 0.5, b'x']]}",
        "{'event': 'text', 'id': 1, 'text': 'x', 'ids': [], 'logprobs': [], 'top': []}",
        "{'event': 'done', 'id': 1, 'reason': 'tool_calls', 'media': []}",
        "{'event': 'done', 'id': 1, 'reason': 'stop', 'media': [{'kind': 'image'}, {'kind': 'audio'}]}",
        "{'event': 'text', 'id': 1, 'text': 'x', 'index': 4294967295}",
        "{'event': 'hello', 'version': 1, 'software': 'x', 'features': []}",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) refuse(wrong[i][0], true, wrong[i][1]);
    for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++)
        if (read_text(right[i], true) < 0) fail_msg("%s: %s", right[i], error_text(-EINVAL));
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
        {"{'type': 'detokenize', 'id': 1, 'ids': 5}", "ids: must be a list of token ids"},
        {"{'type': 'detokenize', 'id': 1, 'ids': {'a': 1}}", "ids: must be a list of token ids"},
        {"{'type': 'detokenize', 'id': 1, 'ids': [0.0]}", "element 0 is not a token id"},
        {RAW ", 'uuid': 5}", "uuid: must be 1 to 39"},
        {RAW ", 'uuid': b'abc'}", "uuid: must be 1 to 39"},
        {RAW ", 'speculate': b'draft'}", "speculate: must be"},
        {RAW ", 'fds': true}", "fds: must be a whole number"},
        {"{'type': 'hello', 'version': 1, 'features': 0}", "features: must be a list of strings"},
        {"{'type': 'hello', 'version': 1, 'features': {}}", "features: must be a list of strings"},
        {ASK ", 'tools': '[]', 'tool_choice': 'required', 'ignore_eos': true}",
         "ignore_eos cannot be used with tool_choice"},
        {ASK ", 'tools': '[]', 'tool_choice': 'named', 'tool_name': 'f', 'stop': ['x']}",
         "stop cannot be used with tool_choice"},
        {ASK ", 'thinking': 'off', 'think_budget': 5}", "think_budget cannot be used with thinking: off"},
        {"{'type': 'generate', 'id': 1, 'messages': [{'role': 'assist', 'content': 'x', 'thinking': 'y'}]}",
         "'thinking' can be used only with role assistant"},
        {RAW ", 'max_lines': 1}", "'max_lines' can be used only with infill"},
        {RAW ", 'logit_bias': [{'a': 1, 'b': 2}]}", "logit_bias[0]: must be a list of a token and a number"},
        {RAW ", 'logit_bias': {'a': 1}}", "logit_bias: must be a list"},
        {RAW ", 'constraint': {'type': 'choice', 'choices': 5}}", "choices: must be a list of one or more strings"},
        {RAW ", 'constraint': {'type': 'choice', 'choices': {'a': 'b'}}}", "choices: must be a list of one or more"},
        {RAW ", 'constraint': {'type': 'choice', 'choices': []}}", "choices: must be a list of one or more strings"},
        {RAW ", 'constraint': 5}", "constraint: must be a map"},
        {RAW ", 'speculate': 'wildly'}", "speculate: must be"},
        {"{'type': 'generate', 'id': 1, 'messages': [{'role': 'user', 'content': 5}]}", "content: must be a string or"},
        {"{'type': 'generate', 'id': 1, 'messages': [{'role': 'user', 'content': [{'type': 5}]}]}",
         "type: must be a string"},
        {"{'type': 'generate', 'id': 1, 'messages': [{'role': 'assistant', 'content': 'x', 'tool_calls': 5}]}",
         "tool_calls: must be a list of one or more calls"},
        {"{'type': 'generate', 'id': 1, 'messages': [{'role': 'assistance', 'content': 'x', 'thinking': 'y'}]}",
         "'thinking' can be used only with role assistant"},
        {"{'type': 'generate', 'id': 1, 'fds': 1, 'messages': [{'role': 'user', 'content': [{'type': 'image', "
         "'fd': 0.0}]}]}",
         "fd: must be less than the number of descriptors"},
        {"{'type': 'embed', 'id': 1, 'texts': 5}", "texts: must be a list of strings"},
        {"{'type': 'embed', 'id': 1, 'texts': ['x'], 'dims': 65537}", "dims: must be a whole number from 1 to 65536"},
        {"{'type': 'embed', 'id': 1, 'texts': ['x'], 'dims': 4294967297}", "dims: must be a whole number"},
        {"{'type': 'hello', 'version': 1, 'features': 5}", "features: must be a list of strings"},
        {"{'type': 'hello', 'version': 4294967297}", "version: must be a whole number"},
        {"{'type': 'hello', 'version': 0.0}", "version: must be a whole number"},
        {"{'type': 'embed', 'id': 1, 'texts': 'x'}", "texts: must be a list of strings"},
        {"{'type': 'embed', 'id': 1, 'texts': ['x'], 'pooling': 'most'}", "pooling: must be"},
    };
    static const char *const right[] = {
        RAW ", 'speculate': 'draft'}",
        RAW ", 'n': 1, 'session': 'a'}",
        RAW ", 'n': 2}",
        ASK ", 'thinking': 'off'}",
        ASK ", 'think_budget': 5}",
        ASK ", 'tools': '[]', 'tool_choice': 'none', 'constraint': {'type': 'regex', 'text': 'a'}}",
        ASK ", 'tools': '[]', 'stop': ['x'], 'ignore_eos': true}",
        RAW ", 'continue': true, 'detach': true}",
        RAW ", 'continue': true, 'note': 'x'}",
        RAW ", 'session': 'a', 'detach': true, 'note': 'x', 'fork': 'b'}",
        RAW ", 'logit_bias': [], 'uuid': '123456789-123456789-123456789-123456789'}",
        "{'type': 'embed', 'id': 1, 'texts': ['x'], 'pooling': 'last', 'dims': 65536}",
        "{'type': 'infill', 'id': 1, 'suffix': 'x'}",
        "{'type': 'infill', 'id': 1, 'prefix': 'x'}",
        "{'type': 'detokenize', 'id': 1, 'ids': []}",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) refuse(wrong[i][0], false, wrong[i][1]);
    for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++)
        if (read_text(right[i], false) < 0) fail_msg("%s: %s", right[i], error_text(-EINVAL));
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
        {"{'event': 'done', 'id': 1, 'reason': 'stop', 'media': [", "{'kind': 'image'}", "]}", PROTO_MEDIA_MAX, true},
        {RAW ", 'constraint': {'type': 'choice', 'choices': [", "'x'", "]}}", PROTO_CHOICES_MAX, false},
        {RAW ", 'logit_bias': [", "[1, 0.5]", "]}", PROTO_BIASES_MAX, false},
    };
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        for (int more = 0; more < 2; more++) {
            int r = read_list(lists[i].before, lists[i].each, lists[i].most + (size_t)more, lists[i].behind,
                              lists[i].event);
            if ((r < 0) != more) fail_msg("list %zu with %d more: %d %s", i, more, r, r < 0 ? error_text(r) : "");
        }
    }
}

/* As many texts with a vector as a request has, and one more. */
static void vectors(void **state)
{
    for (size_t n = PROTO_TEXTS_MAX; n <= PROTO_TEXTS_MAX + 1; n++) {
        struct buf behind = BUF_INIT;
        assert_int_equal(buf_puts(&behind, "], 'vectors': b'"), 0);
        for (size_t i = 0; i < n; i++) assert_int_equal(buf_puts(&behind, "abcd"), 0);
        assert_int_equal(buf_append(&behind, "'}", 3), 0);
        int r = read_list("{'event': 'embeddings', 'id': 1, 'tokens': [", "7", n, behind.data, true);
        buf_fini(&behind);
        assert_int_equal(r, n > PROTO_TEXTS_MAX ? -EINVAL : 0);
        if (r < 0) assert_non_null(strstr(error_text(r), "tokens: must be a list of 1 to 16384 numbers"));
    }
}

/* What an event keeps of a message that is wrong or unknown. */
static void ids_of_events(void **state)
{
    static const struct {
        const char *text;
        int r;
        uint64_t id;
    } cases[] = {
        {"{'event': 'sing', 'id': 7}", 0, 7},
        {"{'event': 'sing', 'id': 'abcdefgh'}", 0, 0},
        {"{'event': 'sing', 'id': 0.5}", 0, 0},
        {"{'event': 5, 'id': 7}", -EINVAL, 7},
        {"{'id': 7}", -EINVAL, 7},
        {"{'event': 'hello', 'version': 9, 'features': []}", -EPROTO, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct buf b = BUF_INIT;
        struct proto_event e;
        pack(&b, cases[i].text);
        assert_int_equal(proto_read_event(&e, b.data, b.len), cases[i].r);
        assert_true(e.id == cases[i].id);
        assert_int_equal(proto_read_event(&e, b.data, b.len - 1), -EBADMSG); /* cut off */
        assert_true(e.id == 0);
        if (cases[i].r == 0) proto_event_fini(&e);
        buf_fini(&b);
    }
}

static void read_method(const char *text, const char *want)
{
    struct buf b = BUF_INIT;
    struct proto_event e;
    pack(&b, text);
    assert_int_equal(proto_read_event(&e, b.data, b.len), 0);
    assert_string_equal(e.vectors.method, want);
    proto_event_fini(&e);
    buf_fini(&b);
}

static void methods(void **state)
{
    read_method("{'event': 'scores', 'id': 1, 'tokens': [1], 'scores': b'abcd', 'method': 'rank'}", "rank");
    read_method("{'event': 'scores', 'id': 1, 'tokens': [1], 'scores': b'abcd', 'method': 'cosine'}", "cosine");
    read_method("{'event': 'scores', 'id': 1, 'tokens': [1], 'scores': b'abcd', 'method': 'x'}", "other");
}

/* Bytes of a message that its error repeats. */
static void printable(void **state)
{
    char key[256], text[600];
    memset(key, 'k', sizeof(key));
    for (size_t n = 38; n <= 43; n++) {
        snprintf(text, sizeof(text), RAW ", '%.*s': 1}", (int)n, key);
        snprintf(key + 100, 100, "'%.*s%s'", n > 40 ? 40 : (int)n, key, n > 40 ? "\xe2\x80\xa6" : "");
        refuse(text, false, key + 100);
        memset(key, 'k', sizeof(key));
    }
    refuse(RAW ", 'a\x7f\x1f\x01 b~': 1}", false, "'a??? b~'");
    refuse(RAW ", 'a\xc3\xa4': 1}", false, "'a\xc3\xa4'");
    refuse(RAW ", 'a\xc3': 1}", false, "'a?'");
}

/* Names of all values and back; other values have none, and other names are the unset value. */
#define NAMES(name_of, value_of, first, last, unset)                                                                   \
    do {                                                                                                               \
        for (int v = first; v <= (int)(last); v++) {                                                                   \
            assert_true(name_of(v)[0] != 0);                                                                           \
            assert_int_equal(value_of(name_of(v)), v);                                                                 \
        }                                                                                                              \
        for (int v = (int)(last) + 1; v < (int)(last) + 40; v++) assert_string_equal(name_of(v), "");                  \
        assert_string_equal(name_of(unset), "");                                                                       \
        assert_int_equal(value_of("nothing"), unset);                                                                  \
        assert_int_equal(value_of(""), unset);                                                                         \
    } while (0)

static void names(void **state)
{
    NAMES(proto_context_name, proto_context_value, PROTO_CONTEXT_REFUSE, PROTO_CONTEXT_ROTATE, PROTO_CONTEXT_UNSET);
    NAMES(proto_priority_name, proto_priority_value, PROTO_PRIORITY_INFILL, PROTO_PRIORITY_BATCH, PROTO_PRIORITY_UNSET);
    NAMES(proto_speculate_name, proto_speculate_value, PROTO_SPECULATE_AUTO, PROTO_SPECULATE_DRAFT,
          PROTO_SPECULATE_UNSET);
    NAMES(proto_constraint_name, proto_constraint_value, PROTO_CONSTRAINT_SCHEMA, PROTO_CONSTRAINT_CHOICE,
          PROTO_CONSTRAINT_NONE);
    NAMES(proto_tool_choice_name, proto_tool_choice_value, PROTO_TOOL_AUTO, PROTO_TOOL_NAMED, PROTO_TOOL_UNSET);
    NAMES(proto_pooling_name, proto_pooling_value, PROTO_POOLING_MEAN, PROTO_POOLING_LAST, PROTO_POOLING_UNSET);
    assert_int_equal(proto_on_limit_value("close"), PROTO_LIMIT_CLOSE);
    assert_int_equal(proto_on_limit_value("cut"), PROTO_LIMIT_CUT);
    assert_int_equal(proto_on_limit_value("closed"), PROTO_LIMIT_UNSET);
    assert_int_equal(proto_errno_value(proto_errno_name(EFBIG)), EFBIG);
    assert_int_equal(proto_errno_value(proto_errno_name(ENOENT)), ENOENT);
    assert_int_equal(proto_errno_value("ESTRANGE"), EIO);
    assert_string_equal(proto_errno_name(12345), "EIO");
    assert_true(proto_is_answer(&(struct proto_event){.channel = NULL}));
    assert_true(proto_is_answer(&(struct proto_event){.channel = "answer"}));
    assert_false(proto_is_answer(&(struct proto_event){.channel = "thinking"}));
}

/* --- as many elements as a message can have --- */

#define TEXT(s)                                                                                                        \
    {                                                                                                                  \
        (char *)(s), sizeof(s) - 1                                                                                     \
    }

enum { PLAIN, THOUGHTS, CALLS, RESULTS, NAMES_ONLY, FILES, BIASES, CHOICES, IDS, TEXTS, LISTS };

static size_t most_of(int list)
{
    return list == BIASES    ? PROTO_BIASES_MAX
           : list == CHOICES ? PROTO_CHOICES_MAX
           : list == TEXTS   ? PROTO_TEXTS_MAX
                             : PROTO_ELEMS_MAX;
}

/* A request with a list of @n; the memory is shared by its elements. */
static struct proto_request with_list(int list, size_t n, struct proto_media *image)
{
    static struct proto_message messages[PROTO_ELEMS_MAX];
    static struct proto_bias biases[PROTO_ELEMS_MAX];
    static struct proto_text texts[PROTO_ELEMS_MAX];
    static int32_t ids[PROTO_ELEMS_MAX];
    static struct proto_call call = {TEXT("id"), TEXT("f"), TEXT("{}")};
    struct proto_message one = {.role = TEXT("assistant"), .content = TEXT("x")};
    struct proto_request r = {.type = PROTO_GENERATE, .id = 1};
    proto_generate_init(&r.gen);
    if (list == THOUGHTS) one.thinking = (struct proto_text)TEXT("t");
    if (list == CALLS) one.calls = &call;
    one.n_calls = list == CALLS;
    if (list == RESULTS || list == NAMES_ONLY) one.role = (struct proto_text)TEXT("tool");
    if (list == RESULTS) one.call_id = (struct proto_text)TEXT("id");
    if (list == NAMES_ONLY) one.name = (struct proto_text)TEXT("f");
    if (list == FILES) one.role = (struct proto_text)TEXT("user");
    for (size_t i = 0; i < n; i++) {
        messages[i] = one;
        biases[i] = (struct proto_bias){.id = (int64_t)i, .bias = 1};
        texts[i] = (struct proto_text)TEXT("x");
    }
    if (list == FILES) messages[0].media = image;
    if (list == FILES) messages[0].n_media = 1;
    r.gen.messages = messages;
    r.gen.n_messages = list < BIASES ? n : 1;
    r.gen.biases = list == BIASES ? biases : NULL;
    r.gen.n_biases = list == BIASES ? n : 0;
    if (list == CHOICES)
        r.constraint = (struct proto_constraint){.type = PROTO_CONSTRAINT_CHOICE, .choices = texts, .n_choices = n};
    if (list == IDS) r = (struct proto_request){.type = PROTO_DETOKENIZE, .id = 1, .ids = ids, .n_ids = n};
    if (list == TEXTS)
        r = (struct proto_request){.type = PROTO_EMBED, .id = 1, .embed = {.texts = texts, .n_texts = n}};
    return r;
}

static int write_list(struct buf *b, int list, size_t n, struct proto_media *image)
{
    const struct proto_request r = with_list(list, n, image);
    buf_clear(b);
    const int result = proto_write_request(b, &r);
    if (result < 0) assert_int_equal(result, -EMSGSIZE);
    return result;
}

/* The longest list that is written is read, and is not much shorter than a message can hold. */
static void what_is_written_is_read(void **state)
{
    struct proto_media image = {.kind = PROTO_MEDIA_IMAGE};
    assert_int_equal(blob_new(&image.file, "F", 1), 0);
    for (int list = 0; list < LISTS; list++) {
        struct buf b = BUF_INIT;
        struct proto_request r;
        size_t least = 1, most = most_of(list);
        while (least < most) {
            const size_t n = (least + most + 1) / 2;
            if (write_list(&b, list, n, &image) == 0)
                least = n;
            else
                most = n - 1;
        }
        assert_int_equal(write_list(&b, list, least, &image), 0);
        const int result = proto_read_request(&r, b.data + 4, b.len - 4);
        if (result < 0) fail_msg("list %d of %zu: %s", list, least, error_text(result));
        proto_request_fini(&r);
        assert_true(least == most_of(list) || least > PROTO_ELEMS_MAX / 40);
        buf_fini(&b);
    }
    blob_unref(image.file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events),        cmocka_unit_test(requests),
        cmocka_unit_test(features),      cmocka_unit_test(messages_are_scanned),
        cmocka_unit_test(lengths),       cmocka_unit_test(vectors),
        cmocka_unit_test(ids_of_events), cmocka_unit_test(methods),
        cmocka_unit_test(names),         cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(printable),
    };
    return cmocka_run_group_tests_name("proto-limits", tests, NULL, NULL);
}
