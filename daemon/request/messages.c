/* SPDX-License-Identifier: MIT */
#include "daemon/request/messages.h"
#include "daemon/output/harmony.h"
#include "daemon/request/message-json.h"
#include "libcommon/blob.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <string.h>

static bool same(const struct proto_text *a, const struct proto_text *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* Media of one digest have equal pixels or samples. Before they are decoded, only equal files are known to. */
static bool same_medium(const struct proto_media *a, const struct proto_media *b)
{
    static const uint8_t unknown[sizeof(a->digest)];
    size_t n = blob_size(a->file);
    if (a->kind != b->kind || a->at != b->at) return false;
    if (memcmp(a->digest, unknown, sizeof(unknown)) != 0 && memcmp(a->digest, b->digest, sizeof(unknown)) == 0)
        return true;
    return n == blob_size(b->file) && memcmp(blob_data(a->file), blob_data(b->file), n) == 0;
}

static bool same_media(const struct proto_message *a, const struct proto_message *b)
{
    bool same = a->n_media == b->n_media;
    for (size_t i = 0; same && i < a->n_media; i++) same = same_medium(&a->media[i], &b->media[i]);
    return same;
}

size_t messages_first_new(const struct proto_generate *g, const struct session *x)
{
    static const char system[] = "system";
    const struct session_content *c = session_content(x);
    if (!c || c->n_messages == 0 || g->n_messages == 0) return 0;
    const struct proto_message *a = &c->messages[0], *b = &g->messages[0];
    bool is_system = b->role.len == strlen(system) && memcmp(b->role.data, system, b->role.len) == 0;
    return is_system && same(&a->role, &b->role) && same(&a->content, &b->content) && same_media(a, b);
}

static int set_token(json_t *vars, const char *key, const struct tokenizer *t, int32_t id)
{
    size_t len = 0;
    const char *piece = id < 0 ? "" : tokenizer_piece(t, id, &len);
    json_t *s = json_stringn(piece ? piece : "", len);
    if (!s) s = json_string(""); /* a piece that is not UTF-8 */
    return json_object_set_new(vars, key, s) ? -ENOMEM : 0;
}

/* The template's own switch. */
static int set_thinking(json_t *vars, const struct markup *m, enum proto_thinking_mode mode)
{
    const struct markup_thinking *t = &m->thinking;
    bool on = mode == PROTO_THINKING_ON, thinks = *t->open || *t->close || m->calls.form == MARKUP_HARMONY;
    const char *name = on ? t->on_name : t->off_name, *value = on ? t->on_value : t->off_value;
    if (mode == PROTO_THINKING_UNSET) return 0;
    if (name) return json_object_set_new(vars, name, json_loads(value, JSON_DECODE_ANY, NULL)) ? -ENOMEM : 0;
    if (on == thinks) return 0;
    return error_say(-EOPNOTSUPP, on ? "the model's chat template has no thinking"
                                     : "the model's chat template cannot turn thinking off");
}

/* Has the template thoughts that a budget can end? */
static int check_budget(const struct loaded *m)
{
    bool harmony = m->markup->calls.form == MARKUP_HARMONY, read = harmony == (m->format == &channel_harmony);
    if (read && (harmony || *m->markup->thinking.close)) return 0;
    return error_say(-EOPNOTSUPP, "think_budget: the model's chat template has no thinking");
}

/* The variables but for the messages. */
static int set_variables(json_t *vars, const struct loaded *m, const struct prompt_extras *e)
{
    int r = json_object_set_new(vars, "add_generation_prompt", json_true()) ? -ENOMEM : 0;
    if (r == 0) r = set_token(vars, "bos_token", m->tokenizer, tokenizer_bos(m->tokenizer));
    if (r == 0) r = set_token(vars, "eos_token", m->tokenizer, tokenizer_eos(m->tokenizer));
    if (r == 0 && e && e->thinking) r = set_thinking(vars, m->markup, e->thinking);
    if (r == 0 && e && e->limited) r = check_budget(m);
    if (r < 0 || !e || !e->tools) return r;
    if (m->markup->calls.form == MARKUP_NO_CALLS)
        return error_say(-EOPNOTSUPP, "the model's chat template has no tool calls");
    json_t *tools = json_deep_copy(e->tools); /* its counts of references are not for threads */
    return json_object_set_new(vars, "tools", tools) ? -ENOMEM : 0;
}

int messages_render(const struct loaded *m, const struct proto_generate *g, const struct session *x,
                    const struct prompt_extras *e, struct media_marks *marks, struct text *out)
{
    static const char *const trusted[] = {"bos_token", "eos_token", NULL};
    static const struct template_limits limits = TEMPLATE_LIMITS;
    if (!m->template)
        return error_say(-EOPNOTSUPP, "the model's chat template cannot be used (%s); use a raw prompt",
                         m->template_why);
    json_auto_t *vars = json_object();
    json_t *list = json_array();
    if (json_object_set_new(vars, "messages", list)) return -ENOMEM;
    size_t n = 0;
    int r = 0;
    const struct session_content *c = session_content(x);
    for (size_t i = 0; r == 0 && c && i < c->n_messages; i++)
        r = message_push(list, m->markup, marks, &c->messages[i], ++n);
    for (size_t i = messages_first_new(g, x); r == 0 && i < g->n_messages; i++)
        r = message_push(list, m->markup, marks, &g->messages[i], ++n);
    if (r == 0) r = set_variables(vars, m, e);
    if (r < 0) return r;
    r = template_render(m->template, vars, trusted, time(NULL), &limits, out);
    return r < 0 && r != -ENOMEM ? error_in(r, "chat template") : r;
}

/* A medium of a session, not decoded again. */
static int add_stored(struct prompt_sources *out, const struct proto_media *m)
{
    struct media_source *s;
    int r = media_source_new(&s, m->file);
    if (r < 0) return r;
    s->kind = m->kind == PROTO_MEDIA_SOUND ? MEDIA_SOUND : MEDIA_IMAGE;
    s->width = m->width;
    s->height = m->height;
    s->samples = m->samples;
    memcpy(s->digest, m->digest, sizeof(s->digest));
    return prompt_sources_add(out, s);
}

int messages_media(const struct proto_generate *g, const struct session *x, const struct prompt_extras *e,
                   struct prompt_sources *out)
{
    const struct session_content *c = session_content(x);
    size_t first = messages_first_new(g, x), at = 0;
    int r = 0;
    for (size_t i = 0; c && i < c->n_messages; i++)
        for (size_t j = 0; r == 0 && j < c->messages[i].n_media; j++) r = add_stored(out, &c->messages[i].media[j]);
    for (size_t i = 0; r == 0 && i < g->n_messages; i++)
        for (size_t j = 0; r == 0 && j < g->messages[i].n_media; j++, at++) {
            if (!e || at >= e->n_sources) return error_say(-EINVAL, "image %zu of the request is not decoded", at + 1);
            if (i >= first) r = prompt_sources_add(out, media_source_ref(e->sources[at]));
        }
    return r;
}
