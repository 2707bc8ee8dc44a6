/* SPDX-License-Identifier: MIT */
#include "client/option-value.h"
#include "client/templates/variables.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include "libcommon/utf8.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_WATCH_MS    1000 /* default interval of --watch */
#define VALUE_WATCH_LEAST 50
#define VALUE_JOBS_MAX    1024 /* requests of a connection, a limit of hobd */

int option_set_text(char **dst, const char *value)
{
    size_t len = strlen(value), bad = utf8_check(value, len);
    if (bad < len) return error_say(-EINVAL, "invalid UTF-8 at byte %zu", bad);
    char *copy = strdup(value);
    if (!copy) return error_say(-ENOMEM, "no memory for the options");
    free(*dst);
    *dst = copy;
    return 0;
}

/* Like set_text, but the value must not be empty. */
int option_set_name(char **dst, const char *value, size_t max)
{
    if (!*value) return error_say(-EINVAL, "must not be empty");
    if (strlen(value) > max) return error_say(-EINVAL, "longer than %zu bytes", max);
    return option_set_text(dst, value);
}

int options_session_name(const char *value)
{
    size_t len = strlen(value), bad = utf8_check(value, len);
    if (!len) return error_say(-EINVAL, "must not be empty");
    if (len > PROTO_NAME_MAX) return error_say(-EINVAL, "longer than %d bytes", PROTO_NAME_MAX);
    for (const char *p = value; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f || *p == '/')
            return error_say(-EINVAL, "must not contain '/' or control characters");
    return bad < len ? error_say(-EINVAL, "invalid UTF-8 at byte %zu", bad) : 0;
}

static int set_session(char **dst, const char *value)
{
    int r = options_session_name(value);
    return r < 0 ? r : option_set_text(dst, value);
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

/* The daemon knows the names. */
static int set_adapter(char **dst, const char *value)
{
    if (*value == '=' || strlen(value) > PROTO_NAME_MAX)
        return error_say(-EINVAL, "must be NAME or NAME=SCALE, of at most %d bytes", PROTO_NAME_MAX);
    return option_set_name(dst, value, PROTO_NAME_MAX);
}

static int set_speculate(enum proto_speculate *dst, const char *value)
{
    *dst = proto_speculate_value(value);
    return *dst == PROTO_SPECULATE_UNSET ? error_say(-EINVAL, "must be auto, off, lookup or draft") : 0;
}

int option_set_int(int64_t *dst, const char *value, uint64_t min, uint64_t max)
{
    uint64_t v;
    int r = parse_u64(value, min, max, &v);
    if (r == 0) *dst = (int64_t)v;
    return r;
}

int option_set_time(int64_t *dst, const char *value)
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
    if (value && i == 4) return error_say(-EINVAL, "'%s' is not yes or no", value);
    *dst = true;
    return 0;
}

static int set_stop(struct options *o, const char *value)
{
    if (o->stop.n == PROTO_STOPS_MAX) return error_say(-EINVAL, "more than %d values", PROTO_STOPS_MAX);
    int r = option_set_name(&o->stop.texts[o->stop.n], value, PROTO_STOP_MAX);
    if (r == 0) o->stop.n++;
    return r;
}

/* A token: its id, or its text. A text of digits needs quotes. */
static int set_token(struct proto_bias *b, const char *s, size_t n)
{
    if (n && strspn(s, "0123456789") >= n) {
        char id[64];
        if (n >= sizeof(id)) return error_say(-EINVAL, "the token's id has %zu digits", n);
        memcpy(id, s, n);
        id[n] = 0;
        return option_set_int(&b->id, id, 0, INT32_MAX);
    }
    if (n >= 2 && s[0] == '"' && s[n - 1] == '"') {
        s++;
        n -= 2;
    }
    size_t bad = utf8_check(s, n);
    if (!n) return error_say(-EINVAL, "the token must not be empty");
    if (n > PROTO_BIAS_TEXT_MAX) return error_say(-EINVAL, "the token is longer than %d bytes", PROTO_BIAS_TEXT_MAX);
    if (bad < n) return error_say(-EINVAL, "invalid UTF-8 at byte %zu", bad);
    return proto_text_set(&b->text, s, n) < 0 ? error_say(-ENOMEM, "no memory for the options") : 0;
}

static int add_bias(struct options *o, const char *value)
{
    const char *eq = strrchr(value, '=');
    struct proto_bias *more;
    if (!eq) return error_say(-EINVAL, "'%.64s' is not TOKEN=NUMBER", value);
    if (o->biases.n == PROTO_BIASES_MAX) return error_say(-EINVAL, "more than %d values", PROTO_BIASES_MAX);
    if ((o->biases.n & (o->biases.n - 1)) == 0) { /* grow at powers of two */
        more = reallocarray(o->biases.all, o->biases.n ? 2 * o->biases.n : 1, sizeof(*more));
        if (!more) return error_say(-ENOMEM, "no memory for the options");
        o->biases.all = more;
    }
    more = &o->biases.all[o->biases.n];
    *more = (struct proto_bias){0};
    int r = parse_float(eq + 1, -100, 100, &more->bias);
    if (r == 0) r = set_token(more, value, (size_t)(eq - value));
    if (r == 0) o->biases.n++;
    return r;
}

int options_watch(struct options *o, const char *value)
{
    int r = value ? option_set_time(&o->watch_ms, value) : 0;
    if (!value) o->watch_ms = VALUE_WATCH_MS;
    if (r == 0 && o->watch_ms < VALUE_WATCH_LEAST)
        return error_say(-EINVAL, "'%.64s' is less than %dms", value, VALUE_WATCH_LEAST);
    return r;
}

int options_exchange(int64_t *id, const char *value)
{
    uint64_t v;
    int r = parse_u64(value + (*value == '@'), 1, INT64_MAX, &v);
    if (r < 0) return error_say(r, "'%.64s' is not an exchange of the log, such as @12", value);
    *id = (int64_t)v;
    return 0;
}

static int set_continue(struct options *o, const char *value)
{
    o->continue_last = true;
    return value ? options_exchange(&o->log.from, value) : 0;
}

static int set_log_size(int64_t *dst, const char *value)
{
    uint64_t bytes;
    int r = parse_size(value, &bytes);
    if (r < 0) return r;
    if (bytes && (bytes < 1u << 20 || bytes > INT64_MAX))
        return error_say(-EINVAL, "'%.64s' is not 0 or at least 1M", value);
    *dst = (int64_t)bytes;
    return 0;
}

static int set_log_age(int64_t *dst, const char *value)
{
    uint64_t usec;
    int r = parse_time(value, &usec);
    if (r < 0) return r;
    *dst = (int64_t)(usec / 1000);
    return 0;
}

/* An option of the log, or --continue. 1: another option. */
static int set_log(struct options *o, enum option_id id, const char *value)
{
    switch (id) {
    case OPTION_CONTINUE:
        return set_continue(o, value);
    case OPTION_NO_LOG:
        o->log.on = false;
        return 0;
    case OPTION_LOG_SIZE:
        return set_log_size(&o->log.size, value);
    case OPTION_LOG_AGE:
        return set_log_age(&o->log.age_ms, value);
    default:
        return 1;
    }
}

/* The field of a flag; NULL: the option takes a value. */
static bool *flag_of(struct options *o, enum option_id id)
{
    switch (id) {
    case OPTION_LOG:
        return &o->log.on;
    case OPTION_WAIT:
        return &o->wait;
    case OPTION_WARM:
        return &o->warm;
    case OPTION_DETACH:
        return &o->detach;
    case OPTION_IGNORE_EOS:
        return &o->ignore_eos;
    case OPTION_RAW:
        return &o->raw;
    case OPTION_SPECIAL:
        return &o->special;
    case OPTION_QUIET:
        return &o->quiet;
    case OPTION_VERBOSE:
        return &o->verbose;
    case OPTION_NO_STREAM:
        return &o->no_stream;
    case OPTION_NO_STDIN:
        return &o->no_stdin;
    case OPTION_EXTRACT:
        return &o->extract;
    case OPTION_RENDER:
        return &o->render;
    case OPTION_JSONL:
        return &o->jsonl;
    case OPTION_LOGPROBS:
        return &o->logprobs;
    case OPTION_JSON:
        return &o->json;
    case OPTION_NPY:
        return &o->embed.npy;
    case OPTION_PRINT:
        return &o->print;
    case OPTION_NO_CONTEXT:
        return &o->no_context;
    case OPTION_SCHEMA_LENIENT:
        return &o->constraint.schema_lenient;
    case OPTION_ANY_ORDER:
        return &o->constraint.any_order;
    case OPTION_COMPACT:
        return &o->constraint.compact;
    case OPTION_YES:
        return &o->tools.yes;
    case OPTION_ORDERED:
        return &o->batch.ordered;
    case OPTION_RESUME:
        return &o->batch.resume;
    case OPTION_WRITE:
        return &o->batch.write;
    case OPTION_NULL:
        return &o->batch.null;
    default:
        return NULL;
    }
}

/* 1: not a sampling option. */
static int set_sampling(struct options *o, enum option_id id, const char *value)
{
    struct proto_sampling *s = &o->sampling;
    switch (id) {
    case OPTION_TEMP:
        return parse_float(value, 0, 100, &s->temperature);
    case OPTION_TOP_P:
        return parse_float(value, 0, 1, &s->top_p);
    case OPTION_TOP_K:
        return option_set_int(&s->top_k, value, 0, INT32_MAX);
    case OPTION_MIN_P:
        return parse_float(value, 0, 1, &s->min_p);
    case OPTION_REPEAT_PENALTY:
        return parse_float(value, 0.01f, 10, &s->repeat_penalty);
    case OPTION_TYPICAL_P:
        return parse_float(value, 0, 1, &s->typical_p);
    case OPTION_FREQUENCY_PENALTY:
        return parse_float(value, -2, 2, &s->frequency_penalty);
    case OPTION_PRESENCE_PENALTY:
        return parse_float(value, -2, 2, &s->presence_penalty);
    case OPTION_REPEAT_LAST_N:
        return option_set_int(&s->repeat_last_n, value, 0, INT32_MAX);
    case OPTION_LOGIT_BIAS:
        return add_bias(o, value);
    case OPTION_MIROSTAT:
        return parse_float(value, 0, 100, &s->mirostat);
    case OPTION_MIROSTAT_ETA:
        return parse_float(value, 0.0001f, 1, &s->mirostat_eta);
    case OPTION_SEED:
        return option_set_int(&s->seed, value, 0, INT64_MAX);
    default:
        return 1;
    }
}

static int add_media(struct options *o, enum proto_media_kind kind, const char *path)
{
    size_t n = 0;
    if (!*path) return error_say(-EINVAL, "must not be empty");
    for (size_t i = 0; i < o->n_files; i++) {
        n += o->files[i].kind != 0;
        if (o->files[i].kind && strcmp(o->files[i].path, "-") == 0 && strcmp(path, "-") == 0)
            return error_say(-EINVAL, "standard input can be only one file");
    }
    if (n == PROTO_MEDIA_MAX) return error_say(-EINVAL, "more than %d images and sounds", PROTO_MEDIA_MAX);
    o->files[o->n_files++] = (struct option_file){path, kind};
    return 0;
}

/* An option of infill. 1: it is none. */
static int set_infill(struct options *o, enum option_id id, const char *value)
{
    switch (id) {
    case OPTION_PREFIX_FILE:
        o->infill.prefix_file = value;
        return 0;
    case OPTION_SUFFIX_FILE:
        o->infill.suffix_file = value;
        return 0;
    case OPTION_AT:
        return option_set_int(&o->infill.at, value, 0, INT64_MAX);
    case OPTION_MAX_LINES:
        return option_set_int(&o->infill.max_lines, value, 1, INT32_MAX);
    default:
        return 1;
    }
}

/* Set an option that is neither a flag nor of sampling, a constraint, thinking, tools, infill or the log. */
static int set_value(struct options *o, enum option_id id, const char *value)
{
    switch (id) {
    case OPTION_MODEL:
        return option_set_name(&o->model, value, 4096);
    case OPTION_SYSTEM:
        return option_set_text(&o->system, value);
    case OPTION_FILE:
        o->files[o->n_files++] = (struct option_file){value, 0};
        return 0;
    case OPTION_SESSION:
        return set_session(&o->session, value);
    case OPTION_FORK:
        return set_session(&o->fork, value);
    case OPTION_PRIORITY:
        return set_priority(&o->priority, value);
    case OPTION_ADAPTER:
        return set_adapter(&o->adapter, value);
    case OPTION_SPECULATE:
        return set_speculate(&o->speculate, value);
    case OPTION_CONTEXT:
        return set_context(&o->context, value);
    case OPTION_MAX_TOKENS:
        return option_set_int(&o->max_tokens, value, 1, INT32_MAX);
    case OPTION_N:
        return option_set_int(&o->n, value, 1, PROTO_ANSWERS_MAX);
    case OPTION_STOP:
        return set_stop(o, value);
    case OPTION_TIMEOUT:
        return option_set_time(&o->timeout_ms, value);
    case OPTION_WATCH:
        return options_watch(o, value);
    case OPTION_OUT:
        o->batch.out = value;
        return *value ? 0 : error_say(-EINVAL, "must not be empty");
    case OPTION_JOBS:
        return option_set_int(&o->batch.jobs, value, 1, VALUE_JOBS_MAX);
    case OPTION_DIMS:
        return option_set_int(&o->embed.dims, value, 1, PROTO_DIMS_MAX);
    case OPTION_POOLING:
        o->embed.pooling = proto_pooling_value(value);
        return o->embed.pooling ? 0 : error_say(-EINVAL, "must be mean, cls or last");
    case OPTION_TEMPLATE:
        o->template.name = value;
        return *value ? 0 : error_say(-EINVAL, "must not be empty");
    case OPTION_PARAM:
        return variable_add(&o->template.params, &o->template.n_params, value);
    case OPTION_IMAGE:
        return add_media(o, PROTO_MEDIA_IMAGE, value);
    case OPTION_AUDIO:
        return add_media(o, PROTO_MEDIA_SOUND, value);
    default: /* --help and --version end the parsing and are no keys of hob.conf */
        assert(false);
        return -EINVAL;
    }
}

int option_set(struct options *o, enum option_id id, const char *value)
{
    bool *flag = flag_of(o, id);
    int r = flag ? set_flag(flag, value) : set_sampling(o, id, value);
    if (r > 0) r = set_log(o, id, value);
    if (r > 0) r = set_infill(o, id, value);
    if (r > 0) r = option_set_shape(o, id, value);
    return r > 0 ? set_value(o, id, value) : r;
}
