/* SPDX-License-Identifier: MIT */
/* hob models: lists, adds, pulls and removes models. This is a separate program, so that hob need not load libcurl;
 * hobd never uses the network. */
#include "client/exit-status.h"
#include "client/interrupt.h"
#include "client/models/models.h"
#include "client/options.h"
#include "client/output.h"
#include "client/startup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { HAS_JSON = 1, HAS_SYSTEM = 2, HAS_FORCE = 4, HAS_HOW = 8, HAS_NET = 16, HAS_OF = 32 };

static const struct verb {
    const char *word;
    int (*run)(const struct models_options *o);
    size_t least, most; /* number of words */
    int flags;
    const char *usage;
} verbs[] = {
    {"list", models_list, 0, 0, HAS_JSON, "list [--json]"},
    {"add", models_add, 1, 2, HAS_SYSTEM | HAS_FORCE | HAS_HOW | HAS_OF, "add FILE [NAME]"},
    {"pull", models_pull, 1, 2, HAS_SYSTEM | HAS_FORCE | HAS_NET, "pull URL|hf:ORG/REPO/FILE [NAME]"},
    {"rm", models_remove, 1, SIZE_MAX, HAS_SYSTEM | HAS_OF, "rm NAME…"},
};

enum { N_VERBS = sizeof(verbs) / sizeof(*verbs) };

static const struct def {
    const char *name, *arg, *help;
    char letter;
    int flag; /* the flag of the verbs that accept the option; 0: all verbs */
} defs[] = {
    {"json", NULL, "list: print a JSON array", 'j', HAS_JSON},
    {"system", NULL, "add, pull, rm: use the system's models folder", 's', HAS_SYSTEM},
    {"force", NULL, "replace the model of that name", 'f', HAS_FORCE},
    {"copy", NULL, "add: copy the file, never link it", 'c', HAS_HOW},
    {"link", NULL, "add: make a symbolic link to the file", 'l', HAS_HOW},
    {"adapter-of", "MODEL", "add, rm: a low-rank adapter of this model", 'a', HAS_OF},
    {"sha256", "HEX", "pull: accept only a file with this SHA-256", 'x', HAS_NET},
    {"insecure-http", NULL, "pull: also allow http:// to other hosts", 'i', HAS_NET},
    {"quiet", NULL, "print only errors on standard error", 'q', 0},
    {"help", NULL, "print this help", 'h', 0},
};

enum { N_DEFS = sizeof(defs) / sizeof(*defs) };

static int help(void)
{
    struct buf text = BUF_INIT;
    int r = buf_puts(&text, "hob models [list]           list the models\n"
                            "hob models add FILE [NAME]  add a GGUF file to the models folder\n"
                            "hob models pull URL [NAME]  download a model; URL may be hf:ORG/REPO/FILE\n"
                            "hob models rm NAME…         remove models\n\n");
    for (size_t i = 0; r == 0 && i < N_DEFS; i++) {
        const struct def *d = &defs[i];
        char left[40];
        snprintf(left, sizeof(left), "%s--%s%s%s", strchr("qh", d->letter) ? "" : "    ", d->name, d->arg ? " " : "",
                 d->arg ? d->arg : "");
        if (strchr("qh", d->letter))
            r = buf_printf(&text, "  -%c, %-20s %s\n", d->letter, left, d->help);
        else
            r = buf_printf(&text, "  %-24s %s\n", left, d->help);
    }
    if (r == 0) r = buf_puts(&text, "\nNAME defaults to the file's name without .gguf. See hob-models(1).\n");
    if (r == 0) r = output_print(text.data, text.len);
    buf_fini(&text);
    return r < 0 ? exit_status_report(r) : EXIT_ANSWERED;
}

static int check_sha256(const char *s)
{
    if (strlen(s) == 64 && strspn(s, "0123456789abcdefABCDEF") == 64) return 0;
    return error_say(-EINVAL, "--sha256: not 64 hexadecimal digits");
}

/* 0; 1: --help was printed; -EINVAL; sets the error message. @given: a bit for each def. */
static int parse(struct models_options *o, int argc, char **argv, unsigned *given)
{
    struct option longs[N_DEFS + 1] = {0};
    int c;
    for (size_t i = 0; i < N_DEFS; i++)
        longs[i] = (struct option){.name = defs[i].name, .has_arg = defs[i].arg ? 1 : 0, .val = defs[i].letter};
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":qh", longs, NULL)) != -1) {
        for (size_t i = 0; i < N_DEFS; i++)
            if (defs[i].letter == c) *given |= 1u << i;
        o->json |= c == 'j';
        o->system |= c == 's';
        o->force |= c == 'f';
        o->copy |= c == 'c';
        o->link |= c == 'l';
        o->insecure_http |= c == 'i';
        o->quiet |= c == 'q';
        if (c == 'x') o->sha256 = optarg;
        if (c == 'a') o->adapter_of = optarg;
        if (c == 'h') return 1;
        if (c == ':') return error_say(-EINVAL, "'%s' needs a value (see hob models --help)", argv[optind - 1]);
        if (c == '?')
            return error_say(-EINVAL, "unknown option '%s' of 'models' (see hob models --help)",
                             argv[optind - (optind > 1)]);
    }
    o->words = (const char **)argv + optind;
    o->n_words = (size_t)(argc - optind);
    /* hob passes on the word "models" itself. */
    if (o->n_words > 0 && strcmp(o->words[0], "models") == 0) o->words++, o->n_words--;
    return o->sha256 ? check_sha256(o->sha256) : 0;
}

/* Find the verb, and check that the options go with it. 0; -EINVAL; sets the error message. */
static int choose(const struct verb **out, struct models_options *o, unsigned given)
{
    const struct verb *v = verbs;
    if (o->n_words > 0) {
        while (v < verbs + N_VERBS && strcmp(v->word, o->words[0]) != 0) v++;
        if (v == verbs + N_VERBS)
            return error_say(-EINVAL,
                             "unknown subcommand '%s' of 'models', use list, add, pull or rm (to send it as a prompt: "
                             "hob -- models %s …)",
                             o->words[0], o->words[0]);
        o->words++;
        o->n_words--;
    }
    if (o->n_words < v->least || o->n_words > v->most) return error_say(-EINVAL, "usage: hob models %s", v->usage);
    for (size_t i = 0; i < N_DEFS; i++)
        if (given & 1u << i && defs[i].flag && !(defs[i].flag & v->flags))
            return error_say(-EINVAL, "--%s cannot be used with 'models %s'", defs[i].name, v->word);
    if (o->adapter_of && (!*o->adapter_of || strchr(o->adapter_of, '/')))
        return error_say(-EINVAL, "--adapter-of: must be the name of a model in the folder");
    if (o->copy && o->link) return error_say(-EINVAL, "--copy and --link cannot be used together");
    *out = v;
    return 0;
}

struct task {
    struct models_options options;
    const struct verb *verb;
};

static int run(struct options *o, void *ctx)
{
    struct task *t = ctx;
    if (t->options.quiet) log_init("hob", LOG_ERROR);
    t->options.quiet |= o->quiet;
    t->options.chosen = o->model ? o->model : "default";
    return t->verb->run(&t->options);
}

int main(int argc, char **argv)
{
    struct task task = {0};
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
    /* hob.conf names the model that is used without -m. */
    r = options_parse(&o, 1, (char *[]){(char *)"hob", NULL});
    return startup_run(&o, r, run, &task);
}
