/* SPDX-License-Identifier: MIT */
#include "daemon/request/constrain-answer.h"
#include "daemon/request/constraint.h"
#include "daemon/request/emit.h"
#include "daemon/sequence/constrain-calls.h"
#include "daemon/sequence/constrain.h"
#include "daemon/sequence/think-limit.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <string.h>

/* The end of a thought, and the beginning of the answer. */
static const char harmony_close[] = "<|end|><|start|>assistant<|channel|>final<|message|>";

static bool forces_calls(const struct proto_tools *t)
{
    return t->choice == PROTO_TOOL_REQUIRED || t->choice == PROTO_TOOL_NAMED;
}

/* Calls in a free answer. */
static int constrain_free(const struct request *r, struct seq *s)
{
    const struct constrain_calls_config c = {.grammar = r->constraint->grammar,
                                             .trie = r->constraint->trie,
                                             .tokenizer = r->core->model.tokenizer,
                                             .format = r->format.format};
    struct logits_processor *p;
    int result = constrain_calls_new(&p, &c);
    if (result == 0) logits_chain_add(&s->sampling.chain, p);
    return result;
}

/* The thought of the answer has a limit. */
static int limit_thinking(const struct request *r, struct seq *s)
{
    const struct proto_thinking *t = &r->proto.thinking;
    const struct markup *m = r->core->model.markup;
    struct logits_processor *p;
    char close[256];
    if (!t->limited || r->proto.type == PROTO_WARM) return 0;
    const bool harmony =
        m->calls.form == MARKUP_HARMONY; /* messages_render() has refused a template without thoughts */
    snprintf(close, sizeof(close), harmony ? "%s" : "\n%s\n\n", harmony ? harmony_close : m->thinking.close);
    const struct think_limit_config c = {.tokenizer = r->core->model.tokenizer,
                                         .format = r->format.before,
                                         .close = close,
                                         .budget = t->budget < UINT32_MAX ? (uint32_t)t->budget : UINT32_MAX};
    int result = think_limit_new(&p, &c);
    if (result == 0) logits_chain_add(&s->sampling.chain, p);
    return result;
}

/* The answer is to be a text of the request's constraint. */
static int constrain(const struct request *r, struct seq *s)
{
    const struct proto_constraint *t = &r->proto.constraint;
    const struct loaded *m = &r->core->model;
    struct logits_processor *p;
    if (!r->constraint || r->proto.type == PROTO_WARM) return 0;
    if (!t->type && !forces_calls(&r->proto.tools)) return constrain_free(r, s);
    bool calls = !t->type, closes = calls || t->type == PROTO_CONSTRAINT_SCHEMA;
    bool whole = calls && r->format.markup.markup->calls.form == MARKUP_HARMONY; /* its calls follow a thought */
    const struct constrain_config c = {.grammar = r->constraint->grammar,
                                       .trie = r->constraint->trie,
                                       .tokenizer = m->tokenizer,
                                       .format = whole ? NULL : r->format.before,
                                       .max_tokens = s->max_tokens,
                                       .close = t->on_limit ? t->on_limit == PROTO_LIMIT_CLOSE : closes};
    int result = constrain_new(&p, &c);
    if (result == 0) logits_chain_add(&s->sampling.chain, p);
    if (result == 0 || result == -ENOMEM) return result;
    return error_in(result, "%s", calls ? "tools" : proto_constraint_name(t->type));
}

int constrain_answer(const struct request *r, struct seq *s)
{
    int result = limit_thinking(r, s);
    return result < 0 ? result : constrain(r, s);
}

void constrain_warn(struct request *r)
{
    for (const char *line = r->constraint ? r->constraint->ignored : NULL; line && *line;) {
        size_t n = strcspn(line, "\n");
        char text[512];
        snprintf(text, sizeof(text), "schema: ignored %.*s", (int)(n < 400 ? n : 400), line);
        emit_warning(r, NULL, text, strlen(text));
        line += n + (line[n] != '\0');
    }
}
