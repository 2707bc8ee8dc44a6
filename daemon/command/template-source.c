/* SPDX-License-Identifier: MIT */
#include "daemon/command/template-source.h"
#include "daemon/command/command.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/file.h"
#include "libcommon/paths.h"
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUEST_MAX (1u << 30)

DEFINE_CLEANUP(struct gguf *, gguf_close)

int template_options_parse(struct template_options *o, int argc, char **argv)
{
    enum { TEMPLATE = 256, OWN, HELP };
    const struct option longs[] = {
        {"model", required_argument, NULL, 'm'},
        {"template", required_argument, NULL, TEMPLATE},
        {o->option, required_argument, NULL, OWN},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    opterr = 0;
    int c, r = 0;
    while (r == 0 && (c = getopt_long(argc, argv, ":m:", longs, NULL)) != -1) {
        if (c == 'm')
            o->model = optarg;
        else if (c == TEMPLATE)
            o->file = optarg;
        else if (c == OWN)
            r = o->take(o->to, optarg);
        else if (c == HELP) {
            o->usage();
            return 1;
        } else
            r = command_refuse(argv, c);
    }
    if (r == 0 && optind < argc)
        r = error_say(-EINVAL, "unexpected argument '%s' (the request comes from standard input)", argv[optind]);
    if (r == 0 && !o->model == !o->file)
        r = error_say(-EINVAL, "expected either -m FILE or --template FILE; see hobd %s --help", argv[0]);
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

static int load_file(struct template_source *s, const char *path)
{
    _cleanup_(closep) int fd = file_open_once(path);
    if (fd < 0) return fd;
    int r = read_all(fd, path, TEMPLATE_SOURCE_MAX, &s->text);
    if (r == 0) r = buf_append(&s->text, "", 0);
    return r < 0 ? r : template_new(&s->template, s->text.data, s->text.len);
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

static int load_model(struct template_source *s, const char *model, json_t *vars)
{
    _cleanup_(freep) char *path = NULL;
    _cleanup_(gguf_closep) struct gguf *g = NULL;
    struct gguf_str text;
    int r = paths_model_file(model, false, &path);
    if (r == 0) r = gguf_open(&g, path);
    if (r < 0) return r;
    r = gguf_get_str(g, "tokenizer.chat_template", &text);
    if (r > 0) return error_say(-ENOENT, "%s: no chat template (tokenizer.chat_template)", path);
    if (r == 0) r = buf_append(&s->text, text.data, text.len);
    if (r == 0) r = template_new(&s->template, s->text.data, s->text.len);
    if (r < 0) return error_in(r, "%s", path);
    r = tokenizer_new(&s->tokenizer, g);
    if (r == 0) r = set_token(vars, "bos_token", s->tokenizer, tokenizer_bos(s->tokenizer));
    if (r == 0) r = set_token(vars, "eos_token", s->tokenizer, tokenizer_eos(s->tokenizer));
    return r < 0 ? error_in(r, "%s", path) : 0;
}

int template_source_load(struct template_source *s, const char *model, const char *file, json_t *vars)
{
    return model ? load_model(s, model, vars) : load_file(s, file);
}

void template_source_fini(struct template_source *s)
{
    s->template = template_free(s->template);
    s->tokenizer = tokenizer_free(s->tokenizer);
    buf_fini(&s->text);
}

int template_source_request(json_t **out)
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
