/* SPDX-License-Identifier: MIT */
/* hobd parse: prints what the output pipeline makes of an answer. */
#include "daemon/command/command.h"
#include "daemon/command/template-source.h"
#include "daemon/command/tool.h"
#include "daemon/output/markup-format.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

DEFINE_CLEANUP(struct markup *, markup_free)

static void usage(void)
{
    fputs("usage: hobd parse (-m FILE | --template FILE) [--stream N] <REQUEST.json\n"
          "\nPrints the text, the thinking and the tool calls of an answer. The JSON object\n"
          "on standard input has messages, tools (a list in OpenAI's form) and answer, the\n"
          "raw text of a model behind the generation prompt. Other keys are variables of\n"
          "the template.\n\n"
          "  -m, --model FILE      model name or .gguf path: use its chat template\n"
          "      --template FILE   use the template in this file\n"
          "      --stream N        give the answer to the parser in pieces of N bytes\n"
          "      --help            print this help\n",
          stdout);
}

static int take_stream(void *to, const char *value)
{
    return tool_parse_number("--stream", value, 1, UINT32_MAX, to);
}

/* --- the parts of an answer --- */

struct parts {
    struct channel_sink base;
    struct buf content, thinking;
    struct buf calls; /* JSON of complete calls, separated by commas */
    struct buf name, args;
    bool open; /* a call, in name and args */
    const char *warning;
};

static void parts_fini(struct parts *p)
{
    struct buf *all[] = {&p->content, &p->thinking, &p->calls, &p->name, &p->args};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) buf_fini(all[i]);
}

static int add_text(struct channel_sink *base, const char *channel, const char *text, size_t len)
{
    struct parts *p = (struct parts *)base;
    return buf_append(strcmp(channel, CHANNEL_THINKING) == 0 ? &p->thinking : &p->content, text, len);
}

static int add_warning(struct channel_sink *base, const char *warning)
{
    ((struct parts *)base)->warning = warning;
    return 0;
}

static int add_json_string(struct buf *out, const struct buf *text)
{
    json_auto_t *s = json_stringn(text->data ? text->data : "", text->len);
    _cleanup_(freep) char *json = s ? json_dumps(s, JSON_ENCODE_ANY) : NULL;
    if (!json) return s ? -ENOMEM : error_say(-EINVAL, "the answer is not UTF-8");
    return buf_puts(out, json);
}

/* @whole: the arguments are JSON; otherwise a string with their beginning. */
static int add_call(struct parts *p, bool whole)
{
    int r = buf_puts(&p->calls, p->calls.len ? ", {\"name\": " : "{\"name\": ");
    if (r == 0) r = add_json_string(&p->calls, &p->name);
    if (r == 0) r = buf_puts(&p->calls, ", \"arguments\": ");
    if (r == 0) r = whole ? buf_append(&p->calls, p->args.data, p->args.len) : add_json_string(&p->calls, &p->args);
    return r == 0 ? buf_puts(&p->calls, "}") : r;
}

static int add_step(struct channel_sink *base, const struct channel_call *c)
{
    struct parts *p = (struct parts *)base;
    p->open = c->step == CALL_BEGINS || c->step == CALL_ARGUMENTS;
    if (c->step == CALL_BEGINS) {
        buf_clear(&p->name);
        buf_clear(&p->args);
        return buf_puts(&p->name, c->name);
    }
    if (c->step == CALL_ARGUMENTS) return buf_append(&p->args, c->text, c->len);
    return c->step == CALL_ENDS ? add_call(p, true) : 0;
}

static int print(struct parts *p)
{
    _cleanup_(buf_fini) struct buf out = BUF_INIT;
    int r = p->open ? add_call(p, false) : 0;
    if (r == 0) r = buf_puts(&out, "{\"content\": ");
    if (r == 0) r = add_json_string(&out, &p->content);
    if (r == 0) r = buf_puts(&out, ", \"thinking\": ");
    if (r == 0) r = add_json_string(&out, &p->thinking);
    if (r == 0)
        r = buf_printf(&out, ", \"tool_calls\": [%s], \"partial\": %s}\n", p->calls.data ? p->calls.data : "",
                       p->open ? "true" : "false");
    return r < 0 ? r : command_print(out.data, out.len);
}

/* --- the answer --- */

/* The rendered prompt of the request; without success, that of a short conversation, which ends in the same way. */
static int render_prompt(const struct template_source *s, json_t *vars, struct text *out)
{
    static const char *const trusted[] = {"bos_token", "eos_token", NULL};
    if (json_object_set_new(vars, "add_generation_prompt", json_true())) return -ENOMEM;
    int r = template_render(s->template, vars, trusted, time(NULL), NULL, out);
    if (r == 0 || r == -ENOMEM) return r;
    json_object_del(vars, "tools");
    if (json_object_set_new(vars, "messages", json_pack("[{s:s, s:s}]", "role", "user", "content", "?")))
        return -ENOMEM;
    r = template_render(s->template, vars, trusted, time(NULL), NULL, out);
    return r == -ENOMEM ? r : 0;
}

static int feed(const struct markup_format *f, const char *answer, size_t len, size_t step, struct parts *parts)
{
    struct channel_parser *p;
    int r = f->base.new_parser(&f->base, &p);
    if (r < 0) return r;
    for (size_t i = 0; r == 0 && i < len; i += step)
        r = p->ops->text(p, answer + i, len - i < step ? len - i : step, &parts->base);
    if (r == 0 && p->ops->finish) r = p->ops->finish(p, &parts->base);
    p->ops->free(p);
    return r;
}

static bool has_token(const void *tokenizer, const char *text)
{
    return tokenizer_has_control(tokenizer, text);
}

/* The template's variable @key, which is @otherwise if the request has none. NULL without memory. */
static const char *token_of(json_t *vars, const char *key, const char *otherwise)
{
    if (!json_is_string(json_object_get(vars, key))) json_object_set_new(vars, key, json_string(otherwise));
    return json_string_value(json_object_get(vars, key));
}

/* @vars: the request; @step: bytes given to the parser at a time, 0: all. */
static int parse_answer(const struct template_source *s, json_t *vars, size_t step, struct parts *parts)
{
    const json_t *answer = json_object_get(vars, "answer");
    _cleanup_(markup_freep) struct markup *m = NULL;
    const struct markup_source source = {.template = s->template,
                                         .text = s->text.data,
                                         .len = s->text.len,
                                         .bos = token_of(vars, "bos_token", "<s>"),
                                         .eos = token_of(vars, "eos_token", "</s>"),
                                         .now = time(NULL),
                                         .has_token = s->tokenizer ? has_token : NULL,
                                         .vocabulary = s->tokenizer};
    struct text prompt = {0};
    if (!source.bos || !source.eos) return -ENOMEM;
    if (!json_is_string(answer)) return error_say(-EINVAL, "the request has no answer, which must be a string");
    json_auto_t *tools = json_incref(json_object_get(vars, "tools"));
    int r = markup_new(&m, &source);
    if (r == 0) r = render_prompt(s, vars, &prompt);
    if (r == 0) {
        struct markup_format f = {.markup = m,
                                  .tools = tools,
                                  .start = markup_start(m, prompt.s.data ? prompt.s.data : "", prompt.s.len),
                                  .marks_in_text = true};
        size_t len = json_string_length(answer);
        markup_format_init(&f);
        r = feed(&f, json_string_value(answer), len, step ? step : len + 1, parts);
    }
    text_fini(&prompt);
    return r;
}

static int run(const struct template_options *o, size_t step, char **argv)
{
    json_auto_t *vars = NULL;
    _cleanup_(template_source_fini) struct template_source source = {.template = NULL};
    _cleanup_(parts_fini) struct parts parts = {.base = {add_text, add_step, add_warning}};
    int r = template_source_request(&vars);
    if (r == 0) r = template_source_load(&source, o->model, o->file, vars);
    if (r == 0) r = parse_answer(&source, vars, step, &parts);
    if (r == 0 && parts.warning) fprintf(stderr, "hobd %s: %s\n", argv[0], parts.warning);
    return r < 0 ? r : print(&parts);
}

int command_parse(int argc, char **argv)
{
    uint64_t step = 0;
    struct template_options o = {.usage = usage, .option = "stream", .take = take_stream, .to = &step};
    int r = template_options_parse(&o, argc, argv);
    if (r) return r == 1 ? 0 : r;
    r = run(&o, step, argv);
    return r < 0 ? command_failed(argv, r) : 0;
}
