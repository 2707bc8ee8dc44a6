/* SPDX-License-Identifier: MIT */
#include "client/templates/variables.h"
#include "client/input.h"
#include "client/option-value.h"
#include "client/templates/parts.h"
#include "client/templates/templates.h"
#include "libcommon/conf.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int variable_add(const char ***to, size_t *n, const char *value)
{
    const char *eq = strchr(value, '=');
    size_t len = strlen(value), bad = utf8_check(value, len);
    const char **more;
    if (!eq || !template_is_name(value, (size_t)(eq - value)))
        return error_say(-EINVAL, "'%.64s' is not NAME=VALUE (a name has letters, digits, _ and -, and is not 'input')",
                         value);
    if (bad < len) return error_say(-EINVAL, "invalid UTF-8 at byte %zu", bad);
    more = reallocarray(*to, *n + 1, sizeof(*more));
    if (!more) return error_say(-ENOMEM, "no memory for the variables");
    *to = more;
    more[(*n)++] = value;
    return 0;
}

/* The value of the variable of @p in a list; the last one counts. NULL: it has none. */
static const char *in_list(const char *const *list, size_t n, const struct template_part *p)
{
    while (n-- > 0)
        if (strncmp(list[n], p->text, p->len) == 0 && list[n][p->len] == '=') return list[n] + p->len + 1;
    return NULL;
}

static const char *value_of(const struct options *o, const struct template_part *p)
{
    const struct option_template *t = &o->template;
    const char *value = in_list(t->params, t->n_params, p);
    return value ? value : in_list(t->defaults, t->n_defaults, p);
}

/* The number of a word; TEMPLATE_WORD_MAX + 1: too large. */
static size_t number_of(const struct template_part *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->len && n <= TEMPLATE_WORD_MAX; i++) n = 10 * n + (size_t)(p->text[i] - '0');
    return n;
}

/* Call @check for each part of the texts that is a variable. @key is that of the text. */
static int each_variable(const struct options *o, void *ctx,
                         int (*check)(const struct options *o, void *ctx, const char *key,
                                      const struct template_part *p))
{
    const char *texts[] = {o->template.prompt, o->template.has_system ? o->system : NULL};
    static const char *const keys[] = {"prompt", "system"};
    int r = 0;
    for (unsigned i = 0; i < 2; i++)
        for (const char *s = texts[i]; r == 0 && s && *s;) {
            struct template_part p;
            s += template_part(s, &p);
            if (p.kind != TEMPLATE_TEXT) r = check(o, ctx, keys[i], &p);
        }
    return r;
}

static int check_name(const struct options *o, void *ctx, const char *key, const struct template_part *p)
{
    size_t n = p->kind == TEMPLATE_WORD ? number_of(p) : 1;
    if (!n || n > TEMPLATE_WORD_MAX)
        return error_say(-EINVAL, "%s: {%.*s} is not a word: they are {1} to {%d}", key, (int)p->len, p->text,
                         TEMPLATE_WORD_MAX);
    if (p->kind == TEMPLATE_INPUT && *key != 'p')
        return error_say(-EINVAL, "%s: {input} can be only in the prompt", key);
    return 0;
}

static int check_value(const struct options *o, void *ctx, const char *key, const struct template_part *p)
{
    size_t *used = ctx;
    if (p->kind == TEMPLATE_NAMED && !value_of(o, p))
        return error_say(-EINVAL, "{%.*s} has no value: give -p %.*s=VALUE", (int)p->len, p->text, (int)p->len,
                         p->text);
    if (p->kind != TEMPLATE_WORD) return 0;
    size_t n = number_of(p);
    if (n > o->n_words)
        return error_say(-EINVAL, "{%zu} has no value: it is word %zu of the command line, which has %zu", n, n,
                         o->n_words);
    if (n > *used) *used = n;
    return 0;
}

/* The names of the variables, for conf_nearest. */
struct names {
    struct buf text; /* each with its NUL */
    size_t n;
    const char *given; /* of --param */
    bool found;
};

static int collect_name(const struct options *o, void *ctx, const char *key, const struct template_part *p)
{
    struct names *names = ctx;
    if (p->kind != TEMPLATE_NAMED) return 0;
    names->found |= strncmp(names->given, p->text, p->len) == 0 && names->given[p->len] == '=';
    int r = buf_append(&names->text, p->text, p->len);
    if (r == 0) r = buf_append(&names->text, "", 1);
    if (r < 0) return error_say(r, "no memory for the variables");
    names->n++;
    return 0;
}

static int not_used(const char *given, const struct names *names)
{
    const char **list = calloc(names->n + 1, sizeof(*list)), *s = names->text.data, *near;
    int n = (int)strcspn(given, "=");
    char name[TEMPLATE_NAME_MAX];
    if (!list) return error_say(-ENOMEM, "no memory for the variables");
    for (size_t i = 0; i < names->n; i++, s += strlen(s) + 1) list[i] = s;
    snprintf(name, sizeof(name), "%.*s", n, given);
    near = conf_nearest(name, list);
    if (near)
        error_say(-EINVAL, "-p: it has no variable {%s}, nearest is {%s}", name, near);
    else
        error_say(-EINVAL, "-p: it has no variable {%s}", name);
    free(list);
    return -EINVAL;
}

/* Each --param belongs to a variable: one with a misspelled name would have no effect. */
static int check_params(const struct options *o)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < o->template.n_params; i++) {
        struct names names = {.text = BUF_INIT, .given = o->template.params[i]};
        r = each_variable(o, &names, collect_name);
        if (r == 0 && !names.found) r = not_used(o->template.params[i], &names);
        buf_fini(&names.text);
    }
    return r;
}

int variables_names(const struct options *o)
{
    return each_variable(o, NULL, check_name);
}

int variables_check(struct options *o)
{
    int r = variables_names(o);
    if (r == 0) r = check_params(o);
    if (r == 0) r = each_variable(o, &o->template.n_used, check_value);
    return r < 0 ? error_in(r, "template '%s'", o->template.name) : 0;
}

int variables_replace(const struct options *o, const char *text, const struct buf *input, struct buf *out, size_t *at)
{
    int r = 0;
    *at = SIZE_MAX;
    while (r == 0 && *text) {
        struct template_part p;
        text += template_part(text, &p);
        const char *value = p.text;
        size_t len = p.len;
        if (p.kind == TEMPLATE_INPUT) {
            if (*at == SIZE_MAX) *at = out->len;
            value = input->data;
            len = input->len;
        } else if (p.kind != TEMPLATE_TEXT) {
            value = p.kind == TEMPLATE_WORD ? o->words[number_of(&p) - 1] : value_of(o, &p);
            len = strlen(value);
        }
        if (len > INPUT_MAX || out->len > INPUT_MAX - len)
            return error_say(-EMSGSIZE, "template '%s': the prompt is larger than %u MiB, the limit of a request",
                             o->template.name, INPUT_MAX >> 20);
        if (len) r = buf_append(out, value, len);
    }
    return r < 0 ? error_say(r, "no memory for the prompt") : 0;
}

int variables_system(struct options *o)
{
    static const struct buf none = BUF_INIT;
    struct buf out = BUF_INIT;
    size_t at;
    if (!o->template.has_system || !o->system) return 0;
    int r = variables_replace(o, o->system, &none, &out, &at);
    if (r == 0 && (r = option_set_text(&o->system, out.data ? out.data : "")) < 0) error_in(r, "system");
    buf_fini(&out);
    return r;
}
