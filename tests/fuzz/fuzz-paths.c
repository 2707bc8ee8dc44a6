/* SPDX-License-Identifier: MIT */
/* Names of models, the environment that tells where files are, and lines of the log. The input has fields, each ended
 * by a newline: a model, a message, then values of the variables below. "@" at the begin of a value is a folder that
 * exists. */
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/model-parts.h"
#include "libcommon/paths.h"
#include "tests/fuzz/fuzz.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const fuzz_seeds[] = {
    "llama\nhello\n@/home\n@/x\n@/y\n@/z\n",
    "@/m.gguf\n\x1b[0m a \xff\n@\n\n\n@/c\n@/data\n@/run\n",
    "../x\n\n\nrelative\n",
    "@/models/a-00001-of-00002.gguf\nmessage\n@\n@\n@\n@\n@\n@\n@/state\n@/cache/hob\n@/run/hob\n@/etc/hob\n8:123\n",
    ".hidden\nx\n",
    "name\twith\x01\n",
    NULL,
};

static const char *const variables[] = {"HOME",
                                        "XDG_STATE_HOME",
                                        "XDG_CACHE_HOME",
                                        "XDG_CONFIG_HOME",
                                        "XDG_DATA_HOME",
                                        "XDG_RUNTIME_DIR",
                                        "STATE_DIRECTORY",
                                        "CACHE_DIRECTORY",
                                        "RUNTIME_DIRECTORY",
                                        "CONFIGURATION_DIRECTORY",
                                        "JOURNAL_STREAM",
                                        "NO_COLOR",
                                        "TERM"};
enum { VARIABLES = sizeof(variables) / sizeof(*variables), FIELD_MAX = 200 };

static char dir[64];

/* The next field; NULL: there is none. */
static const char *field(struct fuzz_input *in, char out[FIELD_MAX + 64])
{
    const uint8_t *end = in->n ? memchr(in->data, '\n', in->n) : NULL;
    size_t n = end ? (size_t)(end - in->data) : 0;
    if (!end) return NULL;
    const char *s = fuzz_bytes(in, &n);
    in->data++, in->n--;
    if (n > FIELD_MAX || memchr(s, 0, n)) return NULL;
    bool inside = n > 0 && *s == '@';
    snprintf(out, FIELD_MAX + 64, "%s%.*s", inside ? dir : "", (int)n - inside, s + inside);
    return out;
}

static void check(int r, char *text)
{
    FUZZ_CHECK(r <= 0 && (r == 0) == (text != NULL));
    if (r < 0) FUZZ_CHECK(strlen(error_text(r)) > 4);
    free(text);
}

static void use(const char *model)
{
    char *text = NULL, *list[8];
    int r;
    for (int system = 0; system < 2; system++) {
        for (enum paths_kind kind = PATHS_RUNTIME; kind <= PATHS_CONFIG; kind++, text = NULL) {
            r = paths_dir(kind, system, &text);
            check(r, text);
        }
        r = paths_model_file(model, system, &text);
        check(r, text);
        text = NULL;
        r = paths_socket(model, system, &text);
        check(r, text);
        text = NULL;
    }
    r = paths_model_name(model, &text);
    if (r == 0) FUZZ_CHECK(strlen(text) >= 1 && strlen(text) <= 64 + 9 && *text != '.' && !strchr(text, '/'));
    check(r, text);
    if (model_part_path(&text, model, 2, 3) == 0) free(text);
    size_t n = model_parts_list(list, 8, model);
    for (size_t i = 0; i < n; i++) free(list[i]);
    char inside[FIELD_MAX + 160];
    snprintf(inside, sizeof(inside), "%s/%s", dir, model);
    if (!strstr(model, "..") && strlen(model) < 64) paths_make(inside);
}

/* Writes a line of the log to nowhere. */
static void say(const char *message)
{
    static int nowhere = -1;
    if (nowhere < 0) nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (kept < 0) return;
    fflush(stderr);
    dup2(nowhere, STDERR_FILENO);
    log_init("fuzz", LOG_DEBUG);
    for (enum log_level l = LOG_ERROR; l <= LOG_DEBUG; l++) log_at(l, "%s", message);
    dup2(kept, STDERR_FILENO);
    close(kept);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    char model[FIELD_MAX + 64], message[FIELD_MAX + 64], value[FIELD_MAX + 64];
    if (size > 1024) return 0;
    if (!dir[0]) fuzz_folder(dir);
    if (!field(&in, model) || !field(&in, message)) return 0;
    for (unsigned i = 0; i < VARIABLES; i++) {
        const char *v = field(&in, value);
        if (v && (*v == 0 || strncmp(v, dir, strlen(dir)) == 0 || i >= VARIABLES - 3 || *v != '/'))
            setenv(variables[i], v, 1);
        else
            unsetenv(variables[i]);
    }
    use(model);
    say(message);
    return 0;
}
