/* SPDX-License-Identifier: MIT */
#include "libcommon/error.h"
#include "libcommon/proto.h"
#include "tests/libcommon/check.h"
#include "tests/libcommon/pack.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What a request of wrong content is told: one line that names what and where. */

static int read_request(struct proto_request *r, const char *text)
{
    struct buf b = BUF_INIT;
    int e;

    pack(&b, text);
    e = proto_read_request(r, b.data, b.len);
    buf_fini(&b);
    return e;
}

static void refuse_with(const char *text, int error, uint64_t id, const char *sentence)
{
    struct proto_request r;
    int e = read_request(&r, text);

    if (e != error) fail_msg("%s: %d, not %d", text, e, error);
    assert_string_equal(error_text(e), sentence);
    assert_true(r.id == id);
    assert_null(r.gen.messages);
    assert_null(r.gen.prompt.data);
    assert_int_equal(r.bytes, 0);
}

/* A generate request with @more keys is refused. */
static void refuse_generate(const char *more, const char *sentence)
{
    char text[1024];

    snprintf(text, sizeof text, "{'type': 'generate', 'id': 9, 'raw': true, 'prompt': 'x', %s}", more);
    refuse_with(text, -EINVAL, 9, sentence);
}

static void accept_generate(const char *more, struct proto_request *r)
{
    char text[1024];
    int e;

    snprintf(text, sizeof text, "{'type': 'generate', 'id': 9, 'raw': true, 'prompt': 'x', %s}", more);
    e = read_request(r, text);
    if (e < 0) fail_msg("%s: %s", text, error_text(e));
}

static void refuse_messages(const char *messages, const char *sentence)
{
    char text[1024];

    snprintf(text, sizeof text, "{'messages': %s, 'type': 'generate', 'id': 9}", messages);
    refuse_with(text, -EINVAL, 9, sentence);
}

static void unknown_keys_are_named(void **state)
{
    refuse_generate("'temprature': 1", "generate: unknown key 'temprature' (did you mean 'temperature'?)");
    refuse_generate("'colour': 1", "generate: unknown key 'colour'");
    refuse_generate("'a\nb\xff': 1", "generate: unknown key 'a?b?'");
    refuse_generate("7: 1", "generate: a key that is not a string");
    refuse_with("{'type': 'cancel', 'id': 3, 'force': true}", -EINVAL, 3, "cancel: unknown key 'force'");
    refuse_with("{'type': 'status', 'id': 3, 'verbose': true}", -EINVAL, 3, "status: unknown key 'verbose'");
    refuse_with("{'type': 'hello', 'version': 1, 'features': [], 'software': 's', 'id': 1}", -EINVAL, 1,
                "hello: unknown key 'id'");
    refuse_messages("[{'role': 'user', 'content': 'x', 'nick': 'y'}]", "messages[0]: unknown key 'nick'");
    refuse_messages("[{'role': 'user', 'content': [{'type': 'text', 'text': 'x', 'bold': true}]}]",
                    "messages[0].content[0]: unknown key 'bold'");
    refuse_generate("'"
                    "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
                    "': 1",
                    "generate: unknown key 'kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk…'");
}

static void keys_that_are_missing_or_twice(void **state)
{
    refuse_with("{}", -EINVAL, 0, "request: missing key 'type'");
    refuse_with("{'id': 4}", -EINVAL, 4, "request: missing key 'type'");
    refuse_with("{'type': 1, 'id': 4}", -EINVAL, 4, "request: type must be a string");
    refuse_with("{'type': 'dance', 'id': 4}", -EINVAL, 4, "request: unknown type 'dance'");
    refuse_with("{'type': 'status'}", -EINVAL, 0, "status: missing key 'id'");
    refuse_with("{'type': 'status', 'id': 'x'}", -EINVAL, 0, "id: must be a whole number from 1 to 2^64-1");
    refuse_with("{'type': 'status', 'id': 0}", -EINVAL, 0, "id: must be a whole number from 1 to 2^64-1");
    refuse_with("{'type': 'status', 'id': -1}", -EINVAL, 0, "id: must be a whole number from 1 to 2^64-1");
    refuse_with("{'type': 'status', 'id': 5, 'id': 6}", -EINVAL, 5, "status: key 'id' twice");
    refuse_with("{'type': 'tokenize', 'id': 5}", -EINVAL, 5, "tokenize: missing key 'text'");
    refuse_generate("'prompt': 'y'", "generate: key 'prompt' twice");
    refuse_messages("[{'role': 'user'}]", "messages[0]: missing key 'content'");
    refuse_messages("[{'content': 'x'}]", "messages[0]: missing key 'role'");
    refuse_messages("[{'role': 'u', 'content': 'x', 'role': 'v'}]", "messages[0]: key 'role' twice");
}

static void refuse_embed(const char *more, const char *sentence)
{
    char text[1024];

    snprintf(text, sizeof text, "{'type': 'embed', 'id': 9, %s}", more);
    refuse_with(text, -EINVAL, 9, sentence);
}

static void texts_to_embed(void **state)
{
    refuse_embed("'dims': 4", "embed: missing key 'texts'");
    refuse_embed("'texts': 'x'", "texts: must be a list of strings");
    refuse_embed("'texts': []", "texts: is empty");
    refuse_embed("'texts': ['', 7]", "texts[1]: must be a string");
    refuse_embed("'texts': ['x', 'y\xff']", "texts[1]: invalid UTF-8 at byte 1");
    refuse_embed("'texts': ['x'], 'pooling': 'rank'", "pooling: must be mean, cls or last");
    refuse_embed("'texts': ['x'], 'dims': 0", "dims: must be a whole number from 1 to 65536");
    refuse_embed("'texts': ['x'], 'dims': 65537", "dims: must be a whole number from 1 to 65536");
    refuse_embed("'texts': ['x'], 'normalize': 0", "normalize: must be true or false");
    refuse_embed("'texts': ['x'], 'question': 'why'", "embed: unknown key 'question'");
    refuse_embed("'texts': ['x'], 'max_tokens': 1", "embed: unknown key 'max_tokens'");
    refuse_with("{'type': 'rank', 'id': 9, 'texts': ['x']}", -EINVAL, 9, "rank: missing key 'question'");
    refuse_with("{'type': 'rank', 'id': 9, 'texts': ['x'], 'question': ''}", -EINVAL, 9, "question: is empty");
    refuse_with("{'type': 'rank', 'id': 9, 'texts': ['x'], 'question': 'y', 'dims': 4}", -EINVAL, 9,
                "rank: unknown key 'dims'");
}

static void versions(void **state)
{
    struct proto_request r;

    assert_int_equal(read_request(&r, "{'type': 'hello', 'version': 2, 'news': [], 'features': 3}"), -EPROTO);
    assert_int_equal(r.version, 2);
    assert_string_equal(error_text(-EPROTO), "protocol version 2 is not supported, only 1");
    refuse_with("{'type': 'hello'}", -EINVAL, 0, "hello: missing key 'version'");
    refuse_with("{'type': 'hello', 'version': '1'}", -EINVAL, 0, "version: must be a whole number");
    refuse_with("{'type': 'hello', 'version': 4294967297}", -EINVAL, 0, "version: must be a whole number");
    refuse_with("{'type': 'hello', 'version': 1, 'features': 'x'}", -EINVAL, 0, "features: must be a list of strings");
    refuse_with("{'type': 'hello', 'version': 1, 'features': [1]}", -EINVAL, 0, "features: must be a list of strings");
}

static void prompts(void **state)
{
    refuse_with("{'type': 'generate', 'id': 9}", -EINVAL, 9, "generate: messages or prompt is missing");
    refuse_with("{'type': 'generate', 'id': 9, 'prompt': 'x'}", -EINVAL, 9,
                "generate: prompt needs raw: true (or send messages)");
    refuse_with("{'type': 'generate', 'id': 9, 'prompt': '', 'raw': true}", -EINVAL, 9,
                "generate: the prompt is empty");
    refuse_generate("'messages': [{'role': 'user', 'content': 'x'}]",
                    "generate: messages and prompt cannot be used together");
    refuse_with("{'type': 'generate', 'id': 9, 'raw': true, 'messages': [{'role': 'user', 'content': 'x'}]}", -EINVAL,
                9, "generate: raw needs prompt, not messages");
    refuse_with("{'type': 'generate', 'id': 9, 'special': true, 'messages': [{'role': 'user', 'content': 'x'}]}",
                -EINVAL, 9, "generate: special needs raw and prompt");
    refuse_generate("'n': 0", "n: must be a whole number from 1 to 32");
    refuse_generate("'n': 33", "n: must be a whole number from 1 to 32");
    refuse_generate("'n': true", "n: must be a whole number from 1 to 32");
    refuse_generate("'n': 2, 'session': 's'", "generate: n cannot be used with a session, which stores one answer");
    refuse_generate("'n': 2, 'continue': true", "generate: n cannot be used with a session, which stores one answer");
    refuse_generate("'detach': true", "generate: detach needs session or continue, which store the answer");
    refuse_generate("'detach': 1", "detach: must be true or false");
    refuse_messages("[]", "messages: the prompt is empty");
    refuse_messages("[{'role': 'system', 'content': 'x'}, {'role': 'user', 'content': ''}]",
                    "generate: the prompt is empty");
    refuse_messages("[{'role': 'user', 'content': []}]", "generate: the prompt is empty");
    refuse_messages("{'role': 'user'}", "messages: must be a list of messages");
    refuse_messages("['hello']", "messages[0]: must be a map");
    refuse_messages("[{'role': '', 'content': 'x'}]", "messages[0].role: is empty");
    refuse_messages("[{'role': 7, 'content': 'x'}]", "messages[0].role: must be a string");
    refuse_messages("[{'role': 'user', 'content': 7}]", "messages[0].content: must be a string or a list of parts");
    refuse_messages("[{'role': 'user', 'content': b'x'}]", "messages[0].content: must be a string or a list of parts");
    refuse_messages("[{'role': 'user', 'content': [{'type': 'video', 'data': b'x'}]}]",
                    "messages[0].content[0]: part type 'video' is not supported, only 'text', 'image' and 'audio'");
    refuse_messages("[{'role': 'user', 'content': [{'type': 'image'}]}]",
                    "messages[0].content[0]: needs either 'data' or 'fd'");
    refuse_messages("[{'role': 'user', 'content': [{'type': 'image', 'data': b''}]}]",
                    "messages[0].content[0].data: is empty");
    refuse_messages("[{'role': 'user', 'content': [{'type': 'audio', 'data': 'text'}]}]",
                    "messages[0].content[0].data: must be bytes");
    refuse_messages("[{'role': 'user', 'content': [{'type': 'image', 'fd': 0}]}]",
                    "messages[0].content[0].fd: must be less than the number of descriptors, which is 'fds', 0");
    refuse_messages("[{'role': 'user', 'content': [{'type': 'image', 'url': 'file:///x'}]}]",
                    "messages[0].content[0]: unknown key 'url'");
    refuse_generate("'fds': 0", "fds: must be a whole number from 1 to 128");
    refuse_generate("'fds': 129", "fds: must be a whole number from 1 to 128");
    refuse_messages("[{'role': 'user', 'content': ['x']}]", "messages[0].content[0]: must be a map");
    refuse_messages("[{'role': 'user', 'content': [{'text': 'x'}]}]", "messages[0].content[0]: missing key 'type'");
    refuse_messages("[{'role': 'user', 'content': [{'type': 'text'}]}]", "messages[0].content[0]: missing key 'text'");
}

static void invalid_utf8_is_found_everywhere(void **state)
{
    refuse_messages("[{'role': 'user', 'content': 'seventeen bytes !\xff!'}]",
                    "messages[0].content: invalid UTF-8 at byte 17");
    refuse_messages("[{'role': 'user', 'content': 'x'}, {'role': 'a\xc3', 'content': 'x'}]",
                    "messages[1].role: invalid UTF-8 at byte 1");
    refuse_messages("[{'role': 'user', 'content': [{'type': 'text', 'text': 'x'}, {'type': 'text', 'text': '\x80'}]}]",
                    "messages[0].content[1].text: invalid UTF-8 at byte 0");
    refuse_with("{'type': 'generate', 'id': 9, 'raw': true, 'prompt': 'a\xed\xa0\x80'}", -EINVAL, 9,
                "prompt: invalid UTF-8 at byte 1");
    refuse_with("{'type': 'generate', 'id': 9, 'raw': true, 'prompt': b'ab\xff'}", -EINVAL, 9,
                "prompt: invalid UTF-8 at byte 2");
    refuse_with("{'type': 'tokenize', 'id': 9, 'text': 'a\xff'}", -EINVAL, 9, "text: invalid UTF-8 at byte 1");
    refuse_with("{'type': 'infill', 'id': 9, 'prefix': b'ab\xff'}", -EINVAL, 9, "prefix: invalid UTF-8 at byte 2");
    refuse_with("{'type': 'infill', 'id': 9, 'prefix': 'a', 'suffix': '\xff'}", -EINVAL, 9,
                "suffix: invalid UTF-8 at byte 0");
    refuse_generate("'stop': ['ok', '\xff']", "stop[1]: invalid UTF-8 at byte 0");
    refuse_generate("'session': 's\xff'", "session: invalid UTF-8 at byte 1");
    refuse_generate("'salt': 's\xff'", "salt: invalid UTF-8 at byte 1");
    refuse_generate("'session': 's', 'fork': '\xff'", "fork: invalid UTF-8 at byte 0");
    refuse_with("{'type': 'session.show', 'id': 9, 'name': 'ab\xff'}", -EINVAL, 9, "name: invalid UTF-8 at byte 2");
    refuse_generate("'uuid': '\xff'", "uuid: must be 1 to 39 letters, digits and dashes");
}

static void ranges(void **state)
{
    static const char *const bad[][2] = {
        {"'temperature': -0.1", "temperature: must be a number from 0 to 100"},
        {"'temperature': 100.5", "temperature: must be a number from 0 to 100"},
        {"'temperature': nan", "temperature: must be a number from 0 to 100"},
        {"'temperature': inf", "temperature: must be a number from 0 to 100"},
        {"'temperature': '1'", "temperature: must be a number from 0 to 100"},
        {"'temperature': null", "temperature: must be a number from 0 to 100"},
        {"'top_p': 1.01", "top_p: must be a number from 0 to 1"},
        {"'top_p': -1", "top_p: must be a number from 0 to 1"},
        {"'min_p': 2", "min_p: must be a number from 0 to 1"},
        {"'min_p': nan", "min_p: must be a number from 0 to 1"},
        {"'repeat_penalty': 0", "repeat_penalty: must be a number above 0, at most 10"},
        {"'repeat_penalty': 0.0", "repeat_penalty: must be a number above 0, at most 10"},
        {"'repeat_penalty': 10.5", "repeat_penalty: must be a number above 0, at most 10"},
        {"'typical_p': -0.01", "typical_p: must be a number from 0 to 1"},
        {"'typical_p': nan", "typical_p: must be a number from 0 to 1"},
        {"'frequency_penalty': 2.5", "frequency_penalty: must be a number from -2 to 2"},
        {"'frequency_penalty': inf", "frequency_penalty: must be a number from -2 to 2"},
        {"'presence_penalty': -2.5", "presence_penalty: must be a number from -2 to 2"},
        {"'presence_penalty': '1'", "presence_penalty: must be a number from -2 to 2"},
        {"'repeat_last_n': -1", "repeat_last_n: must be a whole number from 0 to 2147483647"},
        {"'mirostat': -1", "mirostat: must be a number from 0 to 100"},
        {"'mirostat': inf", "mirostat: must be a number from 0 to 100"},
        {"'mirostat_eta': 0", "mirostat_eta: must be a number above 0, at most 1"},
        {"'mirostat_eta': 1.1", "mirostat_eta: must be a number above 0, at most 1"},
        {"'logit_bias': {'7': 1}", "logit_bias: must be a list of tokens and numbers"},
        {"'logit_bias': [[7]]", "logit_bias[0]: must be a list of a token and a number"},
        {"'logit_bias': [[7, 1], 7]", "logit_bias[1]: must be a list of a token and a number"},
        {"'logit_bias': [[7, nan]]", "logit_bias[0][1]: must be a number from -100 to 100"},
        {"'logit_bias': [[7, -100.5]]", "logit_bias[0][1]: must be a number from -100 to 100"},
        {"'logit_bias': [[-1, 1]]", "logit_bias[0][0]: must be a token's id or text"},
        {"'logit_bias': [[2147483648, 1]]", "logit_bias[0][0]: must be a token's id or text"},
        {"'logit_bias': [['', 1]]", "logit_bias[0][0]: is empty"},
        {"'logit_bias': [['\xff', 1]]", "logit_bias[0][0]: invalid UTF-8 at byte 0"},
        {"'constraint': 'x'", "constraint: must be a map"},
        {"'constraint': {}", "constraint: missing key 'type'"},
        {"'constraint': {'type': 'json', 'text': 'x'}", "constraint.type: must be schema, grammar, regex or choice"},
        {"'constraint': {'type': 'regex'}", "constraint: missing key 'text'"},
        {"'constraint': {'type': 'regex', 'text': ''}", "constraint.text: is empty"},
        {"'constraint': {'type': 'regex', 'text': '\xff'}", "constraint.text: invalid UTF-8 at byte 0"},
        {"'constraint': {'type': 'regex', 'text': 'a', 'choices': ['a']}",
         "constraint: 'choices' cannot be used with type 'regex'"},
        {"'constraint': {'type': 'regex', 'text': 'a', 'strict': true}", "constraint: unknown key 'strict'"},
        {"'constraint': {'type': 'choice', 'text': 'a'}", "constraint: missing key 'choices'"},
        {"'constraint': {'type': 'choice', 'choices': []}",
         "constraint.choices: must be a list of one or more strings"},
        {"'constraint': {'type': 'choice', 'choices': 'a'}",
         "constraint.choices: must be a list of one or more strings"},
        {"'constraint': {'type': 'choice', 'choices': ['a', '']}", "constraint.choices[1]: is empty"},
        {"'constraint': {'type': 'choice', 'choices': ['a', 1]}", "constraint.choices[1]: must be a string"},
        {"'constraint': {'type': 'choice', 'choices': ['a'], 'text': 'a'}",
         "constraint: 'text' cannot be used with type 'choice'"},
        {"'on_limit': 'end'", "on_limit: must be close or cut"},
        {"'on_limit': 'close'", "generate: on_limit needs constraint"},
        {"'constraint': {'type': 'regex', 'text': 'a'}, 'stop': ['x']",
         "generate: stop cannot be used with constraint, which determines the end of the answer"},
        {"'constraint': {'type': 'regex', 'text': 'a'}, 'ignore_eos': true",
         "generate: ignore_eos cannot be used with constraint, which determines the end of the answer"},
        {"'top_k': -1", "top_k: must be a whole number from 0 to 2147483647"},
        {"'top_k': 1.0", "top_k: must be a whole number from 0 to 2147483647"},
        {"'seed': -1", "seed: must be a whole number from 0 to 2^63-1"},
        {"'seed': 9223372036854775808", "seed: must be a whole number from 0 to 2^63-1"},
        {"'max_tokens': 0", "max_tokens: must be a whole number from 1 to 2147483647"},
        {"'max_tokens': 2147483648", "max_tokens: must be a whole number from 1 to 2147483647"},
        {"'timeout_ms': -1", "timeout_ms: must be a whole number from 0 to 9223372036854"},
        {"'timeout_ms': 9223372036855", "timeout_ms: must be a whole number from 0 to 9223372036854"},
        {"'ignore_eos': 1", "ignore_eos: must be true or false"},
        {"'stop': 'x'", "stop: must be a list of strings"},
        {"'stop': ['']", "stop[0]: is empty"},
        {"'stop': [1]", "stop[0]: must be a string"},
        {"'stop': ['1','2','3','4','5','6','7','8','9','10','11','12','13','14','15','16','17']",
         "stop: has 17 strings, the limit is 16"},
        {"'session': ''", "session: is empty"},
        {"'session': 'a/b'", "session: must not contain '/' or control characters"},
        {"'session': 'a\nb'", "session: must not contain '/' or control characters"},
        {"'session': 's', 'continue': true", "generate: session and continue cannot be used together"},
        {"'session': 's', 'fork': ''", "fork: is empty"},
        {"'session': 's', 'fork': 'a/b'", "fork: must not contain '/' or control characters"},
        {"'session': 's', 'fork': 7", "fork: must be a string"},
        {"'fork': 'f'", "generate: fork needs session or continue, which select the session to fork"},
        {"'note': 'n'", "generate: note needs session or continue, which store it"},
        {"'session': 's', 'note': ''", "note: is empty"},
        {"'fork': 'f', 'continue': false",
         "generate: fork needs session or continue, which select the session to fork"},
        {"'wait': 1", "wait: must be true or false"},
        {"'wait': null", "wait: must be true or false"},
        {"'context': 'stretch'", "context: must be refuse, shift or rotate"},
        {"'context': ''", "context: must be refuse, shift or rotate"},
        {"'context': 2", "context: must be refuse, shift or rotate"},
        {"'context': null", "context: must be refuse, shift or rotate"},
        {"'priority': 'high'", "priority: must be infill, interactive or batch"},
        {"'priority': 1", "priority: must be infill, interactive or batch"},
        {"'speculate': 'on'", "speculate: must be auto, off, lookup or draft"},
        {"'speculate': true", "speculate: must be auto, off, lookup or draft"},
        {"'salt': ''", "salt: is empty"},
        {"'salt': b'x'", "salt: must be a string"},
        {"'uuid': ''", "uuid: must be 1 to 39 letters, digits and dashes"},
        {"'uuid': 'a b'", "uuid: must be 1 to 39 letters, digits and dashes"},
        {"'uuid': '0123456789012345678901234567890123456789'", "uuid: must be 1 to 39 letters, digits and dashes"},
    };
    char name[PROTO_SALT_MAX + 64];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refuse_generate(bad[i][0], bad[i][1]);
    snprintf(name, sizeof name, "'session': '%0*d'", PROTO_NAME_MAX + 1, 0);
    refuse_generate(name, "session: has 129 bytes, the limit is 128");
    snprintf(name, sizeof name, "'continue': true, 'fork': '%0*d'", PROTO_NAME_MAX + 1, 0);
    refuse_generate(name, "fork: has 129 bytes, the limit is 128");
    snprintf(name, sizeof name, "'salt': '%0*d'", PROTO_SALT_MAX + 1, 0);
    refuse_generate(name, "salt: has 257 bytes, the limit is 256");
}

/* What says nothing of a gap, and the other way round. */
static void infill_has_keys_of_its_own(void **state)
{
    static const char *const bad[][2] = {
        {"'raw': true", "infill: 'raw' cannot be used with infill"},
        {"'raw': true, 'prompt': 'x'", "infill: 'prompt' cannot be used with infill"},
        {"'messages': [{'role': 'user', 'content': 'x'}]", "infill: 'messages' cannot be used with infill"},
        {"'special': true", "infill: 'special' cannot be used with infill"},
        {"'session': 's'", "infill: 'session' cannot be used with infill"},
        {"'continue': true", "infill: 'continue' cannot be used with infill"},
        {"'fork': 's'", "infill: 'fork' cannot be used with infill"},
        {"'note': 's'", "infill: 'note' cannot be used with infill"},
        {"'wait': true", "infill: 'wait' cannot be used with infill"},
        {"'context': 'shift'", "infill: 'context' cannot be used with infill"},
        {"'constraint': {'type': 'regex', 'text': 'a'}", "infill: 'constraint' cannot be used with infill"},
        {"'max_lines': 0", "max_lines: must be a whole number from 1 to 2147483647"},
        {"'max_lines': 2147483648", "max_lines: must be a whole number from 1 to 2147483647"},
        {"'suffix': 1", "suffix: must be a string"},
        {"'stop': ['1','2','3','4','5','6','7','8','9','10','11','12','13','14','15','16']",
         "infill: stop: infill uses one of the 16 stop strings itself"},
    };
    char text[256];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, "{'type': 'infill', 'id': 9, 'prefix': 'a', %s}", bad[i][0]);
        refuse_with(text, -EINVAL, 9, bad[i][1]);
    }
    refuse_with("{'type': 'infill', 'id': 9}", -EINVAL, 9, "infill: prefix and suffix are both empty");
    refuse_with("{'type': 'infill', 'id': 9, 'prefix': '', 'suffix': ''}", -EINVAL, 9,
                "infill: prefix and suffix are both empty");
    refuse_generate("'prefix': 'a'", "generate: 'prefix' can be used only with infill");
    refuse_generate("'suffix': ''", "generate: 'suffix' can be used only with infill");
    refuse_generate("'max_lines': 1", "generate: 'max_lines' can be used only with infill");
}

/* warm takes what generate takes, and says its own name where something is wrong. */
static void warm_is_read_like_generate(void **state)
{
    struct proto_request r;

    refuse_with("{'type': 'warm', 'id': 3}", -EINVAL, 3, "warm: messages or prompt is missing");
    refuse_with("{'type': 'warm', 'id': 3, 'raw': true, 'prompt': 'x', 'fork': 'f'}", -EINVAL, 3,
                "warm: fork needs session or continue, which select the session to fork");
    refuse_with("{'type': 'warm', 'id': 3, 'raw': true, 'prompt': 'x', 'slat': 'f'}", -EINVAL, 3,
                "warm: unknown key 'slat' (did you mean 'salt'?)");
    assert_int_equal(read_request(&r, "{'type': 'warm', 'id': 3, 'raw': true, 'prompt': 'abc', 'temperature': 0,"
                                      "'salt': 'tenant', 'context': 'shift', 'uuid': 'u-1'}"),
                     0);
    assert_int_equal(r.type, PROTO_WARM);
    assert_string_equal(r.gen.prompt.data, "abc");
    assert_string_equal(r.gen.salt.data, "tenant");
    assert_int_equal(r.gen.context, PROTO_CONTEXT_SHIFT);
    assert_string_equal(r.gen.uuid, "u-1");
    proto_request_fini(&r);
}

static void session_requests(void **state)
{
    static const char *const one[] = {"session.show", "session.remove"}, *const two[] = {"session.fork",
                                                                                         "session.rename"};
    char text[PROTO_NAME_MAX + 128], sentence[128];

    refuse_with("{'type': 'session.list', 'id': 3, 'name': 'x'}", -EINVAL, 3, "session.list: unknown key 'name'");
    refuse_with("{'type': 'session.list', 'id': 3, 'after': ''}", -EINVAL, 3, "after: is empty");
    memset(sentence, 'x', PROTO_CURSOR_MAX + 1);
    sentence[PROTO_CURSOR_MAX + 1] = 0;
    snprintf(text, sizeof text, "{'type': 'session.list', 'id': 3, 'after': '%s'}", sentence);
    refuse_with(text, -EINVAL, 3, "after: has 65 bytes, the limit is 64");
    refuse_with("{'type': 'session.list', 'id': 3, 'limit': 0}", -EINVAL, 3,
                "limit: must be a whole number from 1 to 1000");
    refuse_with("{'type': 'session.list', 'id': 3, 'limit': 1001}", -EINVAL, 3,
                "limit: must be a whole number from 1 to 1000");
    for (int i = 0; i < 4; i++) {
        const char *type = i < 2 ? one[i] : two[i - 2];

        snprintf(text, sizeof text, "{'type': '%s', 'id': 3, 'to': 'y'}", type);
        snprintf(sentence, sizeof sentence, i < 2 ? "%s: unknown key 'to'" : "%s: missing key 'name'", type);
        refuse_with(text, -EINVAL, 3, sentence);
        snprintf(text, sizeof text, "{'type': '%s', 'id': 3, 'name': ''}", type);
        refuse_with(text, -EINVAL, 3, "name: is empty");
        snprintf(text, sizeof text, "{'type': '%s', 'id': 3, 'name': '../x'}", type);
        refuse_with(text, -EINVAL, 3, "name: must not contain '/' or control characters");
        snprintf(text, sizeof text, "{'type': '%s', 'id': 3, 'name': 7}", type);
        refuse_with(text, -EINVAL, 3, "name: must be a string");
        snprintf(text, sizeof text, "{'type': '%s', 'id': 3, 'name': '%0*d'}", type, PROTO_NAME_MAX + 1, 0);
        refuse_with(text, -EINVAL, 3, "name: has 129 bytes, the limit is 128");
    }
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "{'type': '%s', 'id': 3, 'name': 'x'}", two[i]);
        snprintf(sentence, sizeof sentence, "%s: missing key 'to'", two[i]);
        refuse_with(text, -EINVAL, 3, sentence);
        snprintf(text, sizeof text, "{'type': '%s', 'id': 3, 'name': 'x', 'to': 'a\nb'}", two[i]);
        refuse_with(text, -EINVAL, 3, "to: must not contain '/' or control characters");
        snprintf(text, sizeof text, "{'type': '%s', 'id': 3, 'name': 'x', 'to': ''}", two[i]);
        refuse_with(text, -EINVAL, 3, "to: is empty");
    }
}

static void ends_of_ranges_are_in(void **state)
{
    struct proto_request r;
    char name[PROTO_SALT_MAX + 64];

    accept_generate("'temperature': 0, 'top_p': 1, 'min_p': 0.0, 'repeat_penalty': 10.0, 'top_k': 0, 'seed': 0,"
                    "'max_tokens': 1, 'timeout_ms': 0, 'stop': []",
                    &r);
    assert_true(r.gen.sampling.temperature == 0 && r.gen.sampling.top_p == 1 && r.gen.sampling.min_p == 0);
    assert_true(r.gen.sampling.repeat_penalty == 10 && r.gen.sampling.top_k == 0 && r.gen.sampling.seed == 0);
    assert_true(r.gen.max_tokens == 1 && r.gen.timeout_ms == 0 && r.gen.n_stop == 0);
    proto_request_fini(&r);
    accept_generate("'typical_p': 0, 'frequency_penalty': -2, 'presence_penalty': 2, 'repeat_last_n': 0,"
                    "'mirostat': 100, 'mirostat_eta': 1, 'logit_bias': [[0, 100], ['a', -100], [2147483647, 0]]",
                    &r);
    assert_true(r.gen.sampling.typical_p == 0 && r.gen.sampling.frequency_penalty == -2);
    assert_true(r.gen.sampling.presence_penalty == 2 && r.gen.sampling.repeat_last_n == 0);
    assert_true(r.gen.sampling.mirostat == 100 && r.gen.sampling.mirostat_eta == 1);
    assert_int_equal(r.gen.n_biases, 3);
    assert_string_equal(r.gen.biases[1].text.data, "a");
    assert_true(r.gen.biases[1].bias == -100 && r.gen.biases[2].id == INT32_MAX);
    proto_request_fini(&r);
    accept_generate("'temperature': 100, 'seed': 9223372036854775807, 'max_tokens': 2147483647,"
                    "'timeout_ms': 9223372036854, 'uuid': '012345678901234567890123456789012345678',"
                    "'stop': ['1','2','3','4','5','6','7','8','9','10','11','12','13','14','15','16']",
                    &r);
    assert_true(r.gen.sampling.temperature == 100 && r.gen.sampling.seed == INT64_MAX);
    assert_int_equal(r.gen.n_stop, PROTO_STOPS_MAX);
    assert_string_equal(r.gen.stop[15].data, "16");
    assert_int_equal(strlen(r.gen.uuid), 39);
    proto_request_fini(&r);
    snprintf(name, sizeof name, "'session': '%0*d'", PROTO_NAME_MAX, 0);
    accept_generate(name, &r);
    assert_int_equal(r.gen.session.len, PROTO_NAME_MAX);
    proto_request_fini(&r);
    snprintf(name, sizeof name, "'continue': true, 'fork': 'f', 'salt': '%0*d'", PROTO_SALT_MAX, 0);
    accept_generate(name, &r);
    assert_int_equal(r.gen.salt.len, PROTO_SALT_MAX);
    assert_true(r.gen.continue_last && !r.gen.wait && r.gen.context == PROTO_CONTEXT_UNSET);
    /* the prompt, the fork's name, the salt, each with its NUL */
    assert_int_equal(r.bytes, 2 + 2 + PROTO_SALT_MAX + 1);
    proto_request_fini(&r);
}

static void tools_and_thinking(void **state)
{
    static const char *const bad[][2] = {
        {"'tools': '[]'", "generate: tools cannot be used with raw"},
        {"'thinking': 'on'", "generate: thinking cannot be used with raw"},
        {"'think_budget': 0", "generate: think_budget cannot be used with raw"},
        {"'thinking': 'maybe'", "thinking: must be on or off"},
        {"'think_budget': -1", "think_budget: must be a whole number from 0 to 2147483647"},
        {"'tool_choice': 'always'", "tool_choice: must be auto, none, required or named"},
        {"'schema_lenient': true", "generate: schema_lenient needs a constraint of type schema"},
        {"'any_order': true, 'constraint': {'type': 'regex', 'text': 'a'}",
         "generate: any_order needs a constraint of type schema"},
        {"'compact': 1", "compact: must be true or false"},
    };
    static const char *const bad_chat[][2] = {
        {"'tool_choice': 'none'", "generate: tool_choice needs tools"},
        {"'tool_name': 'f'", "generate: tool_name needs tools"},
        {"'tools': ''", "tools: is empty"},
        {"'tools': '[]', 'tool_choice': 'named'", "generate: tool_choice: named needs tool_name"},
        {"'tools': '[]', 'tool_name': 'f'", "generate: tool_name needs tool_choice: named"},
        {"'tools': '[]', 'constraint': {'type': 'regex', 'text': 'a'}",
         "generate: constraint cannot be used with tools, except with tool_choice: none"},
        {"'tools': '[]', 'tool_choice': 'required', 'stop': ['a']",
         "generate: stop cannot be used with tool_choice: required, which determines the end of the answer"},
        {"'thinking': 'off', 'think_budget': 3", "generate: think_budget cannot be used with thinking: off"},
    };
    char text[512];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refuse_generate(bad[i][0], bad[i][1]);
    for (size_t i = 0; i < sizeof bad_chat / sizeof *bad_chat; i++) {
        snprintf(text, sizeof text, "{'type': 'warm', 'id': 9, 'messages': [{'role': 'user', 'content': 'x'}], %s}",
                 bad_chat[i][0]);
        snprintf(text + 400, 100, "%s%s", strncmp(bad_chat[i][1], "generate", 8) == 0 ? "warm" : "",
                 bad_chat[i][1] + (strncmp(bad_chat[i][1], "generate", 8) == 0 ? 8 : 0));
        refuse_with(text, -EINVAL, 9, text + 400);
    }
    refuse_with("{'type': 'infill', 'id': 9, 'prefix': 'a', 'tools': '[]'}", -EINVAL, 9,
                "infill: 'tools' cannot be used with infill");
}

static void messages_with_calls(void **state)
{
    struct proto_request r;

    refuse_messages("[{'role': 'assistant', 'content': '', 'tool_calls': []}]",
                    "messages[0].tool_calls: must be a list of one or more calls");
    refuse_messages("[{'role': 'assistant', 'content': '', 'tool_calls': [{'name': 'f'}]}]",
                    "messages[0].tool_calls[0]: missing key 'arguments'");
    refuse_messages("[{'role': 'assistant', 'content': '', 'tool_calls': [{'arguments': '{}'}]}]",
                    "messages[0].tool_calls[0]: missing key 'name'");
    refuse_messages("[{'role': 'assistant', 'content': '', 'tool_calls': [{'name': 'f', 'args': '{}'}]}]",
                    "messages[0].tool_calls[0]: unknown key 'args'");
    refuse_messages("[{'role': 'user', 'content': '', 'tool_calls': [{'name': 'f', 'arguments': '{}'}]}]",
                    "messages[0]: 'tool_calls' can be used only with role assistant");
    refuse_messages("[{'role': 'user', 'content': 'x', 'thinking': 'y'}]",
                    "messages[0]: 'thinking' can be used only with role assistant");
    refuse_messages("[{'role': 'user', 'content': 'x', 'name': 'y'}]",
                    "messages[0]: 'name' can be used only with role tool");
    refuse_messages("[{'role': 'assistant', 'content': 'x', 'tool_call_id': 'y'}]",
                    "messages[0]: 'tool_call_id' can be used only with role tool");
    assert_int_equal(read_request(&r, "{'type': 'generate', 'id': 1, 'messages': [{'role': 'tool', 'content': ''}]}"),
                     0);
    assert_int_equal(r.gen.n_messages, 1);
    proto_request_fini(&r);
}

static void parts_are_joined(void **state)
{
    struct proto_request r;

    assert_int_equal(read_request(&r, "{'type': 'generate', 'id': 1, 'messages': [{'role': 'user', 'content':"
                                      "[{'type': 'text', 'text': 'a'}, {'type': 'text', 'text': ''},"
                                      "{'text': 'bc', 'type': 'text'}]}]}"),
                     0);
    assert_int_equal(r.gen.n_messages, 1);
    assert_int_equal(r.gen.messages[0].content.len, 3);
    assert_string_equal(r.gen.messages[0].content.data, "abc");
    proto_request_fini(&r);
}

static void a_prompt_may_be_bytes(void **state)
{
    struct proto_request r;

    assert_int_equal(read_request(&r, "{'type': 'generate', 'id': 1, 'raw': true, 'prompt': b'abc'}"), 0);
    assert_string_equal(r.gen.prompt.data, "abc");
    proto_request_fini(&r);
}

static void bodies_that_are_no_message(void **state)
{
    refuse_with("[]", -EBADMSG, 0, "malformed message: not a map");
    refuse_with("'hello'", -EBADMSG, 0, "malformed message: not a map");
    refuse_with("null", -EBADMSG, 0, "malformed message: not a map");
}

static int read_event(struct proto_event *e, const char *text)
{
    struct buf b = BUF_INIT;
    int r;

    pack(&b, text);
    r = proto_read_event(e, b.data, b.len);
    buf_fini(&b);
    return r;
}

static void events_of_a_newer_daemon_are_unknown(void **state)
{
    struct proto_event e;

    assert_int_equal(read_event(&e, "{'event': 'fireworks', 'id': 5, 'colour': 'red'}"), 0);
    assert_int_equal(e.type, PROTO_EV_UNKNOWN);
    assert_int_equal(e.id, 5);
    proto_event_fini(&e);
    assert_int_equal(read_event(&e, "{'event': 'queued', 'id': 5, 'position': 2, 'since': [1], 8: 9}"), 0);
    assert_int_equal(e.type, PROTO_EV_QUEUED);
    assert_int_equal(e.position, 2);
    proto_event_fini(&e);
    assert_int_equal(read_event(&e, "{'event': 'text', 'id': 5, 'text': 'x', 'channel': 'gesture'}"), 0);
    assert_string_equal(e.channel, "other");
    proto_event_fini(&e);
    assert_int_equal(read_event(&e, "{'event': 'error', 'id': 5, 'code': 'ENEW', 'message': 'm'}"), 0);
    assert_int_equal(e.code, EIO);
    proto_event_fini(&e);
    assert_int_equal(read_event(&e, "{'event': 'hello', 'version': 3, 'news': 1}"), -EPROTO);
    assert_int_equal(e.version, 3);
}

static void events_that_are_wrong(void **state)
{
    static const char *const bad[][2] = {
        {"{'id': 1}", "event: missing key 'event'"},
        {"{'event': 1}", "event: event must be a string"},
        {"{'event': 'queued'}", "queued: missing key 'id'"},
        {"{'event': 'text', 'id': 1, 'text': 1}", "text: must be a string"},
        {"{'event': 'text', 'id': 1, 'text': '\xff'}", "text: invalid UTF-8 at byte 0"},
        {"{'event': 'text', 'id': 1, 'text': '', 'ids': [1, -1]}", "ids: element 1 is not a token id"},
        {"{'event': 'text', 'id': 1, 'text': '', 'ids': [2147483648]}", "ids: element 0 is not a token id"},
        {"{'event': 'text', 'id': 1, 'text': '', 'ids': [1], 'logprobs': [0.5, 1.0]}",
         "logprobs: ids and logprobs differ in number"},
        {"{'event': 'text', 'id': 1, 'text': '', 'logprobs': [0.5], 'ids': [1, 2]}",
         "ids: ids and logprobs differ in number"},
        {"{'event': 'text', 'id': 1, 'text': '', 'logprobs': [0.5]}", "text: logprobs without ids"},
        {"{'event': 'text', 'id': 1, 'text': '', 'ids': [], 'logprobs': [0.5]}", "text: logprobs without ids"},
        {"{'event': 'text', 'id': 1, 'text': '', 'ids': [1], 'logprobs': ['x']}", "logprobs[0]: must be a number"},
        {"{'event': 'text', 'id': 1, 'text': '', 'top': 7}", "top: must be a list of at most 21 tokens"},
        {"{'event': 'text', 'id': 1, 'text': '', 'top': [[1, 0.5]]}", "top[0]: must be a list of three"},
        {"{'event': 'text', 'id': 1, 'text': '', 'top': [[-1, 0.5, '']]}", "top[0]: must begin with a token id"},
        {"{'event': 'text', 'id': 1, 'text': '', 'top': [[1, 0.5, '']]}", "top[0]: must end with bytes"},
        {"{'event': 'done', 'id': 1}", "done: missing key 'reason'"},
        {"{'event': 'done', 'id': 1, 'reason': 'bored'}",
         "reason: must be stop, length, cancel, context or tool_calls"},
        {"{'event': 'done', 'id': 1, 'reason': 'stop', 'usage': {'prompt': 'x'}}",
         "usage.prompt: must be a whole number"},
        {"{'event': 'done', 'id': 1, 'reason': 'stop', 'timings': []}", "timings: must be a map"},
        {"{'event': 'error', 'id': 1, 'message': 'm'}", "error: missing key 'code'"},
        {"{'event': 'done', 'id': 1, 'reason': 'stop', 'shifted': -1}", "shifted: must be a whole number"},
        {"{'event': 'done', 'id': 1, 'reason': 'stop', 'shifted': true}", "shifted: must be a whole number"},
        {"{'event': 'done', 'id': 1, 'reason': 'stop', 'cut_prefix': -1}", "cut_prefix: must be a whole number"},
        {"{'event': 'done', 'id': 1, 'reason': 'stop', 'cut_suffix': 'x'}", "cut_suffix: must be a whole number"},
        {"{'event': 'sessions', 'id': 1}", "sessions: missing key 'sessions'"},
        {"{'event': 'sessions', 'id': 1, 'sessions': []}", "sessions: must be a string"},
        {"{'event': 'sessions', 'sessions': '[]'}", "sessions: missing key 'id'"},
        {"{'event': 'ok'}", "ok: missing key 'id'"},
        {"{'event': 'embeddings', 'id': 1, 'tokens': [1]}", "embeddings: missing key 'vectors'"},
        {"{'event': 'embeddings', 'id': 1, 'vectors': b'abcd'}", "embeddings: missing key 'tokens'"},
        {"{'event': 'embeddings', 'id': 1, 'vectors': 'abcd', 'tokens': [1]}", "vectors: must be bytes of floats"},
        {"{'event': 'embeddings', 'id': 1, 'vectors': b'abc', 'tokens': [1]}", "vectors: must be bytes of floats"},
        {"{'event': 'embeddings', 'id': 1, 'vectors': b'', 'tokens': [1]}", "vectors: is empty"},
        {"{'event': 'embeddings', 'id': 1, 'vectors': b'abcd', 'tokens': []}",
         "tokens: must be a list of 1 to 16384 numbers"},
        {"{'event': 'embeddings', 'id': 1, 'vectors': b'abcd', 'tokens': [-1]}",
         "tokens: element 0 is not a number of tokens"},
        {"{'event': 'embeddings', 'id': 1, 'vectors': b'abcdabcdabcd', 'tokens': [1, 1]}",
         "embeddings: 3 values for 2 texts"},
        {"{'event': 'embeddings', 'id': 1, 'vectors': b'abcd', 'tokens': [1], 'first': 16384}",
         "embeddings: more texts than a request has"},
        {"{'event': 'scores', 'id': 1, 'scores': b'abcdabcd', 'tokens': [1]}",
         "scores: more than one score for a text"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct proto_event e;
        int r = read_event(&e, bad[i][0]);

        if (r != -EINVAL) fail_msg("%s: %d", bad[i][0], r);
        assert_string_equal(error_text(r), bad[i][1]);
        assert_null(e.tokens.ids);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_keys_are_named),
        cmocka_unit_test(keys_that_are_missing_or_twice),
        cmocka_unit_test(versions),
        cmocka_unit_test(texts_to_embed),
        cmocka_unit_test(prompts),
        cmocka_unit_test(invalid_utf8_is_found_everywhere),
        cmocka_unit_test(ranges),
        cmocka_unit_test(infill_has_keys_of_its_own),
        cmocka_unit_test(warm_is_read_like_generate),
        cmocka_unit_test(session_requests),
        cmocka_unit_test(ends_of_ranges_are_in),
        cmocka_unit_test(tools_and_thinking),
        cmocka_unit_test(messages_with_calls),
        cmocka_unit_test(parts_are_joined),
        cmocka_unit_test(a_prompt_may_be_bytes),
        cmocka_unit_test(bodies_that_are_no_message),
        cmocka_unit_test(events_of_a_newer_daemon_are_unknown),
        cmocka_unit_test(events_that_are_wrong),
    };

    return cmocka_run_group_tests_name("proto-refuse", tests, NULL, NULL);
}
