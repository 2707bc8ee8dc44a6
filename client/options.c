/* SPDX-License-Identifier: MIT */
#include "client/options.h"
#include "client/option_check.h"
#include "client/option_table.h"
#include "libcommon/conf.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include "libcommon/utf8.h"
#include <assert.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_STOP_MAX    4096 /* bytes of a stop string */
#define OPTIONS_WATCH_MS    1000 /* between looks, unless told */
#define OPTIONS_WATCH_LEAST 50

static int set_text(char **dst, const char *value)
{
    size_t len = strlen(value), bad = utf8_check(value, len);
    char *copy;

    if (bad < len) return error_say(-EINVAL, "invalid UTF-8 at byte %zu", bad);
    copy = strdup(value);
    if (!copy) return error_say(-ENOMEM, "no memory for the options");
    free(*dst);
    *dst = copy;
    return 0;
}

/* As set_text, of something that must not be empty. */
static int set_name(char **dst, const char *value, size_t max)
{
    if (!*value) return error_say(-EINVAL, "must not be empty");
    if (strlen(value) > max) return error_say(-EINVAL, "longer than %zu bytes", max);
    return set_text(dst, value);
}

/* What the daemon would refuse as one. */
int options_session_name(const char *value)
{
    size_t len = strlen(value), bad = utf8_check(value, len);

    if (!len) return error_say(-EINVAL, "must not be empty");
    if (len > PROTO_NAME_MAX) return error_say(-EINVAL, "longer than %d bytes", PROTO_NAME_MAX);
    for (const char *p = value; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f || *p == '/')
            return error_say(-EINVAL, "may not hold '/' or control characters");
    return bad < len ? error_say(-EINVAL, "invalid UTF-8 at byte %zu", bad) : 0;
}

static int set_session(char **dst, const char *value)
{
    int r = options_session_name(value);

    return r < 0 ? r : set_text(dst, value);
}

static int set_context(enum proto_context *dst, const char *value)
{
    *dst = proto_context_value(value);
    return *dst == PROTO_CONTEXT_UNSET ? error_say(-EINVAL, "must be refuse, shift or rotate") : 0;
}

static int set_priority(enum proto_priority *dst, const char *value)
{
    *dst = proto_priority_value(value);
    return *dst == PROTO_PRIORITY_UNSET ? error_say(-EINVAL, "must be infill, interactive or batch") : 0;
}

static int set_int(int64_t *dst, const char *value, uint64_t min, uint64_t max)
{
    uint64_t v;
    int r = parse_u64(value, min, max, &v);

    if (r == 0) *dst = (int64_t)v;
    return r;
}

static int set_time(int64_t *dst, const char *value)
{
    uint64_t usec;
    int r = parse_time(value, &usec);

    if (r < 0) return r;
    if (usec == 0) return error_say(-EINVAL, "must be more than 0");
    *dst = (int64_t)(usec / 1000 + (usec % 1000 != 0));
    return 0;
}

static int set_flag(bool *dst, const char *value)
{
    static const char *const yes[] = {"yes", "true", "on", "1"}, *const no[] = {"no", "false", "off", "0"};
    unsigned i;

    for (i = 0; value && i < 4; i++) {
        if (strcmp(value, no[i]) == 0) {
            *dst = false;
            return 0;
        }
    }
    for (i = 0; value && i < 4; i++)
        if (strcmp(value, yes[i]) == 0) break;
    if (value && i == 4) return error_say(-EINVAL, "'%s' is neither yes nor no", value);
    *dst = true;
    return 0;
}

static int set_stop(struct options *o, const char *value)
{
    int r;

    if (o->n_stop == PROTO_STOPS_MAX) return error_say(-EINVAL, "more than %d of them", PROTO_STOPS_MAX);
    r = set_name(&o->stop[o->n_stop], value, OPTIONS_STOP_MAX);
    if (r == 0) o->n_stop++;
    return r;
}

/* A token's id, or its text: as it is, or in quotes when it is made of digits. */
static int set_token(struct proto_bias *b, const char *s, size_t n)
{
    size_t bad;

    if (n && strspn(s, "0123456789") >= n) {
        char id[64];

        if (n >= sizeof id) return error_say(-EINVAL, "the token's id has %zu digits", n);
        memcpy(id, s, n);
        id[n] = 0;
        return set_int(&b->id, id, 0, INT32_MAX);
    }
    if (n >= 2 && s[0] == '"' && s[n - 1] == '"') {
        s++;
        n -= 2;
    }
    bad = utf8_check(s, n);
    if (!n) return error_say(-EINVAL, "the token must not be empty");
    if (n > PROTO_BIAS_TEXT_MAX) return error_say(-EINVAL, "the token is longer than %d bytes", PROTO_BIAS_TEXT_MAX);
    if (bad < n) return error_say(-EINVAL, "invalid UTF-8 at byte %zu", bad);
    return proto_text_set(&b->text, s, n) < 0 ? error_say(-ENOMEM, "no memory for the options") : 0;
}

static int add_bias(struct options *o, const char *value)
{
    const char *eq = strrchr(value, '=');
    struct proto_bias *more;
    int r;

    if (!eq) return error_say(-EINVAL, "'%.64s' is not TOKEN=NUMBER", value);
    if (o->n_biases == PROTO_BIASES_MAX) return error_say(-EINVAL, "more than %d of them", PROTO_BIASES_MAX);
    if ((o->n_biases & (o->n_biases - 1)) == 0) { /* room for a power of two */
        more = reallocarray(o->biases, o->n_biases ? 2 * o->n_biases : 1, sizeof *more);
        if (!more) return error_say(-ENOMEM, "no memory for the options");
        o->biases = more;
    }
    more = &o->biases[o->n_biases];
    *more = (struct proto_bias){0};
    r = parse_float(eq + 1, -100, 100, &more->bias);
    if (r == 0) r = set_token(more, value, (size_t)(eq - value));
    if (r == 0) o->n_biases++;
    return r;
}

int options_watch(struct options *o, const char *value)
{
    int r = value ? set_time(&o->watch_ms, value) : 0;

    if (!value) o->watch_ms = OPTIONS_WATCH_MS;
    if (r == 0 && o->watch_ms < OPTIONS_WATCH_LEAST)
        return error_say(-EINVAL, "'%.64s' is less than %dms", value, OPTIONS_WATCH_LEAST);
    return r;
}

/* One option's value, wherever it comes from; @value is NULL for a flag of the command line. The sentence of a
 * failure lacks the option's name. */
static int options_set(struct options *o, enum option_id id, const char *value)
{
    switch (id) {
    case OPTION_MODEL:
        return set_name(&o->model, value, 4096);
    case OPTION_SYSTEM:
        return set_text(&o->system, value);
    case OPTION_FILE:
        o->files[o->n_files++] = value;
        return 0;
    case OPTION_SESSION:
        return set_session(&o->session, value);
    case OPTION_CONTINUE:
        return set_flag(&o->continue_last, value);
    case OPTION_FORK:
        return set_session(&o->fork, value);
    case OPTION_PRIORITY:
        return set_priority(&o->priority, value);
    case OPTION_CONTEXT:
        return set_context(&o->context, value);
    case OPTION_WAIT:
        return set_flag(&o->wait, value);
    case OPTION_WARM:
        return set_flag(&o->warm, value);
    case OPTION_MAX_TOKENS:
        return set_int(&o->max_tokens, value, 1, INT32_MAX);
    case OPTION_N:
        return set_int(&o->n, value, 1, PROTO_ANSWERS_MAX);
    case OPTION_DETACH:
        return set_flag(&o->detach, value);
    case OPTION_IGNORE_EOS:
        return set_flag(&o->ignore_eos, value);
    case OPTION_TEMP:
        return parse_float(value, 0, 100, &o->sampling.temperature);
    case OPTION_TOP_P:
        return parse_float(value, 0, 1, &o->sampling.top_p);
    case OPTION_TOP_K:
        return set_int(&o->sampling.top_k, value, 0, INT32_MAX);
    case OPTION_MIN_P:
        return parse_float(value, 0, 1, &o->sampling.min_p);
    case OPTION_REPEAT_PENALTY:
        return parse_float(value, 0.01f, 10, &o->sampling.repeat_penalty);
    case OPTION_TYPICAL_P:
        return parse_float(value, 0, 1, &o->sampling.typical_p);
    case OPTION_FREQUENCY_PENALTY:
        return parse_float(value, -2, 2, &o->sampling.frequency_penalty);
    case OPTION_PRESENCE_PENALTY:
        return parse_float(value, -2, 2, &o->sampling.presence_penalty);
    case OPTION_REPEAT_LAST_N:
        return set_int(&o->sampling.repeat_last_n, value, 0, INT32_MAX);
    case OPTION_LOGIT_BIAS:
        return add_bias(o, value);
    case OPTION_MIROSTAT:
        return parse_float(value, 0, 100, &o->sampling.mirostat);
    case OPTION_MIROSTAT_ETA:
        return parse_float(value, 0.0001f, 1, &o->sampling.mirostat_eta);
    case OPTION_SEED:
        return set_int(&o->sampling.seed, value, 0, INT64_MAX);
    case OPTION_STOP:
        return set_stop(o, value);
    case OPTION_RAW:
        return set_flag(&o->raw, value);
    case OPTION_SPECIAL:
        return set_flag(&o->special, value);
    case OPTION_TIMEOUT:
        return set_time(&o->timeout_ms, value);
    case OPTION_QUIET:
        return set_flag(&o->quiet, value);
    case OPTION_VERBOSE:
        return set_flag(&o->verbose, value);
    case OPTION_NO_STREAM:
        return set_flag(&o->no_stream, value);
    case OPTION_NO_STDIN:
        return set_flag(&o->no_stdin, value);
    case OPTION_EXTRACT:
        return set_flag(&o->extract, value);
    case OPTION_RENDER:
        return set_flag(&o->render, value);
    case OPTION_JSONL:
        return set_flag(&o->jsonl, value);
    case OPTION_LOGPROBS:
        return set_flag(&o->logprobs, value);
    case OPTION_JSON:
        return set_flag(&o->json, value);
    case OPTION_WATCH:
        return options_watch(o, value);
    case OPTION_PREFIX_FILE:
        o->prefix_file = value;
        return 0;
    case OPTION_SUFFIX_FILE:
        o->suffix_file = value;
        return 0;
    case OPTION_AT:
        return set_int(&o->at, value, 0, INT64_MAX);
    case OPTION_MAX_LINES:
        return set_int(&o->max_lines, value, 1, INT32_MAX);
    case OPTION_IMAGE:
        return error_say(-EINVAL, "images are not here yet");
    case OPTION_HELP: /* nothing is read behind these two, and they are no keys of the file */
    case OPTION_VERSION:
    case OPTION_COUNT:
        assert(false);
    }
    return -EINVAL;
}

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

/* getopt_long gave up on argv[@at]. */
static int options_unknown(const char *arg, int letter, bool missing)
{
    const char *names[OPTION_COUNT + 1], *near;
    char name[64];

    if (missing) return error_say(-EINVAL, "'%s' needs a value (see hob --help)", arg);
    if (strncmp(arg, "--", 2) != 0) return error_say(-EINVAL, "unknown option '-%c' (see hob --help)", letter);
    if (strchr(arg, '=') && letter) return error_say(-EINVAL, "'%s': takes no value (see hob --help)", arg);
    option_names(names, false);
    if (strlen(arg) - 2 < sizeof name) {
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

    /* '-': words come in order too, so that the first one can be told from what stands after "--". */
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
        if (d->arg) *shorts++ = ':';
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

static int options_walk(struct options *o, int argc, char **argv)
{
    struct option longs[OPTION_COUNT + 1];
    char shorts[3 + 2 * OPTION_COUNT];
    int c, r;

    options_getopt(longs, shorts);
    opterr = 0;
    optind = 0;
    while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        enum option_id id;

        if (c == '?' || c == ':') return options_unknown(argv[optind - 1], optopt, c == ':');
        if (c == 1) {
            r = options_word(o, optarg, false);
            if (r < 0 || o->command == COMMAND_MODELS) return r;
            continue;
        }
        id = options_id(c);
        o->given |= UINT64_C(1) << id;
        if (id == OPTION_HELP || id == OPTION_VERSION) {
            o->command = id == OPTION_HELP ? COMMAND_HELP : COMMAND_VERSION;
            return 0;
        }
        if (id == OPTION_QUIET) o->verbose = false;
        if (id == OPTION_VERBOSE) o->quiet = false;
        r = options_set(o, id, optarg);
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

    *o = (struct options){.max_tokens = -1, .timeout_ms = -1, .at = -1, .max_lines = -1};
    proto_sampling_init(&o->sampling);
    o->files = malloc(n * sizeof *o->files);
    o->words = malloc(n * sizeof *o->words);
    if (!o->files || !o->words) return error_say(-ENOMEM, "no memory for the options");
    return options_walk(o, argc, argv);
}

/* What an infill takes from the file: the rest is chosen for conversations. */
static bool options_key_counts(const struct options *o, unsigned i)
{
    return o->command != COMMAND_INFILL || option_table[i].flags & OPTION_COMMANDS || i == OPTION_TIMEOUT ||
           i == OPTION_NO_STREAM;
}

static int options_key(void *ctx, const char *key, const char *value)
{
    const char *names[OPTION_COUNT + 1], *near;
    struct options *o = ctx;
    unsigned i;
    int r;

    for (i = 0; i < OPTION_COUNT; i++)
        if (strcmp(option_table[i].name, key) == 0) break;
    if (i < OPTION_COUNT && option_table[i].flags & OPTION_IN_FILE) {
        if (OPTION_GIVEN(o, i) || (i == OPTION_SESSION && o->continue_last) || (i == OPTION_SYSTEM && o->raw) ||
            (i == OPTION_QUIET && OPTION_GIVEN(o, OPTION_VERBOSE)) ||
            (i == OPTION_VERBOSE && OPTION_GIVEN(o, OPTION_QUIET)))
            return 0;
        if (!options_key_counts(o, i)) return 0;
        r = options_set(o, (enum option_id)i, value);
        return r < 0 ? error_in(r, "%s", key) : 0;
    }
    if (i < OPTION_COUNT) return error_say(-EINVAL, "'%s' belongs on the command line only", key);
    option_names(names, true);
    near = conf_nearest(key, names);
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
    size_t i;

    free(o->model);
    free(o->system);
    free(o->session);
    free(o->fork);
    free(o->files);
    free(o->words);
    for (i = 0; i < o->n_stop; i++) free(o->stop[i]);
    for (i = 0; i < o->n_biases; i++) proto_text_fini(&o->biases[i].text);
    free(o->biases);
    *o = (struct options){0};
}

/* What stands above an option in --help. */
static const char *help_head(unsigned id)
{
    switch (id) {
    case OPTION_MODEL:
        return "What is asked\n";
    case OPTION_SESSION:
        return "\nSessions\n";
    case OPTION_MAX_TOKENS:
        return "\nThe answer\n";
    case OPTION_TEMP:
        return "\nSampling\n";
    case OPTION_QUIET:
        return "\nOutput\n";
    case OPTION_JSON:
        return "\nOf commands\n";
    case OPTION_HELP:
        return "\n";
    default:
        return "";
    }
}

int options_help(struct buf *out)
{
    int r = buf_puts(out, "hob [OPTIONS] [PROMPT…]     ask; what is piped in comes before the words\n"
                          "hob status [--json] [--watch [TIME]]\n"
                          "                            what the daemon is doing; again and again\n"
                          "hob sessions [list|show NAME|fork NAME NEW|rename NAME NEW|rm NAME…]\n"
                          "                            conversations that are kept (list, show: --json)\n"
                          "hob chat                    talk: lines with editing, /help tells the rest\n"
                          "hob models [list|add|pull|rm] …\n"
                          "                            models that are there; see hob models --help\n"
                          "hob infill --prefix-file PATH --suffix-file PATH, or --at BYTE <TEXT\n"
                          "                            what belongs between two texts\n"
                          "hob stop                    let the daemon finish and stop\n\n");
    unsigned i;

    for (i = 0; r == 0 && i < OPTION_COUNT; i++) {
        const struct option_def *d = &option_table[i];
        char left[40];

        if (!d->help) continue;
        r = buf_puts(out, help_head(i));
        if (r < 0) break;
        snprintf(left, sizeof left, "%s--%s%s%s", d->letter ? "" : "    ", d->name, d->arg ? " " : "",
                 d->arg ? d->arg : "");
        if (d->letter)
            r = buf_printf(out, "  -%c, %-22s %s\n", d->letter, left, d->help);
        else
            r = buf_printf(out, "  %-26s %s\n", left, d->help);
    }
    if (r == 0)
        r = buf_puts(out, "\nA prompt that begins with a command's name: hob -- status of my life\n"
                          "Exit: 0 answered, 1 failed, 2 usage, 69 no daemon, 75 busy, 130 interrupted.\n"
                          "See hob(1).\n");
    return r;
}
