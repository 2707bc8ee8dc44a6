/* SPDX-License-Identifier: MIT */
/* hobd template: renders a request's JSON from standard input with a chat template. */
#include "daemon/command/command.h"
#include "daemon/command/template-source.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <getopt.h>
#include <stdio.h>
#include <time.h>

struct options {
    const char *model, *template;
    time_t now;
};

static void usage(void)
{
    fputs("usage: hobd template (-m FILE | --template FILE) [--now TIME] <REQUEST.json\n"
          "\nRenders a chat template with the JSON object on standard input. Each key of the\n"
          "object is a variable of the template.\n\n"
          "  -m, --model FILE      model name or .gguf path: use its chat template, its\n"
          "                        bos_token and its eos_token\n"
          "      --template FILE   use the template in this file\n"
          "      --now TIME        local time for strftime_now, such as\n"
          "                        2026-11-20T12:00:00\n"
          "      --help            print this help\n",
          stdout);
}

static int parse_now(const char *s, time_t *out)
{
    struct tm tm = {.tm_isdst = -1};
    const char *end = strptime(s, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!end || *end) return error_say(-EINVAL, "--now needs a time like 2026-11-20T12:00:00, not '%s'", s);
    *out = mktime(&tm);
    return 0;
}

/* 0; 1: --help was printed; 2: wrong usage. */
static int parse(struct options *o, int argc, char **argv)
{
    enum { TEMPLATE = 256, NOW, HELP };
    static const struct option longs[] = {
        {"model", required_argument, NULL, 'm'},
        {"template", required_argument, NULL, TEMPLATE},
        {"now", required_argument, NULL, NOW},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    opterr = 0;
    int c, r = 0;
    while (r == 0 && (c = getopt_long(argc, argv, ":m:", longs, NULL)) != -1) {
        if (c == 'm')
            o->model = optarg;
        else if (c == TEMPLATE)
            o->template = optarg;
        else if (c == NOW)
            r = parse_now(optarg, &o->now);
        else if (c == HELP) {
            usage();
            return 1;
        } else
            r = command_refuse(argv, c);
    }
    if (r == 0 && optind < argc)
        r = error_say(-EINVAL, "unexpected argument '%s' (the request comes from standard input)", argv[optind]);
    if (r == 0 && !o->model == !o->template)
        r = error_say(-EINVAL, "expected either -m FILE or --template FILE; see hobd template --help");
    return r < 0 ? command_misused(argv, r) : 0;
}

static int run(const struct options *o)
{
    static const char *const trusted[] = {"bos_token", "eos_token", NULL};
    json_auto_t *vars = NULL;
    _cleanup_(template_source_fini) struct template_source source = {.template = NULL};
    int r = template_source_request(&vars);
    if (r == 0) r = template_source_load(&source, o->model, o->template, vars);
    if (r < 0) return r;
    struct text text = {0};
    r = template_render(source.template, vars, trusted, o->now, NULL, &text);
    if (r == 0) r = command_print(text.s.data, text.s.len);
    text_fini(&text);
    return r;
}

int command_template(int argc, char **argv)
{
    struct options o = {.now = time(NULL)};
    int r = parse(&o, argc, argv);
    if (r) return r == 1 ? 0 : r;
    r = run(&o);
    return r < 0 ? command_failed(argv, r) : 0;
}
