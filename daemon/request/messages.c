/* SPDX-License-Identifier: MIT */
#include "daemon/request/messages.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <string.h>

static bool same(const struct proto_text *a, const struct proto_text *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

size_t messages_first_new(const struct proto_generate *g, const struct session *x)
{
    static const char system[] = "system";
    const struct session_content *c = session_content(x);
    if (!c || c->n_messages == 0 || g->n_messages == 0) return 0;
    const struct proto_message *a = &c->messages[0], *b = &g->messages[0];
    bool is_system = b->role.len == strlen(system) && memcmp(b->role.data, system, b->role.len) == 0;
    return is_system && same(&a->role, &b->role) && same(&a->content, &b->content);
}

/* @n: which message, from 1, for the error message. */
static int message_push(json_t *list, const struct proto_message *m, size_t n)
{
    const struct proto_text *parts[] = {&m->role, &m->content};
    for (int i = 0; i < 2; i++) {
        size_t at = utf8_check(parts[i]->data ? parts[i]->data : "", parts[i]->len);
        if (at < parts[i]->len) return error_say(-EILSEQ, "the prompt is not UTF-8: byte %zu of message %zu", at, n);
    }
    if (m->role.len == 0) return error_say(-EINVAL, "message %zu has no role", n);
    json_t *o = json_object();
    json_t *role = json_stringn(m->role.data, m->role.len);
    json_t *content = json_stringn(m->content.data ? m->content.data : "", m->content.len);
    int r = json_object_set_new(o, "role", role) | json_object_set_new(o, "content", content);
    return json_array_append_new(list, o) | r ? -ENOMEM : 0;
}

static int set_token(json_t *vars, const char *key, const struct tokenizer *t, int32_t id)
{
    size_t len = 0;
    const char *piece = id < 0 ? "" : tokenizer_piece(t, id, &len);
    json_t *s = json_stringn(piece ? piece : "", len);
    if (!s) s = json_string(""); /* a piece that is not UTF-8 */
    return json_object_set_new(vars, key, s) ? -ENOMEM : 0;
}

int messages_render(const struct loaded *m, const struct proto_generate *g, const struct session *x, struct text *out)
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
    for (size_t i = 0; r == 0 && c && i < c->n_messages; i++) r = message_push(list, &c->messages[i], ++n);
    for (size_t i = messages_first_new(g, x); r == 0 && i < g->n_messages; i++)
        r = message_push(list, &g->messages[i], ++n);
    if (r == 0 && json_object_set_new(vars, "add_generation_prompt", json_true())) r = -ENOMEM;
    if (r == 0) r = set_token(vars, "bos_token", m->tokenizer, tokenizer_bos(m->tokenizer));
    if (r == 0) r = set_token(vars, "eos_token", m->tokenizer, tokenizer_eos(m->tokenizer));
    if (r < 0) return r;
    r = template_render(m->template, vars, trusted, time(NULL), &limits, out);
    return r < 0 && r != -ENOMEM ? error_in(r, "chat template") : r;
}
