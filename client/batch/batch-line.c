/* SPDX-License-Identifier: MIT */
#include "client/batch/batch-line.h"
#include "client/batch/batch-keys.h"
#include "client/batch/batch-messages.h"
#include "client/batch/json-members.h"
#include "client/batch/options-copy.h"
#include "client/generate.h"
#include "client/input.h"
#include "client/json.h"
#include "client/option-check.h"
#include "client/tools-read.h"
#include "libcommon/error.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define LINE_ID_MAX 1024 /* bytes of an id */

/* --- the id and the form --- */

static int set_id(struct batch_line *l, const struct json_member *m)
{
    bool number = m->kind == MEMBER_SCALAR && (isdigit((unsigned char)*m->text) || *m->text == '-');
    if (m->kind == MEMBER_SCALAR && strcmp(m->text, "null") == 0) return 0;
    if (!number && m->kind != MEMBER_STRING) return error_say(-EINVAL, "'%s' must be a string or a number", m->key);
    if (m->len > LINE_ID_MAX) return error_say(-EINVAL, "'%s' is longer than %d bytes", m->key, LINE_ID_MAX);
    buf_clear(&l->id);
    return number ? buf_puts(&l->id, m->text) : json_put_string(&l->id, m->text, m->len);
}

static int set_url(struct batch_line *l, const struct json_member *m)
{
    const char *path = m->kind == MEMBER_STRING ? m->text : "";
    l->url = true;
    l->form = strcmp(path, "/v1/chat/completions") == 0 ? BATCH_CHAT
              : strcmp(path, "/v1/completions") == 0    ? BATCH_TEXT
                                                        : BATCH_HOB;
    if (l->form) return 0;
    l->form = BATCH_CHAT;
    return error_say(-EINVAL, "'url' must be /v1/chat/completions or /v1/completions, not '%.64s'", m->text);
}

static int set_body(struct batch_line *l, const struct json_member *m)
{
    if (m->kind != MEMBER_OBJECT) return error_say(-EINVAL, "'body' must be an object");
    buf_clear(&l->body);
    return buf_append(&l->body, m->text, m->len);
}

/* Of the first reading: the keys that no option has. */
static int on_frame(void *ctx, const struct json_member *m)
{
    struct batch_line *l = ctx;
    if (!m->key) return error_say(-EBADMSG, "the line is a list, not an object");
    bool openai = strcmp(m->key, "custom_id") == 0 || strcmp(m->key, "body") == 0;
    if (openai && !l->form) l->form = BATCH_CHAT;
    if (strcmp(m->key, "id") == 0 || strcmp(m->key, "custom_id") == 0) return set_id(l, m);
    if (strcmp(m->key, "url") == 0) return set_url(l, m);
    if (strcmp(m->key, "body") == 0) return set_body(l, m);
    return 0;
}

/* The other keys of a line of OpenAI's. */
static int on_openai(void *ctx, const struct json_member *m)
{
    static const char *const known[] = {"id", "custom_id", "url", "body", NULL};
    for (unsigned i = 0; known[i]; i++)
        if (strcmp(known[i], m->key) == 0) return 0;
    if (strcmp(m->key, "method") != 0) return error_say(-EINVAL, "unknown key '%.64s' beside 'body'", m->key);
    return strcmp(m->text, "POST") == 0 ? 0 : error_say(-EINVAL, "'method' must be POST, not '%.64s'", m->text);
}

int batch_line_begin(struct batch_line *l, uint64_t number, const char *s, size_t len)
{
    *l = (struct batch_line){0};
    int r = buf_printf(&l->id, "%llu", (unsigned long long)number);
    if (r == 0) r = json_members(s, len, on_frame, l);
    if (r == 0 && l->form && !l->body.len) r = error_say(-EINVAL, "the line has no 'body'");
    if (r == 0 && l->form && !l->url) r = error_say(-EINVAL, "the line has no 'url'");
    return r == 0 && l->form ? json_members(s, len, on_openai, l) : r;
}

/* --- the request --- */

/* The messages of the line, behind the system message of the options. */
static int set_messages(struct batch_line *l, const struct options *o, const struct batch_keys *k)
{
    static const unsigned char never[] = {OPTION_FILE, OPTION_IMAGE, OPTION_AUDIO, OPTION_RAW};
    struct proto_generate *g = &l->request.gen;
    for (size_t i = 0; i < sizeof(never); i++)
        if (OPTION_GIVEN(o, never[i]))
            return error_say(-EINVAL, "'%s' needs 'prompt', not 'messages'", option_table[never[i]].name);
    for (size_t i = 0; i < g->n_messages; i++) proto_message_fini(&g->messages[i]);
    free(g->messages);
    g->messages = NULL;
    g->n_messages = 0;
    int r = batch_messages_read(g, k->messages.data, k->messages.len);
    if (r < 0) return r;
    if (!o->system || !*o->system) return 0;
    if (strcmp(g->messages[0].role.data, "system") != 0) return batch_messages_system(g, o->system);
    return k->system ? error_say(-EINVAL, "'system' cannot be used with 'messages' that begin with a system message")
                     : 0;
}

/* @k->tools is a list of tools, or empty. */
static int set_tools(struct proto_request *r, const struct options *o, struct batch_keys *k)
{
    if (!k->tools.len) return 0;
    if (k->tools.len > PROTO_TOOLS_MAX)
        return error_say(-EMSGSIZE, "'tools' has %zu bytes, the limit is %u", k->tools.len, PROTO_TOOLS_MAX);
    proto_text_fini(&r->tools.list);
    r->tools.list.data = buf_steal(&k->tools, &r->tools.list.len);
    return tools_choice(&r->tools, o->tools.choice);
}

/* Make the request of the options and the texts that were read. */
static int make(struct batch_line *l, struct options *o, struct batch_keys *k)
{
    struct input input = {0};
    int r = 0;
    if (k->has_prompt == (k->messages.len > 0))
        return error_say(-EINVAL, k->has_prompt ? "'prompt' and 'messages' cannot be used together"
                                                : "the line has neither 'prompt' nor 'messages'");
    if (k->has_prompt) {
        o->words[o->n_words++] = k->prompt.data ? k->prompt.data : "";
        r = input_read(o, -1, &input);
        if (r > 0) r = error_say(-EINVAL, "'prompt' is empty");
    }
    if (r == 0) r = generate_request(&l->request, o, &input);
    input_fini(&input);
    if (r == 0 && k->messages.len) r = set_messages(l, o, k);
    return r == 0 ? set_tools(&l->request, o, k) : r;
}

int batch_line_request(struct batch_line *l, const struct options *defaults, const char *s, size_t len)
{
    struct options o;
    struct batch_keys k = {.defaults = defaults, .o = &o, .form = l->form};
    int r = options_copy(&o, defaults);
    if (r == 0 && l->form == BATCH_TEXT) o.raw = true;
    if (r == 0 && l->form) r = batch_keys_read(&k, l->body.data, l->body.len);
    if (r == 0 && !l->form) r = batch_keys_read(&k, s, len);
    o.jsonl = o.logprobs;     /* the result has them */
    if (o.raw && !k.system) { /* the command line's is for the lines with a template */
        free(o.system);
        o.system = NULL;
    }
    if (r == 0) r = option_check(&o);
    if (r == 0) r = make(l, &o, &k);
    l->extract = o.extract;
    l->thinking = o.thinking.how == THINK_SHOW || o.thinking.how == THINK_ON;
    batch_keys_fini(&k);
    options_fini(&o);
    return r == -ENOMEM ? error_say(r, "no memory for the request") : r;
}

void batch_line_fini(struct batch_line *l)
{
    buf_fini(&l->id);
    buf_fini(&l->body);
    proto_request_fini(&l->request);
    *l = (struct batch_line){0};
}
