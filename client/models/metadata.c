/* SPDX-License-Identifier: MIT */
#include "client/models/metadata.h"
#include "client/interrupt.h"
#include "client/json.h"
#include "client/launch.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/units.h"
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define METADATA_LINE_MAX (1u << 20) /* of the output for one file, which is a few strings */

/* Start hobd with the descriptor @out as standard output. */
static int metadata_start(char **argv, int out, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    int r = posix_spawn_file_actions_init(&files);
    if (r != 0) return error_say(-r, "no memory to start hobd");
    r = posix_spawnattr_init(&attr);
    if (r == 0) r = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
    if (r == 0) r = posix_spawnattr_setsigdefault(&attr, &pipe);
    if (r == 0) r = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (r == 0) r = posix_spawn_file_actions_adddup2(&files, out, 1);
    if (r == 0) r = posix_spawn(pid, argv[0], &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return r != 0 ? error_say(-r, "cannot start %s: %s", argv[0], strerror(r)) : 0;
}

static int metadata_drain(int fd, struct buf *out, size_t max)
{
    ssize_t n;
    for (;;) {
        if (out->len > max) return error_say(-EMSGSIZE, "the output of hobd inspect is too long");
        if (buf_reserve(out, 65536) < 0) return error_say(-ENOMEM, "no memory for the output of hobd");
        n = read(fd, out->data + out->len, 65536);
        if (n == 0) return buf_append(out, "", 1);
        if (n < 0) return errno == EINTR ? -EINTR : error_origin(-errno);
        out->len += (size_t)n;
    }
}

static int metadata_item(void *ctx, const struct json_item *item)
{
    struct metadata *f = ctx;
    const char *key = item->key;
    char **text;
    if (item->depth != 1 || !key || item->kind == JSON_OPEN || item->kind == JSON_CLOSE) return 0;
    if (item->kind == JSON_STRING) {
        text = strcmp(key, "error") == 0          ? &f->error
               : strcmp(key, "why") == 0          ? &f->why
               : strcmp(key, "type") == 0         ? &f->type
               : strcmp(key, "architecture") == 0 ? &f->architecture
               : strcmp(key, "encoder") == 0      ? &f->encoder
               : strcmp(key, "packed_why") == 0   ? &f->packed_why
                                                  : NULL;
        if (!text || *text) return 0;
        *text = strdup(item->text);
        return *text ? 0 : -ENOMEM;
    }
    if (strcmp(key, "bytes") == 0) f->bytes = strtoull(item->text, NULL, 10);
    if (strcmp(key, "parts") == 0) f->parts = strtoull(item->text, NULL, 10);
    if (strcmp(key, "complete") == 0) f->incomplete = strcmp(item->text, "false") == 0;
    if (strcmp(key, "context") == 0) f->context = strtoull(item->text, NULL, 10);
    if (strcmp(key, "supported") == 0) f->supported = strcmp(item->text, "true") == 0;
    if (strcmp(key, "template") == 0) f->chat_template = strcmp(item->text, "true") == 0;
    if (strcmp(key, "packed") == 0) f->packed = strcmp(item->text, "true") == 0;
    return 0;
}

/* Parse one line for each file, in the order of the files. */
static int metadata_parse(struct metadata *out, size_t n, const struct buf *text)
{
    const char *p = text->data, *end;
    for (size_t i = 0; i < n; i++, p = end + 1) {
        end = strchr(p, '\n');
        if (!end) return error_say(-EBADMSG, "the output of hobd inspect is incomplete");
        int r = json_walk(p, (size_t)(end - p), metadata_item, &out[i]);
        if (r < 0) return error_in(r, "hobd inspect");
    }
    return 0;
}

void metadata_fini(struct metadata *f)
{
    free(f->error);
    free(f->why);
    free(f->type);
    free(f->architecture);
    free(f->encoder);
    free(f->packed_why);
    *f = (struct metadata){0};
}

/* @base: the model of adapters; NULL: the files are models. */
static int metadata_run(struct buf *text, const char *hobd, const char *base, const char *const *files, size_t n)
{
    _cleanup_(freep) const char **argv = calloc(n + 7, sizeof(*argv));
    _cleanup_(closep) int in = -1, out = -1;
    int pipes[2], status;
    pid_t pid;
    if (!argv) return error_say(-ENOMEM, "no memory to start hobd");
    argv[0] = hobd;
    argv[1] = "inspect";
    argv[2] = "--json";
    size_t at = 3;
    if (base) argv[at++] = "--adapter-of";
    if (base) argv[at++] = base;
    argv[at++] = "--";
    memcpy(argv + at, files, n * sizeof(*argv));
    if (pipe2(pipes, O_CLOEXEC) < 0) return error_origin(-errno);
    in = pipes[0];
    out = pipes[1];
    int r = metadata_start((char **)argv, out, &pid);
    if (r < 0) return r;
    closep(&out);
    r = metadata_drain(in, text, n * METADATA_LINE_MAX);
    closep(&in);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return r;
}

static int read_all(struct metadata *out, const char *base, const char *const *files, size_t n)
{
    _cleanup_(freep) char *hobd = NULL;
    struct buf text = BUF_INIT;
    memset(out, 0, n * sizeof(*out));
    if (n == 0) return 0;
    int r = launch_hobd(&hobd);
    if (r == 0) r = metadata_run(&text, hobd, base, files, n);
    if (r == 0) r = metadata_parse(out, n, &text);
    buf_fini(&text);
    if (r < 0 && interrupted()) r = -EINTR; /* hobd received the SIGINT, too */
    for (size_t i = 0; r < 0 && i < n; i++) metadata_fini(&out[i]);
    return r;
}

int metadata_read(struct metadata *out, const char *const *files, size_t n)
{
    return read_all(out, NULL, files, n);
}

int metadata_check_adapter(struct metadata *out, const char *file, const char *base)
{
    int r = read_all(out, base, &file, 1);
    if (r < 0) return r;
    if (out->error) r = error_say(-EINVAL, "%s", out->error);
    if (!out->error && !out->supported) r = error_say(-EOPNOTSUPP, "%s", out->why ? out->why : "unknown reason");
    if (r < 0) metadata_fini(out);
    return r;
}

static bool names_encoder(const char *name)
{
    static const char end[] = ".mmproj";
    const size_t n = strlen(name), of = sizeof(end) - 1;
    return n > of && strcmp(name + n - of, end) == 0;
}

int metadata_check(struct metadata *out, const char *file, const char *name)
{
    int r = metadata_read(out, &file, 1);
    if (r < 0) return r;
    if (out->error)
        r = error_say(-EINVAL, "%s", out->error);
    else if (!out->supported)
        r = error_say(-EOPNOTSUPP, "hobd cannot run it: %s", out->why ? out->why : "unknown reason");
    else if (out->encoder && !names_encoder(name))
        r = error_say(-EOPNOTSUPP, "it is the encoder of a model (%s): give it the name MODEL.mmproj", out->encoder);
    else if (!out->encoder && names_encoder(name))
        r = error_say(-EOPNOTSUPP, "it is no encoder: a name that ends in .mmproj is for the encoder of a model");
    if (r < 0) metadata_fini(out);
    return r;
}

void metadata_log(const struct metadata *f, const char *did, const char *name, bool system)
{
    char size[16], context[48] = "", parts[32] = "";
    if (f->parts > 1) snprintf(parts, sizeof(parts), " in %" PRIu64 " parts", f->parts);
    if (f->context) snprintf(context, sizeof(context), ", context %" PRIu64, f->context);
    log_info("%s %s: %s%s, %s, %s%s%s", did, name, format_size(size, f->bytes), parts, f->type ? f->type : "no tensors",
             f->encoder        ? f->encoder
             : f->architecture ? f->architecture
                               : "?",
             context, f->chat_template || f->encoder ? "" : ", no chat template");
    if (f->encoder) return;
    if (!system && strcmp(name, "default") != 0) log_info("to use it: hob -m '%s'", name);
}
