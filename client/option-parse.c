/* SPDX-License-Identifier: MIT */
#include "client/option-check.h"
#include "client/option-table.h"
#include "client/option-value.h"
#include "client/options.h"
#include "libcommon/conf.h"
#include "libcommon/error.h"
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static int options_word(struct options *o, const char *word, bool literal)
{
    const struct option_word *w;
    if (o->n_words == 0 && !literal && o->command == COMMAND_GENERATE) {
        for (w = option_words; w->word; w++) {
            if (strcmp(w->word, word) != 0) continue;
            o->command = (enum command)w->command;
            return 0;
        }
    }
    o->words[o->n_words++] = word;
    return 0;
}

/* The error for argv[@at], which getopt_long refused. */
static int options_unknown(const char *arg, int letter, bool missing)
{
    const char *names[OPTION_COUNT + 1], *near;
    char name[64];
    if (missing) return error_say(-EINVAL, "'%s' needs a value (see hob --help)", arg);
    if (strncmp(arg, "--", 2) != 0) return error_say(-EINVAL, "unknown option '-%c' (see hob --help)", letter);
    if (strchr(arg, '=') && letter) return error_say(-EINVAL, "'%s': takes no value (see hob --help)", arg);
    option_names(names, false);
    if (strlen(arg) - 2 < sizeof(name)) {
        memcpy(name, arg + 2, strlen(arg) - 1);
        name[strcspn(name, "=")] = 0;
        near = conf_nearest(name, names);
        if (near) return error_say(-EINVAL, "unknown option '%s', nearest is --%s (see hob --help)", arg, near);
    }
    return error_say(-EINVAL, "unknown option '%s' (see hob --help)", arg);
}

static void options_getopt(struct option *longs, char *shorts)
{
    unsigned i;

    /* '-': getopt_long returns words in order, so that the first word can be distinguished from the words after "--".
     */
    *shorts++ = '-';
    *shorts++ = ':';
    for (i = 0; i < OPTION_COUNT; i++) {
        const struct option_def *d = &option_table[i];
        longs[i] = (struct option){.name = d->name,
                                   .has_arg = !d->arg          ? 0
                                              : *d->arg == '[' ? 2
                                                               : 1,
                                   .val = 256 + (int)i};
        if (!d->letter) continue;
        *shorts++ = d->letter;
        if (d->arg && *d->arg != '[') *shorts++ = ':';
    }
    longs[i] = (struct option){0};
    *shorts = 0;
}

static enum option_id options_id(int c)
{
    unsigned i;

    if (c >= 256) return (enum option_id)(c - 256);
    for (i = 0; i < OPTION_COUNT; i++)
        if (option_table[i].letter == c) break;
    return (enum option_id)i;
}

/* The word behind --continue is an exchange of the log if it is @ and digits; else it belongs to the prompt. */
static bool is_exchange(const char *word)
{
    return *word == '@' && word[1] && !word[1 + strspn(word + 1, "0123456789")];
}

static int options_walk(struct options *o, int argc, char **argv)
{
    struct option longs[OPTION_COUNT + 1];
    char shorts[3 + 2 * OPTION_COUNT];
    bool continued = false; /* the option before was --continue */
    int c, r;
    options_getopt(longs, shorts);
    opterr = 0;
    optind = 0;
    while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        if (c == '?' || c == ':') return options_unknown(argv[optind - 1], optopt, c == ':');
        if (c == 1 && continued && is_exchange(optarg)) {
            r = options_exchange(&o->log.from, optarg);
            if (r < 0) return error_in(r, "--continue");
            continued = false;
            continue;
        }
        continued = false;
        if (c == 1) {
            r = options_word(o, optarg, false);
            if (r < 0 || o->command == COMMAND_MODELS || o->command == COMMAND_MEDIA || o->command == COMMAND_LOG)
                return r;
            if (o->command == COMMAND_FIND) return 0;
            continue;
        }
        enum option_id id = options_id(c);
        o->given[id / 64] |= UINT64_C(1) << id % 64;
        if (id == OPTION_HELP || id == OPTION_VERSION) {
            o->command = id == OPTION_HELP ? COMMAND_HELP : COMMAND_VERSION;
            return 0;
        }
        continued = id == OPTION_CONTINUE && !optarg;
        if (id == OPTION_QUIET) o->verbose = false;
        if (id == OPTION_VERBOSE) o->quiet = false;
        r = option_set(o, id, optarg);
        if (r < 0) return error_in(r, "--%s", option_table[id].name);
    }
    while (optind < argc) {
        r = options_word(o, argv[optind++], true);
        if (r < 0) return r;
    }
    return 0;
}

int options_parse(struct options *o, int argc, char **argv)
{
    size_t n = (size_t)argc + 1;
    *o = (struct options){
        .max_tokens = -1, .timeout_ms = -1, .infill = {.at = -1, .max_lines = -1}, .thinking.budget = -1};
    o->tools.rounds = OPTION_TOOL_ROUNDS_DEFAULT;
    o->tools.timeout_ms = OPTION_TOOL_TIMEOUT_DEFAULT;
    o->log.size = OPTION_LOG_SIZE_DEFAULT;
    proto_sampling_init(&o->sampling);
    o->files = malloc(n * sizeof(*o->files));
    o->words = malloc(n * sizeof(*o->words));
    o->tools.paths = malloc(n * sizeof(*o->tools.paths));
    if (!o->files || !o->words || !o->tools.paths) return error_say(-ENOMEM, "no memory for the options");
    return options_walk(o, argc, argv);
}

/* True if key @i of hob.conf applies to the command: infill and do ignore the keys for conversations, and a constraint
 * or a required call those for the end of the answer. */
static bool options_key_counts(const struct options *o, unsigned i)
{
    const struct option_constraint *c = &o->constraint;
    bool constrained = c->schema || c->grammar || c->regex || c->n_choices || option_call_required(o);
    if (constrained && (i == OPTION_STOP || i == OPTION_IGNORE_EOS)) return false;
    if (o->command == COMMAND_BATCH || o->command == COMMAND_MAP)
        return i != OPTION_PRIORITY && i != OPTION_TIMEOUT && option_in_batch(i);
    if (o->command == COMMAND_EMBED || o->command == COMMAND_RANK)
        return option_table[i].flags & (OPTION_COMMANDS | OPTION_EMBED);
    bool log = i >= OPTION_LOG && i <= OPTION_LOG_AGE;
    if (o->command == COMMAND_DO && i == OPTION_NO_CONTEXT) return true;
    return (o->command != COMMAND_INFILL && o->command != COMMAND_DO) || option_table[i].flags & OPTION_COMMANDS ||
           i == OPTION_TIMEOUT || i == OPTION_NO_STREAM || log;
}

static int options_key(void *ctx, const char *key, const char *value)
{
    const char *names[OPTION_COUNT + 1];
    struct options *o = ctx;
    unsigned i;
    int r;

    for (i = 0; i < OPTION_COUNT; i++)
        if (strcmp(option_table[i].name, key) == 0) break;
    if (i < OPTION_COUNT && option_table[i].flags & OPTION_IN_FILE) {
        if (OPTION_GIVEN(o, i) || (i == OPTION_SESSION && o->continue_last) || (i == OPTION_SYSTEM && o->raw) ||
            (i == OPTION_QUIET && OPTION_GIVEN(o, OPTION_VERBOSE)) ||
            (i == OPTION_LOG && OPTION_GIVEN(o, OPTION_NO_LOG)) ||
            (i == OPTION_VERBOSE && OPTION_GIVEN(o, OPTION_QUIET)))
            return 0;
        if (!options_key_counts(o, i)) return 0;
        r = option_set(o, (enum option_id)i, value);
        return r < 0 ? error_in(r, "%s", key) : 0;
    }
    if (i < OPTION_COUNT) return error_say(-EINVAL, "'%s' can be set only on the command line", key);
    option_names(names, true);
    const char *near = conf_nearest(key, names);
    if (near) return error_say(-EINVAL, "unknown key '%s', nearest is '%s'", key, near);
    return error_say(-EINVAL, "unknown key '%s'", key);
}

int options_complete(struct options *o, const char *path)
{
    int r = path ? conf_read(path, options_key, o) : 0;
    return r < 0 ? r : option_check(o);
}

void options_fini(struct options *o)
{
    free(o->model);
    free(o->system);
    free(o->session);
    free(o->fork);
    free(o->adapter);
    free(o->files);
    free(o->words);
    free(o->tools.paths);
    free(o->template.params);
    free(o->template.defaults);
    free(o->template.prompt);
    for (size_t i = 0; i < o->template.n_kept; i++) free(o->template.kept[i]);
    free(o->template.kept);
    for (size_t i = 0; i < o->stop.n; i++) free(o->stop.texts[i]);
    for (size_t i = 0; i < o->biases.n; i++) proto_text_fini(&o->biases.all[i].text);
    free(o->biases.all);
    free(o->constraint.schema);
    free(o->constraint.grammar);
    free(o->constraint.regex);
    for (size_t i = 0; i < o->constraint.n_choices; i++) free(o->constraint.choices[i]);
    free(o->constraint.choices);
    *o = (struct options){0};
}
