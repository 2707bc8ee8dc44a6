/* SPDX-License-Identifier: MIT */
#include "daemon/serve-config.h"
#include "daemon/serve-adapters.h"
#include "libcommon/cleanup.h"
#include "libcommon/conf.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/paths.h"
#include "libcommon/units.h"
#include <assert.h>
#include <getopt.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum { SHORT_FREE = 0x100 }; /* values of long options without a letter begin here */

/* Parses @value into @to, the option's field of @o. On failure the error message describes the problem with the value;
 * the caller prepends the option's name. */
typedef int (*set_fn)(struct options *o, const char *value, void *to);

/* Whether a reload can change the option in a running daemon. */
enum option_life {
    LIFE_START, /* no */
    LIFE_RUN,   /* yes */
    LIFE_AMOUNT /* yes, but not from or to 0 */
};

struct option_def {
    const char *key;
    char letter;     /* 0: none */
    const char *arg; /* NULL: takes no value; in hobd.conf such a key is yes or no */
    set_fn set;
    const char *help;
    size_t at, size; /* the field in struct options; size 0: a string */
    enum option_life life;
};

#define FIELD(f) offsetof(struct options, f), sizeof(((struct options *)NULL)->f)
#define TEXT(f)  offsetof(struct options, f), 0

static int replace(char **to, const char *value)
{
    char *copy;

    if (!*value) return error_say(-EINVAL, "it is empty");
    copy = strdup(value);
    if (!copy) return error_origin(-ENOMEM);
    free(*to);
    *to = copy;
    return 0;
}

/* 1: yes; 0: no; -EINVAL. */
static int parse_bool(const char *s)
{
    static const char *const yes[] = {"yes", "true", "on", "1"}, *const no[] = {"no", "false", "off", "0"};

    for (size_t i = 0; i < 4; i++) {
        if (!strcmp(s, yes[i])) return 1;
        if (!strcmp(s, no[i])) return 0;
    }
    return error_say(-EINVAL, "'%.64s' is not yes or no", s);
}

static int set_u32(uint32_t *to, const char *value, uint64_t min, uint64_t max)
{
    uint64_t v;
    int r = parse_u64(value, min, max, &v);

    if (r < 0) return r;
    *to = (uint32_t)v;
    return 0;
}

static int set_text(struct options *o, const char *value, void *to)
{
    return replace(to, value);
}

static int set_adapter(struct options *o, const char *value, void *to)
{
    return serve_adapters_add(to, value);
}

static int set_size(struct options *o, const char *value, void *to)
{
    return parse_size(value, to);
}

static int set_time(struct options *o, const char *value, void *to)
{
    return parse_time(value, to);
}

static int set_session_count(struct options *o, const char *value, void *to)
{
    return set_u32(to, value, 1, 1000000);
}

static int set_ctx(struct options *o, const char *value, void *to)
{
    return set_u32(to, value, 1, 1u << 24);
}

static int set_speculate(struct options *o, const char *value, void *to)
{
    enum proto_speculate s = proto_speculate_value(value);

    if (s == PROTO_SPECULATE_UNSET) return error_say(-EINVAL, "'%.64s' is not auto, off, lookup or draft", value);
    o->engine.speculation.mode = s;
    return 0;
}

static int set_small_count(struct options *o, const char *value, void *to)
{
    return set_u32(to, value, 1, 1024);
}

static int set_nice(struct options *o, const char *value, void *to)
{
    uint64_t v;
    bool negative = *value == '-';
    int r = parse_u64(value + negative, 0, negative ? 20 : 19, &v);

    if (r < 0) return error_say(r, "'%.64s' is not a number from -20 to 19", value);
    o->engine.nice = negative ? -(int)v : (int)v;
    return 0;
}

static int set_kv_bytes(struct options *o, const char *value, void *to)
{
    uint64_t v;
    int r = parse_size(value, &v);

    if (r < 0) return r;
    if (!v) return error_say(-EINVAL, "must be more than 0");
    o->engine.kv_bytes = v;
    return 0;
}

static int set_state_share(struct options *o, const char *value, void *to)
{
    return set_u32(to, value, 1, 90);
}

static int set_kv_type(struct options *o, const char *value, void *to)
{
    for (enum kern_kv t = 0; t < KERN_KV_TYPES; t++)
        if (!strcmp(value, kern_kv_name(t))) {
            o->engine.kv_type = t;
            return 0;
        }
    return error_say(-EINVAL, "'%.64s' is not f32, f16 or q8", value);
}

/* The field is true for "no". */
static int set_unless(struct options *o, const char *value, void *to)
{
    int r = parse_bool(value);

    if (r < 0) return r;
    *(bool *)to = r == 0;
    return 0;
}

static int set_device(struct options *o, const char *value, void *to)
{
    return device_parse(to, value);
}

static int set_client_bytes(struct options *o, const char *value, void *to)
{
    uint64_t v;
    int r = parse_size(value, &v);

    if (r < 0) return r;
    if (v < 1 << 20) return error_say(-EINVAL, "must be at least 1M");
    *(uint64_t *)to = v;
    return 0;
}

static int set_queue(struct options *o, const char *value, void *to)
{
    return set_u32(to, value, 1, 100000);
}

static int set_batch_tokens(struct options *o, const char *value, void *to)
{
    return set_u32(to, value, 1, 1u << 16);
}

static int set_batch_window(struct options *o, const char *value, void *to)
{
    uint64_t v;
    int r = parse_time(value, &v);

    if (r < 0) return r;
    if (v > 1000000) return error_say(-EINVAL, "'%.64s' is more than 1s", value);
    o->engine.batch_window_usec = v;
    return 0;
}

static int set_system(struct options *o, const char *value, void *to)
{
    o->system = true;
    return 0;
}

static int set_verbose(struct options *o, const char *value, void *to)
{
    o->log_level = LOG_DEBUG;
    return 0;
}

static int set_quiet(struct options *o, const char *value, void *to)
{
    o->log_level = LOG_WARNING;
    return 0;
}

static const struct option_def defs[] = {
    {"model", 'm', "MODEL", set_text, "model name or .gguf path (default: default)", TEXT(model), LIFE_START},
    {"mmproj", 0, "FILE", set_text, "image encoder; none (default: MODEL.mmproj.gguf)", TEXT(mmproj), LIFE_START},
    {"socket", 0, "PATH", set_text, "socket path (default: $HOB_SOCKET, or by model)", TEXT(socket), LIFE_START},
    {"ctx", 0, "N", set_ctx, "maximum tokens of a sequence (default: up to 32768)", FIELD(engine.ctx), LIFE_START},
    {"parallel", 0, "N", set_small_count, "maximum concurrent sequences (default: 16)", FIELD(engine.parallel),
     LIFE_START},
    {"threads", 0, "N", set_small_count, "compute threads (default: cores, or CPU quota)", FIELD(engine.threads),
     LIFE_START},
    {"device", 0, "DEVICE", set_device, "cpu, auto, cuda, cuda:N or cuda:N,N… (default: cpu)", FIELD(device),
     LIFE_START},
    {"numa", 0, "YES|NO", set_unless, "spread work over NUMA nodes (default: yes)", FIELD(engine.no_numa), LIFE_START},
    {"nice", 0, "N", set_nice, "nice value of the threads that compute (default: 0)", FIELD(engine.nice), LIFE_START},
    {"kv-bytes", 0, "SIZE", set_kv_bytes, "size of the KV pool (default: 1/4 of free memory)", FIELD(engine.kv_bytes),
     LIFE_START},
    {"kv-host-bytes", 0, "SIZE", set_size, "KV behind a GPU's; 0: none (default: 1/4 of memory)",
     FIELD(engine.kv_host_bytes), LIFE_START},
    {"state-share", 0, "N", set_state_share, "percent of KV for recurrent states (default: 33)",
     FIELD(engine.state_share), LIFE_START},
    {"kv-type", 0, "TYPE", set_kv_type, "KV type: f16, f32 or q8 (default: f16)", FIELD(engine.kv_type), LIFE_START},
    {"cache-bytes", 0, "SIZE", set_size, "KV cache on disk; 0: none (default: 4G)", FIELD(engine.cache_bytes),
     LIFE_AMOUNT},
    {"media-cache", 0, "SIZE", set_size, "embeddings of images in memory (default: 256M)",
     FIELD(engine.media.cache_bytes), LIFE_START},
    {"vector-cache", 0, "SIZE", set_size, "vectors of texts in memory; 0: none (default: 64M)",
     FIELD(engine.vector_bytes), LIFE_START},
    {"packed-file", 0, "YES|NO", set_unless, "store repacked weights in a file (default: yes)",
     FIELD(engine.packed.no_file), LIFE_START},
    {"session-bytes", 0, "SIZE", set_size, "session disk limit per user; 0: none (default: 1G)",
     FIELD(engine.sessions.bytes), LIFE_RUN},
    {"session-count", 0, "N", set_session_count, "maximum sessions per user (default: 10000)",
     FIELD(engine.sessions.count), LIFE_RUN},
    {"disk-reserve", 0, "SIZE", set_size, "disk space to keep free (default: up to 256M)", FIELD(engine.disk_reserve),
     LIFE_RUN},
    {"session-ttl", 0, "TIME", set_time, "remove unused sessions; 0: never (default: 0)",
     FIELD(engine.sessions.ttl_usec), LIFE_RUN},
    {"prefixes", 0, "DIR", set_text, "shared prompts (default: /etc/hob/prefixes)", TEXT(engine.prefixes_dir),
     LIFE_START},
    {"client-bytes", 0, "SIZE", set_client_bytes, "client buffers (default: 1/32 of free memory)", FIELD(client_bytes),
     LIFE_START},
    {"gateways", 0, "USERS", set_text, "who may name users (default: hob-http with --system)", TEXT(gateways),
     LIFE_START},
    {"idle-exit", 0, "TIME", set_time, "exit when idle; 0: never (default: 15min)", FIELD(idle_exit_usec), LIFE_RUN},
    {"queue", 0, "N", set_queue, "maximum queued requests (default: 256)", FIELD(engine.queue), LIFE_RUN},
    {"queue-timeout", 0, "TIME", set_time, "maximum time in the queue (default: 10min)",
     FIELD(engine.queue_timeout_usec), LIFE_RUN},
    {"batch-tokens", 0, "N", set_batch_tokens, "maximum tokens of a step (default: 512; GPU: 2048)",
     FIELD(engine.batch_tokens), LIFE_START},
    {"batch-window", 0, "TIME", set_batch_window, "wait for more requests before a step (default: 0)",
     FIELD(engine.batch_window_usec), LIFE_RUN},
    {"adapter", 0, "NAME=FILE", set_adapter, "low-rank adapter (repeatable; also MODEL.adapters/)", TEXT(adapters),
     LIFE_START},
    {"draft", 0, "MODEL", set_text, "smaller model that proposes tokens, or none", TEXT(draft), LIFE_START},
    {"speculate", 0, "MODE", set_speculate, "proposals: auto, off, lookup, draft (default: auto)",
     FIELD(engine.speculation.mode), LIFE_RUN},
    {"stop-timeout", 0, "TIME", set_time, "time limit for shutdown (default: 30s)", FIELD(stop_timeout_usec), LIFE_RUN},
    {"confine", 0, "YES|NO", set_unless, "enter the sandbox (default: yes)", FIELD(no_sandbox), LIFE_START},
    {"system", 0, NULL, set_system, "use system directories and a group socket", FIELD(system), LIFE_START},
    {"verbose", 'v', NULL, set_verbose, "log more", FIELD(log_level), LIFE_RUN},
    {"quiet", 'q', NULL, set_quiet, "log only warnings and errors", FIELD(log_level), LIFE_RUN},
};

enum { N_DEFS = sizeof defs / sizeof *defs };

int options_init(struct options *o)
{
    *o = (struct options){
        .idle_exit_usec = 15 * 60 * 1000000ull, .stop_timeout_usec = 30 * 1000000ull, .log_level = LOG_INFO};
    engine_config_init(&o->engine);
    o->model = strdup("default");
    o->engine.prefixes_dir = strdup("/etc/hob/prefixes");
    return o->model && o->engine.prefixes_dir ? 0 : error_origin(-ENOMEM);
}

void options_fini(struct options *o)
{
    free(o->model);
    free(o->socket);
    free(o->mmproj);
    free(o->draft);
    free(o->adapters);
    serve_adapters_fini(&o->engine.adapters);
    free(o->gateways);
    free(o->engine.media.mmproj);
    free(o->engine.speculation.draft);
    free(o->engine.model_path);
    free(o->engine.model_name);
    free(o->engine.packed.dir);
    free(o->engine.state_dir);
    free(o->engine.cache_dir);
    free(o->engine.prefixes_dir);
    *o = (struct options){0};
}

static const struct option_def *find(const char *key)
{
    for (size_t i = 0; i < N_DEFS; i++)
        if (!strcmp(defs[i].key, key)) return &defs[i];
    return NULL;
}

/* The long option (@in_file: the key of hobd.conf) nearest to @key, or NULL. */
static const char *nearest(const char *key, bool in_file)
{
    const char *keys[N_DEFS + 3];
    size_t n = 0;

    for (size_t i = 0; i < N_DEFS; i++)
        if (!in_file || strcmp(defs[i].key, "system") != 0) keys[n++] = defs[i].key;
    if (!in_file) keys[n++] = "help";
    if (!in_file) keys[n++] = "version";
    keys[n] = NULL;
    return conf_nearest(key, keys);
}

int options_set(struct options *o, const char *key, const char *value)
{
    const struct option_def *d = find(key);
    const char *near;
    int r;

    if (!d) {
        near = nearest(key, true);
        if (near) return error_say(-EINVAL, "unknown key '%.64s', nearest is '%s'", key, near);
        return error_say(-EINVAL, "unknown key '%.64s'", key);
    }
    if (d->arg && !value) return error_say(-EINVAL, "%s needs a value (%s)", key, d->arg);
    if (!d->arg && value) return error_say(-EINVAL, "%s takes no value", key);
    r = d->set(o, value, (char *)o + d->at);
    return r < 0 ? error_in(r, "%s", key) : 0;
}

static int set_from_file(void *ctx, const char *key, const char *value)
{
    struct options *o = ctx;
    const struct option_def *d = find(key);
    int r;

    if (!strcmp(key, "system")) return error_say(-EINVAL, "system can be set only on the command line");
    if (!d || d->arg) return options_set(o, key, value);
    r = parse_bool(value);
    if (r < 0) return error_in(r, "%s", key);
    return r ? options_set(o, key, NULL) : 0;
}

int options_read_file(struct options *o, const char *path)
{
    int r = conf_read(path, set_from_file, o);

    return r < 0 ? r : 0;
}

/* Makes the arguments of getopt_long from the table. */
static void make_getopt(struct option *longs, char *shorts)
{
    *shorts++ = '+'; /* no permutation: only options are valid arguments */
    *shorts++ = ':';
    for (size_t i = 0; i < N_DEFS; i++) {
        const struct option_def *d = &defs[i];

        longs[i] = (struct option){d->key, d->arg ? required_argument : no_argument, NULL, SHORT_FREE + (int)i};
        if (!d->letter) continue;
        *shorts++ = d->letter;
        if (d->arg) *shorts++ = ':';
    }
    longs[N_DEFS] = (struct option){"help", no_argument, NULL, 'h'};
    longs[N_DEFS + 1] = (struct option){"version", no_argument, NULL, 'V'};
    longs[N_DEFS + 2] = (struct option){0};
    *shorts++ = 'h';
    *shorts = 0;
}

static const struct option_def *def_of(int c)
{
    if (c >= SHORT_FREE) return &defs[c - SHORT_FREE];
    for (size_t i = 0; i < N_DEFS; i++)
        if (defs[i].letter && defs[i].letter == c) return &defs[i];
    return NULL;
}

/* The error for getopt's '?': an unknown letter, an unknown or ambiguous word, or a value for an option that takes
 * none. */
static int complain(const char *word)
{
    size_t len = strcspn(word, "=");
    char name[64];
    const char *near;

    if (word[0] != '-' || word[1] != '-')
        return error_say(-EINVAL, "unknown option -%c (see hobd serve --help)", optopt);
    if (optopt) return error_say(-EINVAL, "%.*s takes no value", (int)len, word);
    snprintf(name, sizeof name, "%.*s", (int)(len < 63 + 2 ? len - 2 : 63), word + 2);
    near = nearest(name, false);
    if (near) return error_say(-EINVAL, "unknown option --%s, nearest is --%s (see hobd serve --help)", name, near);
    return error_say(-EINVAL, "unknown option --%s (see hobd serve --help)", name);
}

/* Returns an options_outcome or an error. */
static int read_argv(struct options *o, int argc, char **argv)
{
    struct option longs[N_DEFS + 3];
    char shorts[2 * N_DEFS + 4];
    int c, r;

    make_getopt(longs, shorts);
    opterr = 0;
    optind = 0; /* glibc: restart the scan, also after one that stopped inside a cluster of letters */
    for (;;) {
        int at = optind ? optind : 1;

        c = getopt_long(argc, argv, shorts, longs, NULL);
        if (c < 0) break;
        if (c == 'h') return OPTIONS_HELP;
        if (c == 'V') return OPTIONS_VERSION;
        if (c == ':') return error_say(-EINVAL, "%.64s needs a value", argv[optind - 1]);
        if (c == '?') return complain(argv[at < argc ? at : argc - 1]);
        r = options_set(o, def_of(c)->key, optarg);
        if (r < 0) return error_say(r, "--%s", error_text(r)); /* the message begins with the option's name */
    }
    if (optind < argc)
        return error_say(-EINVAL, "unexpected argument '%.64s' (the option for the model is -m)", argv[optind]);
    return OPTIONS_RUN;
}

static bool has_draft(const struct options *o)
{
    return o->draft && strcmp(o->draft, "none") != 0;
}

/* Options that need another one: OPTIONS_RUN, or -EINVAL. */
static int check(const struct options *o)
{
    const uint64_t host = o->engine.kv_host_bytes;

    if (o->engine.speculation.mode == PROTO_SPECULATE_DRAFT && o->draft && !has_draft(o))
        return error_say(-EINVAL, "speculate: 'draft' needs a draft model (--draft), and there is none");
    if (o->device.kind == DEVICE_CPU && host && host != KV_HOST_DEFAULT)
        return error_say(-EINVAL, "kv-host-bytes: the CPU's KV pool is in host memory itself (--kv-bytes); only a GPU "
                                  "(--device) has another");
    return OPTIONS_RUN;
}

int options_load(struct options *o, int argc, char **argv)
{
    _cleanup_(freep) char *dir = NULL, *path = NULL;
    const char *env = getenv("HOB_SOCKET");
    int r;

    /* The first pass finds --help, --system and errors. Then the file is read, and the command line overrides it. */
    r = read_argv(o, argc, argv);
    if (r != OPTIONS_RUN) return r;
    r = paths_dir(PATHS_CONFIG, o->system, &dir);
    if (r < 0 && r != -ENOENT) return r;
    if (r == 0) { /* without a home directory there is no file */
        if (asprintf(&path, "%s/hobd.conf", dir) < 0) {
            path = NULL;
            return error_origin(-ENOMEM);
        }
        r = options_read_file(o, path);
        if (r < 0) return r;
    }
    if (env && *env) {
        r = replace(&o->socket, env);
        if (r < 0) return r;
    }
    o->engine.cpu = getenv("HOB_CPU");
    r = read_argv(o, argc, argv);
    return r == OPTIONS_RUN ? check(o) : r;
}

/* Sets *out to the directory DIR of @kind/NAME; NULL if the kind has no directory, which is logged. */
static int resolve_dir(const struct options *o, char **out, enum paths_kind kind, const char *name)
{
    _cleanup_(freep) char *dir = NULL;

    int r = paths_dir(kind, o->system, &dir);
    if (r == -ENOMEM) return error_origin(r);
    if (r < 0) {
        if (kind == PATHS_STATE) log_warning("sessions are kept only in memory: %s", error_text(r));
        return 0;
    }
    if (asprintf(out, "%s/%s", dir, name) >= 0) return 0;
    *out = NULL;
    return error_origin(-ENOMEM);
}

/* The image encoder: the file that the option names, or NAME.mmproj.gguf beside the model's NAME.gguf. */
static int resolve_mmproj(struct options *o)
{
    static const char suffix[] = ".gguf";
    const char *model = o->engine.model_path;
    size_t len = strlen(model), end = sizeof suffix - 1;
    char **path = &o->engine.media.mmproj;

    if (o->mmproj && !strcmp(o->mmproj, "none")) return 0;
    if (o->mmproj) {
        *path = strdup(o->mmproj);
        return *path ? 0 : error_origin(-ENOMEM);
    }
    if (len <= end || strcmp(model + len - end, suffix) != 0) return 0;
    if (asprintf(path, "%.*s.mmproj.gguf", (int)(len - end), model) < 0) {
        *path = NULL;
        return error_origin(-ENOMEM);
    }
    if (access(*path, F_OK) == 0) return 0;
    free(steal(*path));
    return 0;
}

int options_resolve(struct options *o)
{
    struct engine_config *e = &o->engine;
    int r = paths_model_name(o->model, &e->model_name);

    if (r == 0) r = resolve_dir(o, &e->packed.dir, PATHS_CACHE, "packed");
    if (r == 0) r = resolve_dir(o, &e->cache_dir, PATHS_CACHE, e->model_name);
    if (r == 0) r = resolve_dir(o, &e->state_dir, PATHS_STATE, e->model_name);
    if (r < 0) return r;
    r = paths_model_file(o->model, o->system, &e->model_path);
    e->speculation.no_mtp = o->draft && !has_draft(o);
    if (r == 0 && has_draft(o)) {
        r = paths_model_file(o->draft, o->system, &e->speculation.draft);
        if (r < 0) return error_in(r, "draft model");
    }
    if (r == 0) r = serve_adapters_resolve(&e->adapters, o->adapters, e->model_path);
    return r < 0 ? r : resolve_mmproj(o);
}

static bool equal(const struct option_def *d, const void *a, const void *b)
{
    const char *x, *y;

    if (d->size) return memcmp(a, b, d->size) == 0;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x && y ? strcmp(x, y) == 0 : x == y;
}

static bool can_run(const struct option_def *d, const void *old, const void *fresh)
{
    static const char zero[sizeof(uint64_t)];

    assert(d->life != LIFE_AMOUNT || d->size == sizeof zero);
    return d->life == LIFE_RUN ||
           (d->life == LIFE_AMOUNT && memcmp(old, zero, d->size) != 0 && memcmp(fresh, zero, d->size) != 0);
}

int options_take(struct options *o, const struct options *fresh, struct buf *taken, struct buf *pending)
{
    bool run[N_DEFS] = {false};

    /* Reserve the names first: if this fails, nothing has changed. */
    for (size_t i = 0; i < N_DEFS; i++) {
        const struct option_def *d = &defs[i];
        const void *old = (const char *)o + d->at, *new = (const char *)fresh + d->at;
        struct buf *to;

        /* verbose and quiet set the same field */
        if (equal(d, old, new) || (i && d->at == defs[i - 1].at)) continue;
        run[i] = can_run(d, old, new);
        to = run[i] ? taken : pending;
        if (buf_printf(to, "%s%s", to->len ? ", " : "",
                       d->at == offsetof(struct options, log_level) ? "verbose or quiet" : d->key) < 0)
            return error_origin(-ENOMEM);
    }
    for (size_t i = 0; i < N_DEFS; i++)
        if (run[i]) memcpy((char *)o + defs[i].at, (const char *)fresh + defs[i].at, defs[i].size);
    return 0;
}

void options_help(FILE *f)
{
    for (size_t i = 0; i < N_DEFS; i++) {
        const struct option_def *d = &defs[i];
        char left[40], letter[5] = "    ";

        if (d->letter) snprintf(letter, sizeof letter, "-%c, ", d->letter);
        snprintf(left, sizeof left, "%s--%s%s%s", letter, d->key, d->arg ? " " : "", d->arg ? d->arg : "");
        fprintf(f, "  %-24s %s\n", left, d->help);
    }
}
