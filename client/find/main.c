/* SPDX-License-Identifier: MIT */
/* hob index and hob find. This is a separate program, so that hob need not load SQLite. */
#include "client/exit-status.h"
#include "client/find/commands.h"
#include "client/find/results.h"
#include "client/find/tree-file.h"
#include "client/output.h"
#include "client/startup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/units.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INDEX = 1, FIND = 2, MAX_SIZE_DEFAULT = 1 << 20, MOST_DEFAULT = 10 };

static const struct def {
    const char *name, *arg, *help;
    char letter;
    int commands; /* that accept the option */
} defs[] = {
    {"answer", NULL, "find: answer the question from what was found", 'a', FIND},
    {"number", "N", "find: print at most N places (default: 10)", 'n', FIND},
    {"jsonl", NULL, "print JSON, one object a line", 'j', INDEX | FIND},
    {"model", "NAME", "index: embedding model; find -a: model that answers", 'm', INDEX | FIND},
    {"list", NULL, "index: list the indexes", 'l', INDEX},
    {"rm", NULL, "index: remove the index of DIR", 'r', INDEX},
    {"dims", "N", "index: use only the first N values of each vector", 'd', INDEX},
    {"prefix", "TEXT", "index: put TEXT before each chunk", 'p', INDEX},
    {"question-prefix", "TEXT", "index: put TEXT before each question", 'u', INDEX},
    {"max-size", "SIZE", "index: leave out larger files (default: 1M)", 's', INDEX},
    {"no-ignore", NULL, "index: do not read .gitignore files", 'i', INDEX},
    {"quiet", NULL, "print only errors on standard error", 'q', INDEX | FIND},
    {"verbose", NULL, "find: print times on standard error", 'v', FIND},
    {"help", NULL, "print this help", 'h', INDEX | FIND},
};

enum { N_DEFS = sizeof(defs) / sizeof(*defs) };

static bool has_letter(const struct def *d)
{
    return strchr("anmqvh", d->letter) != NULL;
}

static int help(void)
{
    struct buf text = BUF_INIT;
    int r = buf_puts(&text, "hob index [DIR]        make or update the index of a folder\n"
                            "hob index --list       list the indexes\n"
                            "hob index --rm [DIR]   remove an index\n"
                            "hob find WORDS…        print the places of the index that are nearest to WORDS\n"
                            "hob find -a QUESTION   answer from what was found, with sources\n\n");
    for (size_t i = 0; r == 0 && i < N_DEFS; i++) {
        const struct def *d = &defs[i];
        char left[40];
        snprintf(left, sizeof(left), "--%s%s%s", d->name, d->arg ? " " : "", d->arg ? d->arg : "");
        if (has_letter(d))
            r = buf_printf(&text, "  -%c, %-24s %s\n", d->letter, left, d->help);
        else
            r = buf_printf(&text, "      %-24s %s\n", left, d->help);
    }
    if (r == 0)
        r = buf_puts(&text, "\nWithout DIR: the nearest index above the working directory, else a new one of it.\n"
                            "See hob-find(1).\n");
    if (r == 0) r = output_print(text.data, text.len);
    buf_fini(&text);
    return r < 0 ? exit_status_report(r) : EXIT_ANSWERED;
}

/* 0; -EINVAL; sets the error message, which lacks the option's name. */
static int set(struct find_options *f, int letter, const char *value)
{
    uint64_t v = 0;
    int r = 0;
    if (letter == 'n') r = parse_u64(value, 1, RESULTS_MOST, &v), f->most = (unsigned)v;
    if (letter == 'd') r = parse_u64(value, 1, VECTOR_DIM_MAX, &v), f->dims = (uint32_t)v;
    if (letter == 's') r = parse_size(value, &f->max_size);
    if (letter == 's' && r == 0 && (f->max_size == 0 || f->max_size > TREE_FILE_MAX))
        r = error_say(-EINVAL, "'%s' is not from 1 to 16M", value);
    if (letter == 'm' && !*value) r = error_say(-EINVAL, "the name is empty");
    if (letter == 'm') f->model = value;
    if (letter == 'p') f->prefix = value;
    if (letter == 'u') f->question_prefix = value;
    f->answer |= letter == 'a';
    f->jsonl |= letter == 'j';
    f->list |= letter == 'l';
    f->remove |= letter == 'r';
    f->no_ignore |= letter == 'i';
    f->quiet |= letter == 'q';
    f->verbose |= letter == 'v';
    return r;
}

/* 0; 1: --help; -EINVAL; sets the error message. */
static int parse(struct find_options *f, int command, int argc, char **argv)
{
    struct option longs[N_DEFS + 1] = {0};
    const char *word = command == INDEX ? "index" : "find";
    int c;
    for (size_t i = 0; i < N_DEFS; i++)
        longs[i] = (struct option){.name = defs[i].name, .has_arg = defs[i].arg ? 1 : 0, .val = defs[i].letter};
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":an:m:qvh", longs, NULL)) != -1) {
        size_t i = 0;
        while (i < N_DEFS && defs[i].letter != c) i++;
        if (c == ':') return error_say(-EINVAL, "'%s' needs a value (see hob %s --help)", argv[optind - 1], word);
        if (i == N_DEFS)
            return error_say(-EINVAL, "unknown option '%s' of '%s' (see hob %s --help)", argv[optind - (optind > 1)],
                             word, word);
        if (c == 'h') return 1;
        if (!(defs[i].commands & command))
            return error_say(-EINVAL, "--%s cannot be used with '%s'", defs[i].name, word);
        int r = set(f, c, optarg);
        if (r < 0) return error_in(r, "--%s", defs[i].name);
    }
    f->words = (const char **)argv + optind;
    f->n_words = (size_t)(argc - optind);
    return 0;
}

/* 0; -EINVAL; sets the error message. */
static int check(const struct find_options *f, int command)
{
    bool makes =
        f->model || f->dims || f->prefix || f->question_prefix || f->no_ignore || f->max_size != MAX_SIZE_DEFAULT;
    if (command == FIND && f->n_words == 0) return error_say(-EINVAL, "usage: hob find [-a] WORDS…");
    if (command == FIND && f->answer && f->jsonl)
        return error_say(-EINVAL, "--answer and --jsonl cannot be used together");
    if (command == FIND && f->model && !f->answer)
        return error_say(-EINVAL, "-m of 'find' names the model that answers with -a; the index knows its own model");
    if (command == FIND) return 0;
    if (f->n_words > (f->list ? 0 : 1)) return error_say(-EINVAL, "usage: hob index [DIR], one folder at a time");
    if (f->list && f->remove) return error_say(-EINVAL, "--list and --rm cannot be used together");
    if ((f->list || f->remove) && makes) return error_say(-EINVAL, "--list and --rm take no options of an index");
    return f->jsonl && !f->list ? error_say(-EINVAL, "--jsonl of 'index' goes with --list") : 0;
}

struct task {
    struct find_options f;
    int command;
};

static int run(struct options *o, void *ctx)
{
    struct task *t = ctx;
    if (t->f.quiet) log_init("hob", LOG_ERROR);
    t->f.quiet |= o->quiet;
    if (t->f.list) return index_list(&t->f);
    if (t->command == INDEX) return index_command(&t->f, o);
    if (!t->f.model) return find_command(&t->f, o);
    free(o->model);
    o->model = strdup(t->f.model);
    return o->model ? find_command(&t->f, o) : exit_status_report(error_say(-ENOMEM, "no memory for a name"));
}

int main(int argc, char **argv)
{
    struct task task = {.f = {.max_size = MAX_SIZE_DEFAULT, .most = MOST_DEFAULT}};
    struct options o;
    startup_begin();
    if (argc > 1) task.command = strcmp(argv[1], "index") == 0 ? INDEX : strcmp(argv[1], "find") == 0 ? FIND : 0;
    int r = task.command ? parse(&task.f, task.command, argc - 1, argv + 1)
                         : error_say(-EINVAL, "the word 'index' or 'find' must come first, options after it");
    if (r > 0) return help();
    if (r == 0) r = check(&task.f, task.command);
    if (r < 0) {
        log_error("%s", error_text(r));
        return EXIT_USAGE;
    }
    /* hob.conf names the model that is used without -m. */
    r = options_parse(&o, 1, (char *[]){(char *)"hob", NULL});
    return startup_run(&o, r, run, &task);
}
