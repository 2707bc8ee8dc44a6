/* SPDX-License-Identifier: MIT */
/* hobd template: renders a request's JSON from standard input with a chat template. */
#include "daemon/text/template/template.h"
#include "daemon/command/command.h"
#include "daemon/text/tokenizer/tokenizer.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/file.h"
#include "libcommon/paths.h"
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REQUEST_MAX (1u << 30)

struct options {
    const char *model, *template;
    time_t now;
};

DEFINE_CLEANUP(struct gguf *, gguf_close)
DEFINE_CLEANUP(struct tokenizer *, tokenizer_free)
DEFINE_CLEANUP(struct template *, template_free)

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

/* Reads all of @fd, whose name is @name, but at most @max bytes. */
static int read_all(int fd, const char *name, size_t max, struct buf *b)
{
    for (;;) {
        int r = buf_reserve(b, 1 << 16);
        if (r < 0) return error_origin(r);
        ssize_t n = read(fd, b->data + b->len, b->cap - b->len - 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return error_say(-errno, "%s: %s", name, strerror(errno));
        if (n == 0) return 0;
        b->len += (size_t)n;
        b->data[b->len] = '\0';
        if (b->len > max) return error_say(-E2BIG, "%s: more than %zu bytes", name, max);
    }
}

static int load_file(const char *path, struct template **out)
{
    _cleanup_(buf_fini) struct buf src = BUF_INIT;
    _cleanup_(closep) int fd = file_open_once(path);
    if (fd < 0) return fd;
    int r = read_all(fd, path, TEMPLATE_SOURCE_MAX, &src);
    return r < 0 ? r : template_new(out, src.data ? src.data : "", src.len);
}

static int set_token(json_t *vars, const char *key, const struct tokenizer *t, int32_t id)
{
    if (id < 0 || json_object_get(vars, key)) return 0;
    size_t len;
    const char *piece = tokenizer_piece(t, id, &len);
    json_t *s = json_stringn(piece, len);
    if (!s) return error_say(-EINVAL, "the model's %s is not UTF-8", key);
    return json_object_set_new(vars, key, s) < 0 ? error_origin(-ENOMEM) : 0;
}

static int load_model(const char *model, json_t *vars, struct template **out)
{
    _cleanup_(freep) char *path = NULL;
    _cleanup_(gguf_closep) struct gguf *g = NULL;
    _cleanup_(tokenizer_freep) struct tokenizer *t = NULL;
    struct gguf_str src;
    int r = paths_model_file(model, false, &path);
    if (r == 0) r = gguf_open(&g, path);
    if (r < 0) return r;
    r = gguf_get_str(g, "tokenizer.chat_template", &src);
    if (r > 0) return error_say(-ENOENT, "%s: no chat template (tokenizer.chat_template)", path);
    if (r == 0) r = template_new(out, src.data, src.len);
    if (r < 0) return error_in(r, "%s", path);
    r = tokenizer_new(&t, g);
    if (r == 0) r = set_token(vars, "bos_token", t, tokenizer_bos(t));
    if (r == 0) r = set_token(vars, "eos_token", t, tokenizer_eos(t));
    return r < 0 ? error_in(r, "%s", path) : 0;
}

static int read_request(json_t **out)
{
    _cleanup_(buf_fini) struct buf in = BUF_INIT;
    json_error_t e;
    int r = read_all(STDIN_FILENO, "standard input", REQUEST_MAX, &in);
    if (r < 0) return r;
    json_t *vars = json_loadb(in.data ? in.data : "", in.len, JSON_ALLOW_NUL, &e);
    if (!vars) return error_say(-EINVAL, "standard input: JSON line %d: %s", e.line, e.text);
    if (!json_is_object(vars)) {
        json_decref(vars);
        return error_say(-EINVAL, "standard input: not a JSON object");
    }
    *out = vars;
    return 0;
}

static int run(const struct options *o)
{
    static const char *const trusted[] = {"bos_token", "eos_token", NULL};
    json_auto_t *vars = NULL;
    _cleanup_(template_freep) struct template *t = NULL;
    int r = read_request(&vars);
    if (r == 0) r = o->model ? load_model(o->model, vars, &t) : load_file(o->template, &t);
    if (r < 0) return r;
    struct text text = {0};
    r = template_render(t, vars, trusted, o->now, NULL, &text);
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
