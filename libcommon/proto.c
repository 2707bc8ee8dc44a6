/* SPDX-License-Identifier: MIT */
#include "libcommon/proto.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The codes of hob-protocol(7). Only they are on the wire: an errno's number differs between architectures. */
static const struct {
    int code;
    const char *name;
} errnos[] = {
    {EIO, "EIO"},
    {EBUSY, "EBUSY"},
    {EINVAL, "EINVAL"},
    {EBADMSG, "EBADMSG"},
    {EPROTO, "EPROTO"},
    {EMSGSIZE, "EMSGSIZE"},
    {ENOENT, "ENOENT"},
    {EEXIST, "EEXIST"},
    {EPERM, "EPERM"},
    {EACCES, "EACCES"},
    {E2BIG, "E2BIG"},
    {EILSEQ, "EILSEQ"},
    {ETIMEDOUT, "ETIMEDOUT"},
    {ECANCELED, "ECANCELED"},
    {ESHUTDOWN, "ESHUTDOWN"},
    {ENOMEM, "ENOMEM"},
    {EDQUOT, "EDQUOT"},
    {EOPNOTSUPP, "EOPNOTSUPP"},
    {ENOSPC, "ENOSPC"},
    {EDOM, "EDOM"},
    {EBADF, "EBADF"},
    {EFBIG, "EFBIG"},
};

const char *proto_errno_name(int code)
{
    for (size_t i = 0; i < sizeof(errnos) / sizeof(*errnos); i++)
        if (errnos[i].code == code) return errnos[i].name;
    return "EIO";
}

int proto_errno_value(const char *name)
{
    for (size_t i = 0; i < sizeof(errnos) / sizeof(*errnos); i++)
        if (strcmp(errnos[i].name, name) == 0) return errnos[i].code;
    return EIO;
}

bool proto_is_answer(const struct proto_event *e)
{
    return !e->channel || strcmp(e->channel, "answer") == 0;
}

size_t proto_media_encoded(const struct proto_event *e)
{
    size_t n = 0;
    for (size_t i = 0; i < e->n_media; i++) n += !e->media[i].cached;
    return n;
}

size_t proto_message_text(const struct proto_message *m)
{
    size_t n = m->role.len + m->content.len + m->thinking.len + m->call_id.len + m->name.len;
    for (size_t i = 0; i < m->n_calls; i++) n += m->calls[i].id.len + m->calls[i].name.len + m->calls[i].arguments.len;
    return n;
}

size_t proto_message_bytes(const struct proto_message *m)
{
    size_t n = proto_message_text(m);
    for (size_t i = 0; i < m->n_media; i++) n += blob_size(m->media[i].file);
    return n;
}

bool proto_message_empty(const struct proto_message *m)
{
    bool result = m->role.len == 4 && memcmp(m->role.data, "tool", 4) == 0; /* may be empty */
    return !m->content.len && !m->n_calls && !m->n_media && !result;
}

const char *proto_reason_name(enum proto_reason r)
{
    switch (r) {
    case PROTO_STOP_EOS:
        return "stop";
    case PROTO_STOP_LENGTH:
        return "length";
    case PROTO_STOP_CANCEL:
        return "cancel";
    case PROTO_STOP_CONTEXT:
        return "context";
    case PROTO_STOP_TOOL_CALLS:
        return "tool_calls";
    }
    return "stop";
}

const char *proto_context_name(enum proto_context c)
{
    static const char *const names[] = {
        [PROTO_CONTEXT_UNSET] = "",
        [PROTO_CONTEXT_REFUSE] = "refuse",
        [PROTO_CONTEXT_SHIFT] = "shift",
        [PROTO_CONTEXT_ROTATE] = "rotate",
    };

    return (unsigned)c < sizeof(names) / sizeof(*names) ? names[c] : "";
}

enum proto_context proto_context_value(const char *name)
{
    for (int c = PROTO_CONTEXT_REFUSE; c <= PROTO_CONTEXT_ROTATE; c++)
        if (strcmp(proto_context_name((enum proto_context)c), name) == 0) return (enum proto_context)c;
    return PROTO_CONTEXT_UNSET;
}

const char *proto_priority_name(enum proto_priority p)
{
    static const char *const names[] = {
        [PROTO_PRIORITY_UNSET] = "",
        [PROTO_PRIORITY_INFILL] = "infill",
        [PROTO_PRIORITY_INTERACTIVE] = "interactive",
        [PROTO_PRIORITY_BATCH] = "batch",
    };

    return (unsigned)p < sizeof(names) / sizeof(*names) ? names[p] : "";
}

enum proto_priority proto_priority_value(const char *name)
{
    for (int p = PROTO_PRIORITY_INFILL; p <= PROTO_PRIORITY_BATCH; p++)
        if (strcmp(proto_priority_name((enum proto_priority)p), name) == 0) return (enum proto_priority)p;
    return PROTO_PRIORITY_UNSET;
}

const char *proto_speculate_name(enum proto_speculate s)
{
    static const char *const names[] = {
        [PROTO_SPECULATE_UNSET] = "",        [PROTO_SPECULATE_AUTO] = "auto",   [PROTO_SPECULATE_OFF] = "off",
        [PROTO_SPECULATE_LOOKUP] = "lookup", [PROTO_SPECULATE_DRAFT] = "draft",
    };

    return (unsigned)s < sizeof(names) / sizeof(*names) ? names[s] : "";
}

enum proto_speculate proto_speculate_value(const char *name)
{
    for (int s = PROTO_SPECULATE_AUTO; s <= PROTO_SPECULATE_DRAFT; s++)
        if (strcmp(proto_speculate_name((enum proto_speculate)s), name) == 0) return (enum proto_speculate)s;
    return PROTO_SPECULATE_UNSET;
}

const char *proto_constraint_name(enum proto_constraint_type t)
{
    static const char *const names[] = {
        [PROTO_CONSTRAINT_NONE] = "",           [PROTO_CONSTRAINT_SCHEMA] = "schema",
        [PROTO_CONSTRAINT_GRAMMAR] = "grammar", [PROTO_CONSTRAINT_REGEX] = "regex",
        [PROTO_CONSTRAINT_CHOICE] = "choice",
    };

    return (unsigned)t < sizeof(names) / sizeof(*names) ? names[t] : "";
}

enum proto_constraint_type proto_constraint_value(const char *name)
{
    for (int t = PROTO_CONSTRAINT_SCHEMA; t <= PROTO_CONSTRAINT_CHOICE; t++)
        if (strcmp(proto_constraint_name((enum proto_constraint_type)t), name) == 0)
            return (enum proto_constraint_type)t;
    return PROTO_CONSTRAINT_NONE;
}

const char *proto_on_limit_name(enum proto_on_limit l)
{
    return l == PROTO_LIMIT_CLOSE ? "close" : l == PROTO_LIMIT_CUT ? "cut" : "";
}

enum proto_on_limit proto_on_limit_value(const char *name)
{
    if (strcmp(name, "close") == 0) return PROTO_LIMIT_CLOSE;
    return strcmp(name, "cut") == 0 ? PROTO_LIMIT_CUT : PROTO_LIMIT_UNSET;
}

const char *proto_tool_choice_name(enum proto_tool_choice c)
{
    static const char *const names[] = {
        [PROTO_TOOL_UNSET] = "",      [PROTO_TOOL_AUTO] = "auto",
        [PROTO_TOOL_NONE] = "none",   [PROTO_TOOL_REQUIRED] = "required",
        [PROTO_TOOL_NAMED] = "named",
    };

    return (unsigned)c < sizeof(names) / sizeof(*names) ? names[c] : "";
}

enum proto_tool_choice proto_tool_choice_value(const char *name)
{
    for (int c = PROTO_TOOL_AUTO; c <= PROTO_TOOL_NAMED; c++)
        if (strcmp(proto_tool_choice_name((enum proto_tool_choice)c), name) == 0) return (enum proto_tool_choice)c;
    return PROTO_TOOL_UNSET;
}

const char *proto_media_name(enum proto_media_kind kind)
{
    return kind == PROTO_MEDIA_SOUND ? "audio" : "image";
}

enum proto_media_kind proto_media_value(const char *name)
{
    if (strcmp(name, "image") == 0) return PROTO_MEDIA_IMAGE;
    return strcmp(name, "audio") == 0 ? PROTO_MEDIA_SOUND : (enum proto_media_kind)0;
}

const char *proto_thinking_name(enum proto_thinking_mode m)
{
    return m == PROTO_THINKING_ON ? "on" : m == PROTO_THINKING_OFF ? "off" : "";
}

enum proto_thinking_mode proto_thinking_value(const char *name)
{
    if (strcmp(name, "on") == 0) return PROTO_THINKING_ON;
    return strcmp(name, "off") == 0 ? PROTO_THINKING_OFF : PROTO_THINKING_UNSET;
}

void proto_sampling_init(struct proto_sampling *s)
{
    *s = (struct proto_sampling){
        .temperature = NAN,
        .top_p = NAN,
        .min_p = NAN,
        .repeat_penalty = NAN,
        .top_k = -1,
        .seed = -1,
        .typical_p = NAN,
        .frequency_penalty = NAN,
        .presence_penalty = NAN,
        .mirostat = NAN,
        .mirostat_eta = NAN,
        .repeat_last_n = -1,
    };
}

void proto_generate_init(struct proto_generate *g)
{
    *g = (struct proto_generate){.max_tokens = -1, .top_logprobs = -1, .timeout_ms = -1, .infill.max_lines = -1};
    proto_sampling_init(&g->sampling);
}

void proto_text_fini(struct proto_text *t)
{
    free(t->data);
    *t = (struct proto_text){0};
}

int proto_text_set(struct proto_text *t, const char *s, size_t len)
{
    char *data = len < SIZE_MAX ? malloc(len + 1) : NULL;
    if (!data) return -ENOMEM;
    if (len) memcpy(data, s, len);
    data[len] = 0;
    free(t->data);
    *t = (struct proto_text){data, len};
    return 0;
}

void proto_call_fini(struct proto_call *c)
{
    proto_text_fini(&c->id);
    proto_text_fini(&c->name);
    proto_text_fini(&c->arguments);
}

void proto_message_fini(struct proto_message *m)
{
    proto_text_fini(&m->role);
    proto_text_fini(&m->content);
    proto_text_fini(&m->thinking);
    for (size_t i = 0; i < m->n_calls; i++) proto_call_fini(&m->calls[i]);
    free(m->calls);
    for (size_t i = 0; i < m->n_media; i++) blob_unref(m->media[i].file);
    free(m->media);
    proto_text_fini(&m->call_id);
    proto_text_fini(&m->name);
    *m = (struct proto_message){0};
}

void proto_tools_fini(struct proto_tools *t)
{
    proto_text_fini(&t->list);
    proto_text_fini(&t->name);
    *t = (struct proto_tools){0};
}

static void generate_fini(struct proto_generate *g)
{
    proto_text_fini(&g->prompt);
    proto_text_fini(&g->infill.prefix);
    proto_text_fini(&g->infill.suffix);
    proto_text_fini(&g->session);
    proto_text_fini(&g->fork);
    proto_text_fini(&g->salt);
    for (size_t i = 0; i < g->n_messages; i++) proto_message_fini(&g->messages[i]);
    free(g->messages);
    for (size_t i = 0; i < g->n_stop; i++) proto_text_fini(&g->stop[i]);
    for (size_t i = 0; i < g->n_biases; i++) proto_text_fini(&g->biases[i].text);
    free(g->biases);
}

void proto_request_fini(struct proto_request *r)
{
    proto_text_fini(&r->user);
    generate_fini(&r->gen);
    proto_text_fini(&r->constraint.text);
    for (size_t i = 0; i < r->constraint.n_choices; i++) proto_text_fini(&r->constraint.choices[i]);
    free(r->constraint.choices);
    proto_tools_fini(&r->tools);
    proto_text_fini(&r->note);
    proto_text_fini(&r->adapter);
    proto_text_fini(&r->text);
    free(r->ids);
    proto_text_fini(&r->name);
    proto_text_fini(&r->to);
    proto_text_fini(&r->after);
    proto_embed_fini(&r->embed);
    *r = (struct proto_request){0};
}

void proto_event_fini(struct proto_event *e)
{
    proto_text_fini(&e->text);
    proto_text_fini(&e->session);
    proto_text_fini(&e->message);
    proto_text_fini(&e->status);
    proto_text_fini(&e->sessions);
    proto_text_fini(&e->next);
    proto_call_fini(&e->part.call);
    free(e->tokens.ids);
    free(e->tokens.logprobs);
    for (size_t i = 0; i < e->tokens.n_top; i++) proto_text_fini(&e->tokens.top[i].text);
    free(e->tokens.top);
    free(e->media);
    proto_vectors_fini(&e->vectors);
    *e = (struct proto_event){0};
}
