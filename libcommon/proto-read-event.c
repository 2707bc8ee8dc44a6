/* SPDX-License-Identifier: MIT */
#include "libcommon/error.h"
#include "libcommon/proto-read.h"
#include <stddef.h>
#include <stdlib.h>

static int read_channel(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                        const struct field *f)
{
    static const char *const known[] = {"answer", "thinking"};

    if (o->type != MSGPACK_OBJECT_STR) return proto_bad(where, "must be a string");
    *(const char **)at = "other";
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (proto_is(o, known[i])) *(const char **)at = known[i];
    return 0;
}

static const struct {
    enum proto_feature feature;
    const char *name;
} known_features[] = {{PROTO_FEATURE_CONSTRAINT, "constraint"},
                      {PROTO_FEATURE_THINKING, "thinking"},
                      {PROTO_FEATURE_TOOLS, "tools"},
                      {PROTO_FEATURE_MEDIA, "media"},
                      {PROTO_FEATURE_EMBED, "embed"}};

enum { N_FEATURES = sizeof(known_features) / sizeof(*known_features) };

const char *proto_feature_name(uint32_t features)
{
    for (int i = 0; i < N_FEATURES; i++)
        if (features & known_features[i].feature) return known_features[i].name;
    return "";
}

static int read_features(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                         const struct field *f)
{
    int r = proto_read_strings(in, where, o, at, f);
    for (uint32_t i = 0; r == 0 && i < o->via.array.size; i++)
        for (int k = 0; k < N_FEATURES; k++)
            if (proto_is(&o->via.array.ptr[i], known_features[k].name)) *(uint32_t *)at |= known_features[k].feature;
    return r;
}

/* ids and logprobs share their count: whichever comes second is compared. */
static int check_list(const struct place *where, const msgpack_object *o, const struct proto_event *e, bool have_other)
{
    if (o->type != MSGPACK_OBJECT_ARRAY) return proto_bad(where, "must be a list of numbers");
    if (have_other && o->via.array.size != e->tokens.n) return proto_bad(where, "ids and logprobs differ in number");
    return 0;
}

static int read_ids(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                    const struct field *f)
{
    struct proto_event *e = at;
    int r = check_list(where, o, e, e->tokens.logprobs);
    if (r < 0) return r;
    if (!o->via.array.size) return 0;
    e->tokens.n = o->via.array.size;
    e->tokens.ids = calloc(e->tokens.n, sizeof(*e->tokens.ids));
    if (!e->tokens.ids) return -ENOMEM;
    for (size_t i = 0; i < e->tokens.n; i++) {
        const msgpack_object *id = &o->via.array.ptr[i];

        if (id->type != MSGPACK_OBJECT_POSITIVE_INTEGER || id->via.u64 > INT32_MAX)
            return proto_bad(where, "element %zu is not a token id", i);
        e->tokens.ids[i] = (int32_t)id->via.u64;
    }
    return 0;
}

static int read_logprobs(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                         const struct field *f)
{
    struct proto_event *e = at;
    int r = check_list(where, o, e, e->tokens.ids);
    if (r < 0) return r;
    if (!o->via.array.size) return 0;
    e->tokens.n = o->via.array.size;
    e->tokens.logprobs = calloc(e->tokens.n, sizeof(*e->tokens.logprobs));
    if (!e->tokens.logprobs) return -ENOMEM;
    for (size_t i = 0; i < e->tokens.n; i++) {
        const struct place inside = {where, NULL, i};
        double v;

        r = proto_read_double(in, &inside, &o->via.array.ptr[i], &v, f);
        if (r < 0) return r;
        e->tokens.logprobs[i] = (float)v;
    }
    return 0;
}

static int read_token(struct reading *in, const struct place *where, const msgpack_object *o, struct proto_token *t)
{
    static const struct field any = {0};
    double logprob;
    if (o->type != MSGPACK_OBJECT_ARRAY || o->via.array.size != 3) return proto_bad(where, "must be a list of three");
    const msgpack_object *id = &o->via.array.ptr[0], *bytes = &o->via.array.ptr[2];
    if (id->type != MSGPACK_OBJECT_POSITIVE_INTEGER || id->via.u64 > INT32_MAX)
        return proto_bad(where, "must begin with a token id");
    if (bytes->type != MSGPACK_OBJECT_BIN) return proto_bad(where, "must end with bytes");
    int r = proto_read_double(in, where, &o->via.array.ptr[1], &logprob, &any);
    if (r == 0) r = proto_text_set(&t->text, bytes->via.bin.ptr, bytes->via.bin.size);
    if (r < 0) return r;
    t->id = (int32_t)id->via.u64;
    t->logprob = (float)logprob;
    return 0;
}

static int read_top(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                    const struct field *f)
{
    struct proto_event *e = at;
    if (o->type != MSGPACK_OBJECT_ARRAY || o->via.array.size > PROTO_TOP_MAX + 1)
        return proto_bad(where, "must be a list of at most %d tokens", PROTO_TOP_MAX + 1);
    if (!o->via.array.size) return 0;
    e->tokens.top = calloc(o->via.array.size, sizeof(*e->tokens.top));
    if (!e->tokens.top) return -ENOMEM;
    for (int r; e->tokens.n_top < o->via.array.size;) {
        const struct place inside = {where, NULL, e->tokens.n_top};
        struct proto_token *t = &e->tokens.top[e->tokens.n_top++];
        r = read_token(in, &inside, &o->via.array.ptr[e->tokens.n_top - 1], t);
        if (r < 0) return r;
    }
    return 0;
}

static int read_reason(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                       const struct field *f)
{
    for (int i = PROTO_STOP_EOS; i <= PROTO_STOP_TOOL_CALLS; i++)
        if (proto_is(o, proto_reason_name((enum proto_reason)i))) {
            *(enum proto_reason *)at = (enum proto_reason)i;
            return 0;
        }
    return proto_bad(where, "must be stop, length, cancel, context or tool_calls");
}

static int read_code(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                     const struct field *f)
{
    if (o->type != MSGPACK_OBJECT_STR) return proto_bad(where, "must be a string");
    char name[64];
    *(int *)at = proto_errno_value(proto_printable(name, o->via.str.ptr, o->via.str.size));
    return 0;
}

#define AT(member) offsetof(struct proto_event, member)

static int read_usage(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                      const struct field *f)
{
    static const struct field fields[] = {
        {.key = "prompt", .read = proto_read_u64, .offset = AT(usage_prompt)},
        {.key = "cached", .read = proto_read_u64, .offset = AT(usage_cached)},
        {.key = "completion", .read = proto_read_u64, .offset = AT(usage_completion)},
        {.key = "thinking", .read = proto_read_u64, .offset = AT(usage_thinking)},
        {.key = "drafted", .read = proto_read_u64, .offset = AT(usage_drafted)},
        {.key = "accepted", .read = proto_read_u64, .offset = AT(usage_accepted)},
        {.key = "drafted_model", .read = proto_read_u64, .offset = AT(usage_drafted_model)},
    };
    return proto_read_map(in, where, o, fields, sizeof(fields) / sizeof(*fields), at);
}

static int read_timings(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                        const struct field *f)
{
    static const struct field fields[] = {
        {.key = "queue_ms", .read = proto_read_double, .offset = AT(queue_ms)},
        {.key = "prefill_ms", .read = proto_read_double, .offset = AT(prefill_ms)},
        {.key = "decode_ms", .read = proto_read_double, .offset = AT(decode_ms)},
        {.key = "ttft_ms", .read = proto_read_double, .offset = AT(ttft_ms)},
    };
    return proto_read_map(in, where, o, fields, sizeof(fields) / sizeof(*fields), at);
}

static int read_energy(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                       const struct field *f)
{
    static const struct field fields[] = {
        {.key = "prompt_j", .read = proto_read_double, .offset = AT(energy.prompt_j)},
        {.key = "token_j", .read = proto_read_double, .offset = AT(energy.token_j)},
        {.key = "saved_j", .read = proto_read_double, .offset = AT(energy.saved_j)},
    };
    ((struct proto_event *)at)->energy.known = true;
    return proto_read_map(in, where, o, fields, sizeof(fields) / sizeof(*fields), at);
}

static int read_kind(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                     const struct field *f)
{
    char name[64];
    if (o->type != MSGPACK_OBJECT_STR) return proto_bad(where, "must be a string");
    *(enum proto_media_kind *)at = proto_media_value(proto_printable(name, o->via.str.ptr, o->via.str.size));
    return *(enum proto_media_kind *)at ? 0 : proto_bad(where, "must be image or audio");
}

static int read_media(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                      const struct field *f)
{
    static const struct field fields[] = {
        {.key = "kind", .read = read_kind, .offset = offsetof(struct proto_media_usage, kind), .required = true},
        {.key = "tokens", .read = proto_read_u32, .offset = offsetof(struct proto_media_usage, tokens)},
        {.key = "cached", .read = proto_read_bool, .offset = offsetof(struct proto_media_usage, cached)},
        {.key = "encode_ms", .read = proto_read_double, .offset = offsetof(struct proto_media_usage, encode_ms)},
    };
    struct proto_event *e = at;
    if (o->type != MSGPACK_OBJECT_ARRAY || o->via.array.size > PROTO_MEDIA_MAX)
        return proto_bad(where, "must be a list of at most %d maps", PROTO_MEDIA_MAX);
    if (!o->via.array.size) return 0;
    e->media = calloc(o->via.array.size, sizeof(*e->media));
    if (!e->media) return -ENOMEM;
    for (int r; e->n_media < o->via.array.size; e->n_media++) {
        const struct place inside = {where, NULL, e->n_media};
        r = proto_read_map(in, &inside, &o->via.array.ptr[e->n_media], fields, sizeof(fields) / sizeof(*fields),
                           &e->media[e->n_media]);
        if (r < 0) return r;
    }
    return 0;
}

#define FIELD_ID                                                                                                       \
    {                                                                                                                  \
        .key = "id", .read = proto_read_u64, .offset = AT(id), .required = true                                        \
    }
#define FIELD_INDEX                                                                                                    \
    {                                                                                                                  \
        .key = "index", .read = proto_read_u32, .offset = AT(index)                                                    \
    }
#define FIELD_MORE                                                                                                     \
    {                                                                                                                  \
        .key = "more", .read = proto_read_bool, .offset = AT(more)                                                     \
    }

static const struct field hello_fields[] = {
    {.key = "version", .read = proto_read_u32, .offset = AT(version), .required = true},
    {.key = "features", .read = read_features, .offset = AT(features)},
};
static const struct field queued_fields[] = {
    FIELD_ID,
    {.key = "position", .read = proto_read_u32, .offset = AT(position)},
};
static const struct field prefill_fields[] = {
    FIELD_ID,
    FIELD_INDEX,
    {.key = "done", .read = proto_read_u64, .offset = AT(done)},
    {.key = "total", .read = proto_read_u64, .offset = AT(total)},
    {.key = "cached", .read = proto_read_u64, .offset = AT(cached)},
};
static const struct field text_fields[] = {
    FIELD_ID,
    FIELD_INDEX,
    {.key = "channel", .read = read_channel, .offset = AT(channel)},
    {.key = "text", .read = proto_read_text, .offset = AT(text), .required = true},
    {.key = "ids", .read = read_ids},
    {.key = "logprobs", .read = read_logprobs},
    {.key = "top", .read = read_top},
};
static const struct field tool_call_fields[] = {
    FIELD_ID,
    FIELD_INDEX,
    {.key = "call", .read = proto_read_u32, .offset = AT(part.number)},
    {.key = "call_id", .read = proto_read_text, .offset = AT(part.call.id)},
    {.key = "name", .read = proto_read_text, .offset = AT(part.call.name)},
    {.key = "arguments", .read = proto_read_text, .offset = AT(part.call.arguments)},
    {.key = "withdrawn", .read = proto_read_bool, .offset = AT(part.withdrawn)},
};
static const struct field warning_fields[] = {
    FIELD_ID,
    FIELD_INDEX,
    {.key = "message", .read = proto_read_text, .offset = AT(message), .required = true},
};
static const struct field done_fields[] = {
    FIELD_ID,
    FIELD_INDEX,
    FIELD_MORE,
    {.key = "reason", .read = read_reason, .offset = AT(reason), .required = true},
    {.key = "usage", .read = read_usage},
    {.key = "timings", .read = read_timings},
    {.key = "energy", .read = read_energy},
    {.key = "media", .read = read_media},
    {.key = "session", .read = proto_read_text, .offset = AT(session)},
    {.key = "miss_at", .read = proto_read_i64, .offset = AT(miss_at)},
    {.key = "shifted", .read = proto_read_u64, .offset = AT(cut.shifted)},
    {.key = "cut_prefix", .read = proto_read_u64, .offset = AT(cut.prefix)},
    {.key = "cut_suffix", .read = proto_read_u64, .offset = AT(cut.suffix)},
    {.key = "seed", .read = proto_read_i64, .offset = AT(seed)},
};
static const struct field error_fields[] = {
    FIELD_ID,
    FIELD_INDEX,
    FIELD_MORE,
    {.key = "code", .read = read_code, .offset = AT(code), .required = true},
    {.key = "message", .read = proto_read_text, .offset = AT(message)},
};
static const struct field tokens_fields[] = {
    FIELD_ID,
    {.key = "ids", .read = read_ids, .required = true},
};
static const struct field status_fields[] = {
    FIELD_ID,
    {.key = "status", .read = proto_read_text, .offset = AT(status), .required = true},
};
static const struct field detokenized_fields[] = {
    FIELD_ID,
    {.key = "text", .read = proto_read_text, .offset = AT(text), .required = true},
};
static const struct field sessions_fields[] = {
    FIELD_ID,
    {.key = "sessions", .read = proto_read_text, .offset = AT(sessions), .required = true},
    {.key = "next", .read = proto_read_text, .offset = AT(next)},
};
static const struct field id_fields[] = {FIELD_ID};

#define FIELDS(f) f, sizeof(f) / sizeof(*(f))

static const struct {
    const char *name;
    enum proto_event_type type;
    const struct field *fields;
    size_t n_fields;
} types[] = {
    {"hello", PROTO_EV_HELLO, FIELDS(hello_fields)},
    {"queued", PROTO_EV_QUEUED, FIELDS(queued_fields)},
    {"prefill", PROTO_EV_PREFILL, FIELDS(prefill_fields)},
    {"text", PROTO_EV_TEXT, FIELDS(text_fields)},
    {"done", PROTO_EV_DONE, FIELDS(done_fields)},
    {"error", PROTO_EV_ERROR, FIELDS(error_fields)},
    {"tokens", PROTO_EV_TOKENS, FIELDS(tokens_fields)},
    {"detokenized", PROTO_EV_DETOKENIZED, FIELDS(detokenized_fields)},
    {"status", PROTO_EV_STATUS, FIELDS(status_fields)},
    {"stopping", PROTO_EV_STOPPING, FIELDS(id_fields)},
    {"sessions", PROTO_EV_SESSIONS, FIELDS(sessions_fields)},
    {"ok", PROTO_EV_OK, FIELDS(id_fields)},
    {"tool_call", PROTO_EV_TOOL_CALL, FIELDS(tool_call_fields)},
    {"warning", PROTO_EV_WARNING, FIELDS(warning_fields)},
    {"embeddings", PROTO_EV_EMBEDDINGS, FIELDS(proto_embeddings_fields)},
    {"scores", PROTO_EV_SCORES, FIELDS(proto_scores_fields)},
};

static int read_event(struct proto_event *e, const msgpack_object *o)
{
    const msgpack_object *type = proto_find(o, "event"), *id = proto_find(o, "id");
    struct place where = {NULL, "event", 0};
    struct reading in = {.lenient = true};
    size_t i = 0;
    int r = 0;
    if (id && id->type == MSGPACK_OBJECT_POSITIVE_INTEGER) e->id = id->via.u64;
    if (!type) return proto_bad(&where, "missing key 'event'");
    if (type->type != MSGPACK_OBJECT_STR) return proto_bad(&where, "event must be a string");
    while (i < sizeof(types) / sizeof(*types) && !proto_is(type, types[i].name)) i++;
    if (i == sizeof(types) / sizeof(*types)) {
        e->type = PROTO_EV_UNKNOWN;
        return 0;
    }
    e->type = types[i].type;
    where.key = types[i].name;
    if (e->type == PROTO_EV_HELLO) r = proto_read_version(&where, o, &e->version);
    if (r == 0) r = proto_read_map(&in, &where, o, types[i].fields, types[i].n_fields, e);
    if (r == 0 && e->tokens.logprobs && !e->tokens.ids) r = proto_bad(&where, "logprobs without ids");
    if (r == 0 && e->vectors.values) r = proto_check_vectors(&where, e);
    return r;
}

int proto_read_event(struct proto_event *e, const char *body, size_t len)
{
    *e = (struct proto_event){.channel = "answer", .miss_at = -1, .seed = -1};
    msgpack_unpacked u;
    int r = proto_unpack(&u, body, len);
    if (r == 0) r = read_event(e, &u.data);
    msgpack_unpacked_destroy(&u);
    if (r < 0) {
        const struct proto_event kept = {.type = e->type, .id = e->id, .version = e->version};

        proto_event_fini(e);
        *e = kept;
    }
    return r;
}
