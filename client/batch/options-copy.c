/* SPDX-License-Identifier: MIT */
#include "client/batch/options-copy.h"
#include "client/option-table.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

static int copy_text(char **to, const char *from)
{
    if (!from) return 0;
    *to = strdup(from);
    return *to ? 0 : -ENOMEM;
}

static int copy_biases(struct options *to, const struct options *from)
{
    size_t room = 1;
    while (room < from->biases.n) room *= 2; /* option_set grows the array at powers of two */
    if (!from->biases.n) return 0;
    to->biases.all = calloc(room, sizeof(*to->biases.all));
    if (!to->biases.all) return -ENOMEM;
    for (; to->biases.n < from->biases.n; to->biases.n++) {
        const struct proto_bias *b = &from->biases.all[to->biases.n];
        struct proto_bias *copy = &to->biases.all[to->biases.n];
        *copy = (struct proto_bias){.id = b->id, .bias = b->bias};
        if (b->text.len && proto_text_set(&copy->text, b->text.data, b->text.len) < 0) return -ENOMEM;
    }
    return 0;
}

static int copy_constraint(struct option_constraint *to, const struct option_constraint *from)
{
    size_t room = 1;
    while (room < from->n_choices) room *= 2; /* likewise */
    int r = copy_text(&to->schema, from->schema);
    if (r == 0) r = copy_text(&to->grammar, from->grammar);
    if (r == 0) r = copy_text(&to->regex, from->regex);
    if (r < 0 || !from->n_choices) return r;
    to->choices = calloc(room, sizeof(*to->choices));
    if (!to->choices) return -ENOMEM;
    for (; r == 0 && to->n_choices < from->n_choices; to->n_choices++)
        r = copy_text(&to->choices[to->n_choices], from->choices[to->n_choices]);
    return r;
}

/* Leave nothing in @o that belongs to the options it was copied from. */
static void disown(struct options *o)
{
    const struct option_constraint c = o->constraint;
    o->constraint = (struct option_constraint){
        .on_limit = c.on_limit, .schema_lenient = c.schema_lenient, .any_order = c.any_order, .compact = c.compact};
    o->model = o->system = o->session = o->fork = NULL;
    o->files = NULL;
    o->words = NULL;
    o->tools.paths = NULL;
    o->biases.all = NULL;
    o->n_words = o->stop.n = o->biases.n = o->tools.n_paths = 0;
}

int options_copy(struct options *to, const struct options *from)
{
    *to = *from;
    disown(to);
    to->command = COMMAND_GENERATE;
    to->batch = (struct option_batch){0};
    for (unsigned i = 0; i < OPTION_COUNT; i++)
        if (option_table[i].flags == OPTION_BATCH) to->given[i / 64] &= ~(UINT64_C(1) << i % 64);
    to->files = malloc((from->n_files + OPTIONS_COPY_FILES) * sizeof(*to->files));
    to->words = malloc(sizeof(*to->words));
    int r = to->files && to->words ? 0 : -ENOMEM;
    if (r == 0 && from->n_files) memcpy(to->files, from->files, from->n_files * sizeof(*to->files));
    if (r == 0) r = copy_text(&to->model, from->model);
    if (r == 0) r = copy_text(&to->system, from->system);
    if (r == 0) r = copy_constraint(&to->constraint, &from->constraint);
    if (r == 0) r = copy_biases(to, from);
    for (; r == 0 && to->stop.n < from->stop.n; to->stop.n++)
        r = copy_text(&to->stop.texts[to->stop.n], from->stop.texts[to->stop.n]);
    return r < 0 ? error_say(r, "no memory for the options") : 0;
}

void options_drop_stop(struct options *o)
{
    while (o->stop.n) free(o->stop.texts[--o->stop.n]);
}

void options_drop_biases(struct options *o)
{
    for (size_t i = 0; i < o->biases.n; i++) proto_text_fini(&o->biases.all[i].text);
    free(o->biases.all);
    o->biases.all = NULL;
    o->biases.n = 0;
}

void options_drop_constraint(struct options *o)
{
    struct option_constraint *c = &o->constraint;
    free(c->schema);
    free(c->grammar);
    free(c->regex);
    for (size_t i = 0; i < c->n_choices; i++) free(c->choices[i]);
    free(c->choices);
    c->schema = c->grammar = c->regex = NULL;
    c->choices = NULL;
    c->n_choices = 0;
    for (unsigned i = OPTION_SCHEMA; i <= OPTION_CHOICE; i++) o->given[i / 64] &= ~(UINT64_C(1) << i % 64);
}
