/* SPDX-License-Identifier: MIT */
/* hobd template: renders a request's JSON from standard input with a chat template. */
#include "daemon/command/command.h"
#include "daemon/command/template-source.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <time.h>

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

static int take_now(void *to, const char *s)
{
    time_t *out = to;
    struct tm tm = {.tm_isdst = -1};
    const char *end = strptime(s, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!end || *end) return error_say(-EINVAL, "--now needs a time like 2026-11-20T12:00:00, not '%s'", s);
    struct tm noon = {.tm_year = tm.tm_year, .tm_mon = tm.tm_mon, .tm_mday = tm.tm_mday, .tm_hour = 12};
    timegm(&noon);
    if (noon.tm_mday != tm.tm_mday) return error_say(-EINVAL, "--now: there is no such day: %s", s);
    *out = mktime(&tm);
    return 0;
}

static int run(const struct template_options *o, time_t now)
{
    static const char *const trusted[] = {"bos_token", "eos_token", NULL};
    json_auto_t *vars = NULL;
    _cleanup_(template_source_fini) struct template_source source = {.template = NULL};
    int r = template_source_request(&vars);
    if (r == 0) r = template_source_load(&source, o->model, o->file, vars);
    if (r < 0) return r;
    struct text text = {0};
    r = template_render(source.template, vars, trusted, now, NULL, &text);
    if (r == 0) r = command_print(text.s.data, text.s.len);
    text_fini(&text);
    return r;
}

int command_template(int argc, char **argv)
{
    time_t now = time(NULL);
    struct template_options o = {.usage = usage, .option = "now", .take = take_now, .to = &now};
    int r = template_options_parse(&o, argc, argv);
    if (r) return r == 1 ? 0 : r;
    r = run(&o, now);
    return r < 0 ? command_failed(argv, r) : 0;
}
