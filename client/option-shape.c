/* SPDX-License-Identifier: MIT */
/* The options of constraints, thinking and tools. */
#include "client/option-value.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

static const char *const think_names[] = {
    [THINK_HIDE] = "hide", [THINK_SHOW] = "show", [THINK_STDERR] = "stderr", [THINK_ON] = "on", [THINK_OFF] = "off"};

static int add_choice(struct option_constraint *c, const char *value)
{
    char **more;
    if (c->n_choices == PROTO_CHOICES_MAX) return error_say(-EINVAL, "more than %d values", PROTO_CHOICES_MAX);
    if ((c->n_choices & (c->n_choices - 1)) == 0) { /* grow at powers of two */
        more = reallocarray(c->choices, c->n_choices ? 2 * c->n_choices : 1, sizeof(*more));
        if (!more) return error_say(-ENOMEM, "no memory for the options");
        c->choices = more;
    }
    c->choices[c->n_choices] = NULL;
    int r = option_set_name(&c->choices[c->n_choices], value, PROTO_CONSTRAINT_MAX);
    if (r == 0) c->n_choices++;
    return r;
}

static int set_on_limit(enum proto_on_limit *dst, const char *value)
{
    *dst = proto_on_limit_value(value);
    return *dst == PROTO_LIMIT_UNSET ? error_say(-EINVAL, "must be close or cut") : 0;
}

int options_think(struct options *o, const char *value)
{
    for (unsigned i = THINK_HIDE; i <= THINK_OFF; i++) {
        if (strcmp(value, think_names[i]) != 0) continue;
        o->thinking.how = (enum option_think)i;
        return 0;
    }
    return error_say(-EINVAL, "must be hide, show, stderr, on or off");
}

const char *options_think_name(const struct options *o)
{
    return think_names[o->thinking.how];
}

static int set_path(const char **dst, const char *value)
{
    *dst = value;
    return *value ? 0 : error_say(-EINVAL, "must not be empty");
}

static int set_tool_choice(const char **dst, const char *value)
{
    if (!*value || strlen(value) > PROTO_CALL_ID_MAX)
        return error_say(-EINVAL, "must be auto, none, required or the name of a tool");
    *dst = value;
    return 0;
}

bool option_call_required(const struct options *o)
{
    const char *choice = o->tools.choice;
    return choice && strcmp(choice, "auto") != 0 && strcmp(choice, "none") != 0;
}

int option_set_shape(struct options *o, enum option_id id, const char *value)
{
    switch (id) {
    case OPTION_SCHEMA:
        return option_set_name(&o->constraint.schema, value, PROTO_CONSTRAINT_MAX);
    case OPTION_GRAMMAR:
        return option_set_name(&o->constraint.grammar, value, 4096);
    case OPTION_REGEX:
        return option_set_name(&o->constraint.regex, value, PROTO_CONSTRAINT_MAX);
    case OPTION_CHOICE:
        return add_choice(&o->constraint, value);
    case OPTION_ON_LIMIT:
        return set_on_limit(&o->constraint.on_limit, value);
    case OPTION_THINK:
        return options_think(o, value);
    case OPTION_THINK_BUDGET:
        return option_set_int(&o->thinking.budget, value, 0, INT32_MAX);
    case OPTION_TOOLS:
        return set_path(&o->tools.file, value);
    case OPTION_TOOL:
        return set_path(&o->tools.paths[o->tools.n_paths++], value);
    case OPTION_TOOL_CHOICE:
        return set_tool_choice(&o->tools.choice, value);
    case OPTION_TOOL_ROUNDS:
        return option_set_int(&o->tools.rounds, value, 1, 1000);
    case OPTION_TOOL_TIMEOUT:
        return option_set_time(&o->tools.timeout_ms, value);
    default:
        return 1;
    }
}
