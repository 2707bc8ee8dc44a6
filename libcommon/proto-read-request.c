/* SPDX-License-Identifier: MIT */
#include "libcommon/error.h"
#include "libcommon/proto-read.h"
#include "libcommon/utf8.h"
#include <ctype.h>
#include <float.h>
#include <string.h>

/* A string or bytes; both have to be UTF-8, which is what tokenizers take. */
static int read_prompt(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                       const struct field *f)
{
    msgpack_object text = *o;
    if (o->type == MSGPACK_OBJECT_BIN) {
        text.type = MSGPACK_OBJECT_STR;
        text.via.str.ptr = o->via.bin.ptr;
        text.via.str.size = o->via.bin.size;
    }
    return proto_read_text(in, where, &text, at, f);
}

static int read_stops(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                      const struct field *f)
{
    static const struct field each = {.lo = 1};
    struct proto_generate *g = at;
    if (o->type != MSGPACK_OBJECT_ARRAY) return proto_bad(where, "must be a list of strings");
    if (o->via.array.size > PROTO_STOPS_MAX)
        return proto_bad(where, "has %u strings, the limit is %d", (unsigned)o->via.array.size, PROTO_STOPS_MAX);
    for (uint32_t i = 0; i < o->via.array.size; i++) {
        const struct place inside = {where, NULL, i};
        int r = proto_read_text(in, &inside, &o->via.array.ptr[i], &g->stop[i], &each);

        if (r < 0) return r;
        g->n_stop++;
    }
    return 0;
}

static int read_ids(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                    const struct field *f)
{
    struct proto_request *r = at;
    size_t n = o->type == MSGPACK_OBJECT_ARRAY ? o->via.array.size : 0;
    if (o->type != MSGPACK_OBJECT_ARRAY) return proto_bad(where, "must be a list of token ids");
    if (!n) return 0;
    r->ids = calloc(n, sizeof(*r->ids));
    if (!r->ids) return -ENOMEM;
    r->n_ids = n;
    in->bytes += n * sizeof(*r->ids);
    for (size_t i = 0; i < n; i++) {
        const msgpack_object *id = &o->via.array.ptr[i];
        if (id->type != MSGPACK_OBJECT_POSITIVE_INTEGER || id->via.u64 > INT32_MAX)
            return proto_bad(where, "element %zu is not a token id", i);
        r->ids[i] = (int32_t)id->via.u64;
    }
    return 0;
}

/* [id or text, bias] */
static int read_bias(struct reading *in, const struct place *where, const msgpack_object *o, struct proto_bias *b)
{
    static const struct field id = {.hi = INT32_MAX, .wanted = "a token's id or text"};
    static const struct field text = {.lo = 1, .hi = PROTO_BIAS_TEXT_MAX};
    static const struct field bias = {.flo = -100, .fhi = 100, .wanted = "a number from -100 to 100"};
    const struct place token_at = {where, NULL, 0}, bias_at = {where, NULL, 1};
    const msgpack_object *pair = o->via.array.ptr;
    if (o->type != MSGPACK_OBJECT_ARRAY || o->via.array.size != 2)
        return proto_bad(where, "must be a list of a token and a number");
    int r;
    if (pair[0].type == MSGPACK_OBJECT_STR)
        r = proto_read_text(in, &token_at, &pair[0], &b->text, &text);
    else
        r = proto_read_i64(in, &token_at, &pair[0], &b->id, &id);
    return r < 0 ? r : proto_read_float(in, &bias_at, &pair[1], &b->bias, &bias);
}

static int read_biases(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                       const struct field *f)
{
    struct proto_generate *g = at;
    size_t n = o->type == MSGPACK_OBJECT_ARRAY ? o->via.array.size : 0;
    int r = 0;
    if (o->type != MSGPACK_OBJECT_ARRAY) return proto_bad(where, "must be a list of tokens and numbers");
    if (n > PROTO_BIASES_MAX) return proto_bad(where, "has %zu tokens, the limit is %d", n, PROTO_BIASES_MAX);
    if (!n) return 0;
    g->biases = calloc(n, sizeof(*g->biases));
    if (!g->biases) return -ENOMEM;
    g->n_biases = n;
    in->bytes += n * sizeof(*g->biases);
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct place inside = {where, NULL, i};

        r = read_bias(in, &inside, &o->via.array.ptr[i], &g->biases[i]);
    }
    return r;
}

static int read_uuid(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                     const struct field *f)
{
    char *uuid = at;
    size_t n = o->type == MSGPACK_OBJECT_STR ? o->via.str.size : 0;
    if (!n || n >= sizeof((struct proto_generate *)NULL)->uuid)
        return proto_bad(where, "must be 1 to 39 letters, digits and dashes");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)o->via.str.ptr[i];

        if (c >= 0x80 || (!isalnum(c) && c != '-'))
            return proto_bad(where, "must be 1 to 39 letters, digits and dashes");
    }
    memcpy(uuid, o->via.str.ptr, n);
    uuid[n] = 0;
    return 0;
}

/* A session's name is printed, typed and part of a file's name. */
static int read_session(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                        const struct field *f)
{
    struct proto_text *name = at;
    int r = proto_read_text(in, where, o, at, f);
    for (size_t i = 0; r == 0 && i < name->len; i++) {
        unsigned char c = (unsigned char)name->data[i];

        if (c < ' ' || c == 0x7f || c == '/') return proto_bad(where, "must not contain '/' or control characters");
    }
    return r;
}

static int read_context(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                        const struct field *f)
{
    for (int c = PROTO_CONTEXT_REFUSE; c <= PROTO_CONTEXT_ROTATE; c++)
        if (proto_is(o, proto_context_name((enum proto_context)c))) {
            *(enum proto_context *)at = (enum proto_context)c;
            return 0;
        }
    return proto_bad(where, "must be refuse, shift or rotate");
}

int proto_read_priority(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                        const struct field *f)
{
    for (int p = PROTO_PRIORITY_INFILL; p <= PROTO_PRIORITY_BATCH; p++)
        if (proto_is(o, proto_priority_name((enum proto_priority)p))) {
            *(enum proto_priority *)at = (enum proto_priority)p;
            return 0;
        }
    return proto_bad(where, "must be infill, interactive or batch");
}

/* Descriptors that the peer sends with the message. read_request has stored their number. */
static int read_fds(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                    const struct field *f)
{
    return in->n_fds ? 0 : proto_bad(where, "must be a whole number from 1 to %d", PROTO_MEDIA_MAX);
}

static int read_speculate(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                          const struct field *f)
{
    for (int s = PROTO_SPECULATE_AUTO; s <= PROTO_SPECULATE_DRAFT; s++)
        if (proto_is(o, proto_speculate_name((enum proto_speculate)s))) {
            *(enum proto_speculate *)at = (enum proto_speculate)s;
            return 0;
        }
    return proto_bad(where, "must be auto, off, lookup or draft");
}

#define AT(member)       offsetof(struct proto_request, member)
#define SAMPLING(member) offsetof(struct proto_request, gen.sampling.member)

/* 0 is the id of events that answer no request. */
#define FIELD_TYPE                                                                                                     \
    {                                                                                                                  \
        .key = "type", .read = proto_read_skip                                                                         \
    }
#define FIELD_ID                                                                                                       \
    {                                                                                                                  \
        .key = "id", .read = proto_read_u64, .offset = AT(id), .required = true, .lo = 1,                              \
        .wanted = "a whole number from 1 to 2^64-1"                                                                    \
    }

#define FIELD_SESSION(name, member, must)                                                                              \
    {                                                                                                                  \
        .key = name, .read = read_session, .offset = AT(member), .required = must, .lo = 1, .hi = PROTO_NAME_MAX       \
    }

static const struct field hello_fields[] = {
    FIELD_TYPE,
    {.key = "version", .read = proto_read_u32, .offset = AT(version), .required = true},
    {.key = "features", .read = proto_read_strings},
    {.key = "software", .read = proto_read_skip},
    {.key = "user", .read = proto_read_text, .offset = AT(user), .lo = 1, .hi = PROTO_USER_MAX},
};

/* Of generate, of warm, which a script shall be able to ask with the same keys, and of infill. */
static const struct field generate_fields[] = {
    FIELD_TYPE,
    FIELD_ID,
    {.key = "uuid", .read = read_uuid, .offset = AT(gen.uuid)},
    {.key = "messages", .read = proto_read_messages, .offset = AT(gen)},
    {.key = "fds", .read = read_fds},
    {.key = "prompt", .read = read_prompt, .offset = AT(gen.prompt)},
    {.key = "prefix", .read = read_prompt, .offset = AT(gen.infill.prefix)},
    {.key = "suffix", .read = read_prompt, .offset = AT(gen.infill.suffix)},
    {.key = "max_lines",
     .read = proto_read_i64,
     .offset = AT(gen.infill.max_lines),
     .lo = 1,
     .hi = INT32_MAX,
     .wanted = "a whole number from 1 to 2147483647"},
    {.key = "raw", .read = proto_read_bool, .offset = AT(gen.raw)},
    {.key = "special", .read = proto_read_bool, .offset = AT(gen.special)},
    FIELD_SESSION("session", gen.session, false),
    {.key = "continue", .read = proto_read_bool, .offset = AT(gen.continue_last)},
    FIELD_SESSION("fork", gen.fork, false),
    {.key = "note", .read = proto_read_text, .offset = AT(note), .lo = 1, .hi = PROTO_NOTE_MAX},
    {.key = "wait", .read = proto_read_bool, .offset = AT(gen.wait)},
    {.key = "context", .read = read_context, .offset = AT(gen.context)},
    {.key = "priority", .read = proto_read_priority, .offset = AT(gen.priority)},
    {.key = "speculate", .read = read_speculate, .offset = AT(speculate)},
    {.key = "adapter", .read = proto_read_text, .offset = AT(adapter), .lo = 1, .hi = PROTO_NAME_MAX},
    {.key = "salt", .read = proto_read_text, .offset = AT(gen.salt), .lo = 1, .hi = PROTO_SALT_MAX},
    {.key = "max_tokens",
     .read = proto_read_i64,
     .offset = AT(gen.max_tokens),
     .lo = 1,
     .hi = INT32_MAX,
     .wanted = "a whole number from 1 to 2147483647"},
    {.key = "n",
     .read = proto_read_u32,
     .offset = AT(gen.n),
     .lo = 1,
     .hi = PROTO_ANSWERS_MAX,
     .wanted = "a whole number from 1 to 32"},
    {.key = "detach", .read = proto_read_bool, .offset = AT(gen.detach)},
    {.key = "ignore_eos", .read = proto_read_bool, .offset = AT(gen.ignore_eos)},
    {.key = "logprobs", .read = proto_read_bool, .offset = AT(gen.logprobs)},
    {.key = "top_logprobs",
     .read = proto_read_i64,
     .offset = AT(gen.top_logprobs),
     .hi = PROTO_TOP_MAX,
     .wanted = "a whole number from 0 to 20"},
    {.key = "temperature",
     .read = proto_read_float,
     .offset = SAMPLING(temperature),
     .fhi = 100,
     .wanted = "a number from 0 to 100"},
    {.key = "top_p", .read = proto_read_float, .offset = SAMPLING(top_p), .fhi = 1, .wanted = "a number from 0 to 1"},
    {.key = "min_p", .read = proto_read_float, .offset = SAMPLING(min_p), .fhi = 1, .wanted = "a number from 0 to 1"},
    {.key = "top_k",
     .read = proto_read_i64,
     .offset = SAMPLING(top_k),
     .hi = INT32_MAX,
     .wanted = "a whole number from 0 to 2147483647"},
    {.key = "repeat_penalty",
     .read = proto_read_float,
     .offset = SAMPLING(repeat_penalty),
     .flo = FLT_MIN,
     .fhi = 10,
     .wanted = "a number above 0, at most 10"},
    {.key = "seed", .read = proto_read_i64, .offset = SAMPLING(seed), .wanted = "a whole number from 0 to 2^63-1"},
    {.key = "stop", .read = read_stops, .offset = AT(gen)},
    {.key = "typical_p",
     .read = proto_read_float,
     .offset = SAMPLING(typical_p),
     .fhi = 1,
     .wanted = "a number from 0 to 1"},
    {.key = "frequency_penalty",
     .read = proto_read_float,
     .offset = SAMPLING(frequency_penalty),
     .flo = -2,
     .fhi = 2,
     .wanted = "a number from -2 to 2"},
    {.key = "presence_penalty",
     .read = proto_read_float,
     .offset = SAMPLING(presence_penalty),
     .flo = -2,
     .fhi = 2,
     .wanted = "a number from -2 to 2"},
    {.key = "repeat_last_n",
     .read = proto_read_i64,
     .offset = SAMPLING(repeat_last_n),
     .hi = INT32_MAX,
     .wanted = "a whole number from 0 to 2147483647"},
    {.key = "mirostat",
     .read = proto_read_float,
     .offset = SAMPLING(mirostat),
     .fhi = 100,
     .wanted = "a number from 0 to 100"},
    {.key = "mirostat_eta",
     .read = proto_read_float,
     .offset = SAMPLING(mirostat_eta),
     .flo = FLT_MIN,
     .fhi = 1,
     .wanted = "a number above 0, at most 1"},
    {.key = "logit_bias", .read = read_biases, .offset = AT(gen)},
    {.key = "constraint", .read = proto_read_constraint, .offset = AT(constraint)},
    {.key = "schema_lenient", .read = proto_read_bool, .offset = AT(constraint.schema_lenient)},
    {.key = "any_order", .read = proto_read_bool, .offset = AT(constraint.any_order)},
    {.key = "compact", .read = proto_read_bool, .offset = AT(constraint.compact)},
    {.key = "on_limit", .read = proto_read_on_limit, .offset = AT(constraint.on_limit)},
    {.key = "tools", .read = proto_read_text, .offset = AT(tools.list), .lo = 1, .hi = PROTO_TOOLS_MAX},
    {.key = "tool_choice", .read = proto_read_tool_choice, .offset = AT(tools.choice)},
    {.key = "tool_name", .read = proto_read_text, .offset = AT(tools.name), .lo = 1, .hi = PROTO_CALL_ID_MAX},
    {.key = "thinking", .read = proto_read_thinking, .offset = AT(thinking.mode)},
    {.key = "think_budget", .read = proto_read_budget, .offset = AT(thinking)},
    /* so that it can be given in nanoseconds */
    {.key = "timeout_ms",
     .read = proto_read_i64,
     .offset = AT(gen.timeout_ms),
     .hi = INT64_MAX / 1000000,
     .wanted = "a whole number from 0 to 9223372036854"},
};

static const struct field tokenize_fields[] = {
    FIELD_TYPE,
    FIELD_ID,
    {.key = "text", .read = proto_read_text, .offset = AT(text), .required = true},
    {.key = "special", .read = proto_read_bool, .offset = AT(special)},
};

static const struct field detokenize_fields[] = {
    FIELD_TYPE,
    FIELD_ID,
    {.key = "ids", .read = read_ids, .required = true},
    {.key = "special", .read = proto_read_bool, .offset = AT(special)},
};

static const struct field id_fields[] = {FIELD_TYPE, FIELD_ID};
static const struct field list_fields[] = {
    FIELD_TYPE,
    FIELD_ID,
    {.key = "after", .read = proto_read_text, .offset = AT(after), .lo = 1, .hi = PROTO_CURSOR_MAX},
    {.key = "limit",
     .read = proto_read_u32,
     .offset = AT(limit),
     .lo = 1,
     .hi = PROTO_PAGE_MAX,
     .wanted = "a whole number from 1 to 1000"},
};
static const struct field name_fields[] = {FIELD_TYPE, FIELD_ID, FIELD_SESSION("name", name, true)};
static const struct field names_fields[] = {
    FIELD_TYPE,
    FIELD_ID,
    FIELD_SESSION("name", name, true),
    FIELD_SESSION("to", to, true),
};

/* Keys that say nothing of a gap are refused, as unknown ones are. */
static int check_infill(const struct place *where, const struct proto_request *r)
{
    const struct proto_generate *g = &r->gen;
    const struct {
        const char *key;
        bool given;
    } others[] = {{"messages", g->messages},
                  {"prompt", g->prompt.data},
                  {"raw", g->raw},
                  {"special", g->special},
                  {"session", g->session.len},
                  {"continue", g->continue_last},
                  {"fork", g->fork.len},
                  {"note", r->note.len},
                  {"wait", g->wait},
                  {"context", g->context != PROTO_CONTEXT_UNSET},
                  {"n", g->n > 1},
                  {"detach", g->detach},
                  {"constraint", r->constraint.type},
                  {"tools", r->tools.list.data},
                  {"fds", r->n_fds},
                  {"thinking", r->thinking.mode},
                  {"think_budget", r->thinking.limited}};

    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (others[i].given) return proto_bad(where, "'%s' cannot be used with infill", others[i].key);
    if (!g->infill.prefix.len && !g->infill.suffix.len) return proto_bad(where, "prefix and suffix are both empty");
    if (g->n_stop == PROTO_STOPS_MAX)
        return proto_bad(where, "stop: infill uses one of the %d stop strings itself", PROTO_STOPS_MAX);
    return 0;
}

static int check_generate(const struct place *where, const struct proto_request *r)
{
    const struct proto_generate *g = &r->gen;
    if (g->infill.prefix.data || g->infill.suffix.data || g->infill.max_lines >= 0)
        return proto_bad(where, "'%s' can be used only with infill",
                         g->infill.prefix.data   ? "prefix"
                         : g->infill.suffix.data ? "suffix"
                                                 : "max_lines");
    if (!g->messages && !g->prompt.data) return proto_bad(where, "messages or prompt is missing");
    if (g->messages && g->prompt.data) return proto_bad(where, "messages and prompt cannot be used together");
    if (g->prompt.data && !g->raw) return proto_bad(where, "prompt needs raw: true (or send messages)");
    if (g->messages && g->raw) return proto_bad(where, "raw needs prompt, not messages");
    if (g->messages && g->special) return proto_bad(where, "special needs raw and prompt");
    if (g->session.len && g->continue_last) return proto_bad(where, "session and continue cannot be used together");
    if (g->fork.len && !g->session.len && !g->continue_last)
        return proto_bad(where, "fork needs session or continue, which select the session to fork");
    if (g->n > 1 && (g->session.len || g->continue_last))
        return proto_bad(where, "n cannot be used with a session, which stores one answer");
    if (g->detach && !g->session.len && !g->continue_last)
        return proto_bad(where, "detach needs session or continue, which store the answer");
    if (r->note.len && !g->session.len && !g->continue_last)
        return proto_bad(where, "note needs session or continue, which store it");
    if (r->constraint.type && (g->ignore_eos || g->n_stop))
        return proto_bad(where, "%s cannot be used with constraint, which determines the end of the answer",
                         g->n_stop ? "stop" : "ignore_eos");
    int e = proto_check_tools(where, r);
    if (e < 0) return e;
    if (g->prompt.data ? !g->prompt.len : proto_message_empty(&g->messages[g->n_messages - 1]))
        return proto_bad(where, "the prompt is empty");
    return 0;
}

#define FIELDS(f) f, sizeof(f) / sizeof(*(f))

static const struct {
    const char *name;
    enum proto_type type;
    const struct field *fields;
    size_t n_fields;
} types[] = {
    {"hello", PROTO_HELLO, FIELDS(hello_fields)},
    {"generate", PROTO_GENERATE, FIELDS(generate_fields)},
    {"warm", PROTO_WARM, FIELDS(generate_fields)},
    {"infill", PROTO_INFILL, FIELDS(generate_fields)},
    {"cancel", PROTO_CANCEL, FIELDS(id_fields)},
    {"tokenize", PROTO_TOKENIZE, FIELDS(tokenize_fields)},
    {"detokenize", PROTO_DETOKENIZE, FIELDS(detokenize_fields)},
    {"status", PROTO_STATUS, FIELDS(id_fields)},
    {"stop", PROTO_STOP, FIELDS(id_fields)},
    {"session.list", PROTO_SESSION_LIST, FIELDS(list_fields)},
    {"session.show", PROTO_SESSION_SHOW, FIELDS(name_fields)},
    {"session.fork", PROTO_SESSION_FORK, FIELDS(names_fields)},
    {"session.rename", PROTO_SESSION_RENAME, FIELDS(names_fields)},
    {"session.remove", PROTO_SESSION_REMOVE, FIELDS(name_fields)},
    {"embed", PROTO_EMBED, FIELDS(proto_embed_fields)},
    {"rank", PROTO_RANK, FIELDS(proto_rank_fields)},
};

/* A descriptor that no part names has no use. */
static int check_fds(const struct place *where, const struct reading *in)
{
    const struct place fds = {where, "fds", 0};
    for (uint32_t i = 0; i < in->n_fds; i++)
        if (!in->used[i]) return proto_bad(&fds, "no part names descriptor %u", (unsigned)i);
    return 0;
}

static int read_request(struct proto_request *r, const msgpack_object *o, struct reading *in)
{
    const msgpack_object *type = proto_find(o, "type"), *id = proto_find(o, "id");
    const msgpack_object *fds = proto_find(o, "fds");
    struct place where = {NULL, "request", 0};
    size_t i = 0;
    int e = 0;
    if (id && id->type == MSGPACK_OBJECT_POSITIVE_INTEGER) r->id = id->via.u64; /* for the answer to what is wrong */
    if (fds && fds->type == MSGPACK_OBJECT_POSITIVE_INTEGER && fds->via.u64 <= PROTO_MEDIA_MAX)
        r->n_fds = in->n_fds = (uint32_t)fds->via.u64; /* also of a message that is wrong */
    if (!type) return proto_bad(&where, "missing key 'type'");
    if (type->type != MSGPACK_OBJECT_STR) return proto_bad(&where, "type must be a string");
    while (i < sizeof(types) / sizeof(*types) && !proto_is(type, types[i].name)) i++;
    char name[64];
    if (i == sizeof(types) / sizeof(*types))
        return proto_bad(&where, "unknown type '%s'", proto_printable(name, type->via.str.ptr, type->via.str.size));
    r->type = types[i].type;
    where.key = types[i].name;
    /* Another version's hello may have keys that are unknown here. */
    if (r->type == PROTO_HELLO) e = proto_read_version(&where, o, &r->version);
    if (e == 0) e = proto_read_map(in, &where, o, types[i].fields, types[i].n_fields, r);
    if (e == 0) e = proto_check_constraint(&where, &r->constraint);
    if (e == 0 && (r->type == PROTO_GENERATE || r->type == PROTO_WARM)) e = check_generate(&where, r);
    if (e == 0 && (r->type == PROTO_GENERATE || r->type == PROTO_WARM)) e = check_fds(&where, in);
    if (e == 0 && r->type == PROTO_INFILL) e = check_infill(&where, r);
    r->bytes = in->bytes;
    return e;
}

static int read_body(struct proto_request *r, const char *body, size_t len, struct reading *in)
{
    *r = (struct proto_request){0};
    proto_generate_init(&r->gen);
    msgpack_unpacked u;
    int e = proto_unpack(&u, body, len);
    if (e == 0) e = read_request(r, &u.data, in);
    msgpack_unpacked_destroy(&u);
    if (e < 0) {
        const struct proto_request kept = {.type = r->type, .id = r->id, .version = r->version, .n_fds = r->n_fds};

        if (in->taken) *in->taken = (struct proto_text){0};
        proto_request_fini(r);
        *r = kept;
    }
    return e;
}

int proto_read_request(struct proto_request *r, const char *body, size_t len)
{
    struct reading in = {0};
    return read_body(r, body, len, &in);
}

int proto_take_request(struct proto_request *r, char **memory, const char *body, size_t len)
{
    struct reading in = {.take_least = len < PROTO_TAKE_MIN ? 0 : len - len / 8};
    int e = read_body(r, body, len, &in);
    if (e < 0 || !in.taken) return e;
    memmove(*memory, in.taken->data, in.taken->len);
    in.taken->data = *memory;
    in.taken->data[in.taken->len] = 0;
    *memory = NULL;
    return 0;
}
