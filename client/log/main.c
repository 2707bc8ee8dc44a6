/* SPDX-License-Identifier: MIT */
/* hob-log: writes exchanges to the log, lists, searches, shows, exports and removes them. A separate program, so that
 * hob need not load SQLite. */
#include "client/exit-status.h"
#include "client/log/log-files.h"
#include "client/log/log-options.h"
#include "client/options.h"
#include "client/output.h"
#include "client/startup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/units.h"
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HAS_JSON = 1, HAS_LIMIT = 2, HAS_ALL = 4, HAS_JSONL = 8, HIDDEN = 16 };

static const struct verb {
    const char *word;
    int (*run)(const struct log_options *o);
    size_t least, most; /* number of words */
    int flags;
    const char *usage;
} verbs[] = {
    {"list", log_list, 0, 0, HAS_JSON | HAS_LIMIT, "list [-n N] [--json]"},
    {"search", log_search, 1, SIZE_MAX, HAS_JSON | HAS_LIMIT, "search [-n N] [--json] WORD…"},
    {"show", log_show, 0, 1, HAS_JSON, "show [ID] [--json]"},
    {"rm", log_remove, 0, SIZE_MAX, HAS_ALL, "rm ID…|--all"},
    {"export", log_export, 0, SIZE_MAX, HAS_JSONL, "export [--jsonl] [ID…]"},
    {"on", log_on, 0, 0, 0, "on"},
    {"off", log_off, 0, 0, 0, "off"},
    {"write", log_write, 2, 2, HIDDEN, "write SIZE AGE"},
    {"conversation", log_conversation, 1, 1, HIDDEN, "conversation ID"},
};

enum { N_VERBS = sizeof(verbs) / sizeof(*verbs) };

static const struct def {
    const char *name, *arg, *help;
    char letter;
    int flag; /* the flag of the verbs that accept the option; 0: all verbs */
} defs[] = {
    {"limit", "N", "list, search: at most N; 0: all (default: 20)", 'n', HAS_LIMIT},
    {"json", NULL, "list, search, show: print lines of JSON", 'j', HAS_JSON},
    {"jsonl", NULL, "export: print lines of JSON (always so)", 'l', HAS_JSONL},
    {"all", NULL, "rm: remove every exchange", 'a', HAS_ALL},
    {"quiet", NULL, "print only errors on standard error", 'q', 0},
    {"help", NULL, "print this help", 'h', 0},
};

enum { N_DEFS = sizeof(defs) / sizeof(*defs) };

static int help(void)
{
    struct buf text = BUF_INIT;
    int r = buf_puts(&text, "hob log [list]              list the last exchanges\n"
                            "hob log search WORD…        list those that have all these words\n"
                            "hob log show [ID]           print an exchange (default: the last one)\n"
                            "hob log rm ID…|--all        remove exchanges\n"
                            "hob log export [ID…]        print exchanges as lines of JSON\n"
                            "hob log on, hob log off     turn the log on or off (log in hob.conf)\n"
                            "hob -c @ID PROMPT…          continue from an exchange\n\n");
    for (size_t i = 0; r == 0 && i < N_DEFS; i++) {
        const struct def *d = &defs[i];
        char left[40];
        bool letter = strchr("nqh", d->letter);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter ? "" : "    ", d->name, d->arg ? " " : "",
                 d->arg ? d->arg : "");
        r = letter ? buf_printf(&text, "  -%c, %-20s %s\n", d->letter, left, d->help)
                   : buf_printf(&text, "  %-24s %s\n", left, d->help);
    }
    if (r == 0)
        r = buf_puts(&text, "\nWithout 'hob log on', 'hob --log' logs one exchange; 'hob --no-log' logs none.\n"
                            "See hob-log(1).\n");
    if (r == 0) r = output_print(text.data, text.len);
    buf_fini(&text);
    return r < 0 ? exit_status_report(r) : EXIT_ANSWERED;
}

static int set_limit(int64_t *limit, const char *value)
{
    uint64_t v;
    int r = parse_u64(value, 0, INT32_MAX, &v);
    if (r < 0) return error_in(r, "--limit");
    *limit = (int64_t)v;
    return 0;
}

/* 0; 1: --help was printed; -EINVAL; sets the error message. @given: a bit for each def. */
static int parse(struct log_options *o, int argc, char **argv, unsigned *given)
{
    struct option longs[N_DEFS + 1] = {0};
    int c, r = 0;
    for (size_t i = 0; i < N_DEFS; i++)
        longs[i] = (struct option){.name = defs[i].name, .has_arg = defs[i].arg ? 1 : 0, .val = defs[i].letter};
    opterr = 0;
    while (r == 0 && (c = getopt_long(argc, argv, ":n:qh", longs, NULL)) != -1) {
        for (size_t i = 0; i < N_DEFS; i++)
            if (defs[i].letter == c) *given |= 1u << i;
        o->json |= c == 'j';
        o->all |= c == 'a';
        o->quiet |= c == 'q';
        if (c == 'n') r = set_limit(&o->limit, optarg);
        if (c == 'h') return 1;
        if (c == ':') return error_say(-EINVAL, "'%s' needs a value (see hob log --help)", argv[optind - 1]);
        if (c == '?')
            return error_say(-EINVAL, "unknown option '%s' of 'log' (see hob log --help)", argv[optind - (optind > 1)]);
    }
    o->words = (const char **)argv + optind;
    o->n_words = (size_t)(argc - optind);
    /* hob passes on the word "log" itself. */
    if (o->n_words > 0 && strcmp(o->words[0], "log") == 0) o->words++, o->n_words--;
    return r;
}

/* Find the verb, and check that the options go with it. 0; -EINVAL; sets the error message. */
static int choose(const struct verb **out, struct log_options *o, unsigned given)
{
    const struct verb *v = verbs;
    if (o->n_words > 0) {
        while (v < verbs + N_VERBS && strcmp(v->word, o->words[0]) != 0) v++;
        if (v == verbs + N_VERBS)
            return error_say(-EINVAL,
                             "unknown subcommand '%s' of 'log', use list, search, show, rm, export, on or off (to send "
                             "it as a prompt: hob -- log %s …)",
                             o->words[0], o->words[0]);
        o->words++;
        o->n_words--;
    }
    if (o->n_words < v->least || o->n_words > v->most) return error_say(-EINVAL, "usage: hob log %s", v->usage);
    for (size_t i = 0; i < N_DEFS; i++)
        if (given & 1u << i && defs[i].flag && !(defs[i].flag & v->flags))
            return error_say(-EINVAL, "--%s cannot be used with 'log %s'", defs[i].name, v->word);
    *out = v;
    return 0;
}

struct task {
    struct log_options options;
    const struct verb *verb;
};

static int run(struct options *o, void *ctx)
{
    struct task *t = ctx;
    if (t->options.quiet) log_init("hob", LOG_ERROR);
    t->options.on = o->log.on;
    /* Exchanges of earlier calls may still be on their way. */
    int lock = log_files_lock(true);
    if (lock >= 0) close(lock);
    return t->verb->run(&t->options);
}

int main(int argc, char **argv)
{
    struct task task = {.options.limit = LOG_LIMIT};
    struct options o;
    unsigned given = 0;
    startup_begin();
    int r = parse(&task.options, argc, argv, &given);
    if (r > 0) return help();
    if (r == 0) r = choose(&task.verb, &task.options, given);
    if (r < 0) {
        log_error("%s", error_text(r));
        return EXIT_USAGE;
    }
    if (task.verb->run == log_write) return log_write(&task.options);
    r = options_parse(&o, 1, (char *[]){(char *)"hob", NULL});
    return startup_run(&o, r, run, &task);
}
