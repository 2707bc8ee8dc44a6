/* SPDX-License-Identifier: MIT */
#include "client/batch/batch-keys.h"
#include "client/batch/json-members.h"
#include "client/batch/options-copy.h"
#include "client/option-check.h"
#include "client/option-value.h"
#include "libcommon/conf.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

static bool is_word(const struct json_member *m, const char *word)
{
    return m->kind == MEMBER_SCALAR && strcmp(m->text, word) == 0;
}

static int refuse_type(const struct json_member *m, const char *type)
{
    return error_say(-EINVAL, "'%.64s' must be %s", m->key, type);
}

/* --- options --- */

static int keep_string(struct batch_keys *k, const char *text, size_t len, char **out)
{
    char **more = reallocarray(k->strings, k->n_strings + 1, sizeof(*more));
    if (!more) return -ENOMEM;
    k->strings = more;
    *out = more[k->n_strings] = strndup(text, len);
    if (!*out) return -ENOMEM;
    k->n_strings++;
    return 0;
}

/* The first value of an option in a line replaces those of the command line; files come behind them. */
static void replace(struct batch_keys *k, enum option_id id)
{
    const uint64_t bit = UINT64_C(1) << id % 64;
    if (k->given[id / 64] & bit) return;
    k->given[id / 64] |= bit;
    if (id == OPTION_STOP) options_drop_stop(k->o);
    if (id == OPTION_LOGIT_BIAS) options_drop_biases(k->o);
    if (id >= OPTION_SCHEMA && id <= OPTION_CHOICE) {
        bool first = true;
        for (unsigned i = OPTION_SCHEMA; i <= OPTION_CHOICE; i++)
            if (i != id && k->given[i / 64] >> i % 64 & 1) first = false;
        if (first) options_drop_constraint(k->o);
    }
}

/* @key: as the line has it. */
static int set_option(struct batch_keys *k, enum option_id id, const char *key, const char *text, size_t len)
{
    char *value;
    if (strlen(text) != len) return error_say(-EINVAL, "'%.64s' contains a NUL character", key);
    replace(k, id);
    k->o->given[id / 64] |= UINT64_C(1) << id % 64;
    k->system |= id == OPTION_SYSTEM;
    if (k->o->n_files == k->defaults->n_files + OPTIONS_COPY_FILES)
        return error_say(-EINVAL, "'%.64s': more than %d files in a line", key, OPTIONS_COPY_FILES);
    int r = keep_string(k, text, len, &value);
    if (r == 0) r = option_set(k->o, id, value);
    return r < 0 && r != -ENOMEM ? error_in(r, "'%.64s'", key) : r;
}

/* An option whose values are a list. */
struct list {
    struct batch_keys *keys;
    enum option_id id;
    const char *key;
};

static int on_element(void *ctx, const struct json_member *m)
{
    const struct list *l = ctx;
    if (m->kind > MEMBER_STRING) return error_say(-EINVAL, "'%.64s' must be a list of strings", l->key);
    return set_option(l->keys, l->id, l->key, m->text, m->len);
}

static bool is_repeatable(enum option_id id)
{
    return id == OPTION_STOP || id == OPTION_CHOICE || id == OPTION_FILE || id == OPTION_IMAGE || id == OPTION_AUDIO ||
           id == OPTION_LOGIT_BIAS;
}

static int set_values(struct batch_keys *k, enum option_id id, const struct json_member *m)
{
    struct list l = {k, id, m->key};
    bool schema = id == OPTION_SCHEMA && (m->kind == MEMBER_OBJECT || m->kind == MEMBER_SCALAR);
    if (m->kind == MEMBER_ARRAY && is_repeatable(id)) {
        replace(k, id); /* also by an empty list */
        return json_members(m->text, m->len, on_element, &l);
    }
    if (m->kind > MEMBER_STRING && !schema) return refuse_type(m, "a string, a number, true or false");
    return set_option(k, id, m->key, m->text, m->len);
}

/* --- keys of OpenAI's that are no options, or differ from them --- */

static int on_bias(void *ctx, const struct json_member *m)
{
    struct buf value = BUF_INIT;
    int r = m->kind == MEMBER_SCALAR
                ? 0
                : error_say(-EINVAL, "'logit_bias': '%.64s' must have a number", m->key ? m->key : "");
    if (r == 0) r = buf_printf(&value, "%s=%s", m->key ? m->key : "", m->text);
    if (r == 0) r = set_option(ctx, OPTION_LOGIT_BIAS, "logit_bias", value.data, value.len);
    buf_fini(&value);
    return r;
}

static int on_function(void *ctx, const struct json_member *m)
{
    if (strcmp(m->key, "name") != 0 || m->kind != MEMBER_STRING)
        return error_say(-EINVAL, "'tool_choice': 'function' must have only a 'name'");
    return set_option(ctx, OPTION_TOOL_CHOICE, "tool_choice", m->text, m->len);
}

static int on_choice(void *ctx, const struct json_member *m)
{
    if (strcmp(m->key, "function") == 0 && m->kind == MEMBER_OBJECT)
        return json_members(m->text, m->len, on_function, ctx);
    if (strcmp(m->key, "type") == 0 && strcmp(m->text, "function") == 0) return 0;
    return error_say(-EINVAL, "'tool_choice': '%.64s' cannot be honoured", m->key);
}

/* The member json_schema of response_format. */
static int on_schema(void *ctx, const struct json_member *m)
{
    if (strcmp(m->key, "schema") != 0) return 0; /* its name, and whether it is strict: it always is */
    if (m->kind != MEMBER_OBJECT) return error_say(-EINVAL, "'response_format': 'schema' must be an object");
    return set_option(ctx, OPTION_SCHEMA, "response_format", m->text, m->len);
}

static int on_format(void *ctx, const struct json_member *m)
{
    static const char any[] = "{\"type\":\"object\"}";
    if (strcmp(m->key, "json_schema") == 0 && m->kind == MEMBER_OBJECT)
        return json_members(m->text, m->len, on_schema, ctx);
    if (strcmp(m->key, "type") != 0) return error_say(-EINVAL, "'response_format': unknown key '%.64s'", m->key);
    if (strcmp(m->text, "text") == 0 || strcmp(m->text, "json_schema") == 0) return 0;
    if (strcmp(m->text, "json_object") == 0) return set_option(ctx, OPTION_SCHEMA, "response_format", any, strlen(any));
    return error_say(-EINVAL, "'response_format': unknown type '%.64s'", m->text);
}

static int set_prompt(struct batch_keys *k, const struct json_member *m)
{
    if (m->kind != MEMBER_STRING) return refuse_type(m, "a string");
    if (strlen(m->text) != m->len) return error_say(-EINVAL, "'prompt' contains a NUL character");
    k->has_prompt = true;
    buf_clear(&k->prompt);
    return buf_append(&k->prompt, m->text, m->len);
}

static int set_list(struct buf *to, const struct json_member *m)
{
    if (m->kind != MEMBER_ARRAY) return refuse_type(m, "a list");
    buf_clear(to);
    return buf_append(to, m->text, m->len);
}

static int set_model(const struct batch_keys *k, const struct json_member *m)
{
    const char *model = k->defaults->model ? k->defaults->model : "default";
    if (m->kind == MEMBER_STRING && strcmp(m->text, model) == 0) return 0;
    return error_say(-EINVAL, "'model' is '%.64s', but this batch uses '%.64s' (see -m)", m->text, model);
}

/* Keys that concern OpenAI's accounts, not the answer. */
static bool is_ignored(const struct batch_keys *k, const char *key)
{
    static const char *const names[] = {"user", "metadata", "store", "service_tier", "safety_identifier"};
    for (size_t i = 0; k->form && i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(names[i], key) == 0) return true;
    return false;
}

/* 1: not such a key. */
static int set_special(struct batch_keys *k, const struct json_member *m)
{
    const char *key = m->key;
    if (strcmp(key, "id") == 0 && !k->form) return 0;
    if (strcmp(key, "prompt") == 0) return set_prompt(k, m);
    if (strcmp(key, "messages") == 0) return set_list(&k->messages, m);
    if (strcmp(key, "model") == 0) return set_model(k, m);
    if (strcmp(key, "stream") == 0)
        return is_word(m, "false") ? 0 : error_say(-EINVAL, "'stream' cannot be honoured: a result is one line");
    if (strcmp(key, "n") == 0) return is_word(m, "1") ? 0 : error_say(-EINVAL, "'n' must be 1: a line has one answer");
    if (strcmp(key, "tools") == 0 && m->kind == MEMBER_ARRAY) return set_list(&k->tools, m);
    if (m->kind != MEMBER_OBJECT) return is_ignored(k, key) ? 0 : 1;
    if (strcmp(key, "response_format") == 0) return json_members(m->text, m->len, on_format, k);
    if (strcmp(key, "tool_choice") == 0) return json_members(m->text, m->len, on_choice, k);
    if (strcmp(key, "logit_bias") == 0) {
        replace(k, OPTION_LOGIT_BIAS);
        return json_members(m->text, m->len, on_bias, k);
    }
    return is_ignored(k, key) ? 0 : 1;
}

/* --- all keys --- */

/* The option with the long name @key, in which '_' may stand for '-'; OPTION_COUNT: none. */
static enum option_id option_of(const char *key)
{
    char name[32];
    unsigned i;
    if (strlen(key) >= sizeof(name)) return OPTION_COUNT;
    for (i = 0; key[i]; i++) name[i] = (char)(key[i] == '_' ? '-' : key[i]);
    name[i] = 0;
    if (strcmp(name, "temperature") == 0) return OPTION_TEMP;
    if (strcmp(name, "max-completion-tokens") == 0) return OPTION_MAX_TOKENS;
    for (i = 0; i < OPTION_COUNT; i++)
        if (strcmp(option_table[i].name, name) == 0) break;
    return (enum option_id)i;
}

static int refuse_unknown(const char *key)
{
    const char *names[OPTION_COUNT + 1];
    option_names(names, false);
    const char *near = strlen(key) < 64 ? conf_nearest(key, names) : NULL;
    return near ? error_say(-EINVAL, "unknown key '%s', nearest is '%s'", key, near)
                : error_say(-EINVAL, "unknown key '%.64s'", key);
}

static int on_key(void *ctx, const struct json_member *m)
{
    struct batch_keys *k = ctx;
    int r = is_word(m, "null") ? 1 : set_special(k, m);
    if (r <= 0) return r;
    enum option_id id = option_of(m->key);
    if (is_word(m, "null")) return 0; /* as if the key were missing */
    if (id == OPTION_COUNT) return refuse_unknown(m->key);
    if (!option_in_batch(id) || id == OPTION_QUIET || id == OPTION_VERBOSE || option_table[id].flags == OPTION_BATCH)
        return error_say(-EINVAL, "'%s' cannot be used in a line of a batch", m->key);
    if (k->form && id == OPTION_LOGPROBS && !is_word(m, "false"))
        return error_say(-EINVAL, "'logprobs' cannot be used in a line with 'custom_id'; hob's own lines have them");
    if (id == OPTION_THINK && strcmp(m->text, "stderr") == 0)
        return error_say(-EINVAL, "'think': a line's thinking cannot go to standard error");
    return set_values(k, id, m);
}

int batch_keys_read(struct batch_keys *k, const char *s, size_t len)
{
    return json_members(s, len, on_key, k);
}

void batch_keys_fini(struct batch_keys *k)
{
    buf_fini(&k->prompt);
    buf_fini(&k->messages);
    buf_fini(&k->tools);
    for (size_t i = 0; i < k->n_strings; i++) free(k->strings[i]);
    free(k->strings);
    k->strings = NULL;
    k->n_strings = 0;
}
