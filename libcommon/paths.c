/* SPDX-License-Identifier: MIT */
#include "libcommon/paths.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Maximum bytes of a model's name: with a dash, a hash, a directory and ".sock" the path must fit into a socket
 * address. */
enum { MODEL_NAME_MAX = 64 };

static const struct place {
    const char *xdg;      /* the user's XDG variable */
    const char *fallback; /* below $HOME if the variable is not set; NULL: none */
    const char *below;    /* appended to either */
    const char *system;
    const char *systemd; /* the variable in which systemd passes this directory to a service */
} places[] = {
    [PATHS_RUNTIME] = {"XDG_RUNTIME_DIR", NULL, "hob", "/run/hob", "RUNTIME_DIRECTORY"},
    [PATHS_STATE] = {"XDG_STATE_HOME", ".local/state", "hob", "/var/lib/hob", "STATE_DIRECTORY"},
    [PATHS_CACHE] = {"XDG_CACHE_HOME", ".cache", "hob", "/var/cache/hob", "CACHE_DIRECTORY"},
    [PATHS_MODELS] = {"XDG_DATA_HOME", ".local/share", "hob/models", "/var/lib/hob/models", NULL},
    [PATHS_CONFIG] = {"XDG_CONFIG_HOME", ".config", "hob", "/etc/hob", "CONFIGURATION_DIRECTORY"},
};

static int format(char **out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int format(char **out, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(out, fmt, ap);
    va_end(ap);
    if (n >= 0) return 0;
    *out = NULL;
    return -ENOMEM;
}

static const char *variable(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

/*
 * The directory that systemd has set (the first of a list), or NULL. A client that runs inside another service inherits
 * that service's variables, so the two directories that a client also reads count only if they are named hob.
 */
static const char *from_systemd(enum paths_kind kind, size_t *len)
{
    const char *v = places[kind].systemd ? variable(places[kind].systemd) : NULL;
    if (!v || *v != '/') return NULL;
    *len = strcspn(v, ":");
    while (*len > 1 && v[*len - 1] == '/') --*len;
    if ((kind == PATHS_RUNTIME || kind == PATHS_CONFIG) && (*len < 4 || memcmp(v + *len - 4, "/hob", 4) != 0))
        return NULL;
    return v;
}

/* True if systemd's system instance started this process: a kind without a variable is then the system's directory,
 * too. */
static bool system_service(void)
{
    const char *state = variable("STATE_DIRECTORY");
    return state && strncmp(state, "/var/lib/", 9) == 0;
}

/* Sockets need a directory that no other user can write to. A login without a session manager (su, a container) has
 * none. */
static int runtime_fallback(char **out)
{
    _cleanup_(freep) char *dir = NULL;
    uid_t uid = geteuid();
    struct stat st;
    int r = format(&dir, "/run/user/%u", (unsigned)uid);
    if (r < 0) return r;
    if (lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == uid) return format(out, "%s/hob", dir);
    free(steal(dir));
    r = format(&dir, "/tmp/hob-%u", (unsigned)uid);
    if (r < 0) return r;
    if (mkdir(dir, 0700) < 0 && errno != EEXIST) return error_say(-errno, "cannot make %s: %s", dir, strerror(errno));
    /* Another user may have created the directory first: a link or a directory open to others cannot be trusted. */
    if (lstat(dir, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != uid || st.st_mode & 077)
        return error_say(-EPERM, "%s is not a private directory of this user: set XDG_RUNTIME_DIR or HOB_SOCKET", dir);
    *out = steal(dir);
    return 0;
}

static int user_dir(const struct place *p, char **out)
{
    const char *base = variable(p->xdg);
    if (base && *base != '/') return error_say(-EINVAL, "%s is not an absolute path: %s", p->xdg, base);
    if (base) return format(out, "%s/%s", base, p->below);
    if (!p->fallback) return runtime_fallback(out);
    const char *home = variable("HOME");
    if (!home) return error_say(-ENOENT, "neither %s nor HOME is set", p->xdg);
    if (*home != '/') return error_say(-EINVAL, "HOME is not an absolute path: %s", home);
    return format(out, "%s/%s/%s", home, p->fallback, p->below);
}

int paths_dir(enum paths_kind kind, bool system, char **out)
{
    size_t len;
    const char *given = from_systemd(kind, &len);
    *out = NULL;
    if (given) return format(out, "%.*s", (int)(len > PATH_MAX ? PATH_MAX : len), given);
    if (system || (!places[kind].systemd && system_service())) return format(out, "%s", places[kind].system);
    return user_dir(&places[kind], out);
}

static bool is_path(const char *model)
{
    size_t n = strlen(model);
    return strchr(model, '/') || (n >= 5 && strcmp(model + n - 5, ".gguf") == 0);
}

static bool control(char c)
{
    return (unsigned char)c < ' ' || c == 0x7f;
}

static int check_name(const char *model)
{
    if (!*model) return error_say(-EINVAL, "the model's name is empty");
    if (*model == '.') return error_say(-EINVAL, "a model's name must not begin with a dot: %.64s", model);
    if (strlen(model) > MODEL_NAME_MAX)
        return error_say(-EINVAL, "a model's name has at most %d bytes: %.64s…", MODEL_NAME_MAX, model);
    for (const char *p = model; *p; p++)
        if (control(*p)) return error_say(-EINVAL, "a model's name must not contain control characters");
    return 0;
}

/*
 * The absolute path, equal for all spellings of it. The last component is not resolved: a link to the current model
 * keeps its name, and with it its sessions, when its target changes.
 */
static int absolute(const char *path, char **out)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    _cleanup_(freep) char *dir = NULL, *real = NULL;
    if (slash)
        dir = strndup(path, slash == path ? 1 : (size_t)(slash - path));
    else
        dir = strdup(".");
    if (!dir) return -ENOMEM;
    real = realpath(dir, NULL);
    if (real) return format(out, "%s/%s", strcmp(real, "/") == 0 ? "" : real, base);
    if (errno == ENOMEM) return -ENOMEM;
    /* If the directory does not exist, opening the file will report it. */
    if (*path == '/') return format(out, "%s", path);
    real = getcwd(NULL, 0);
    if (!real) return error_say(-errno, "the working directory: %s", strerror(errno));
    return format(out, "%s/%s", real, path);
}

/* FNV-1a, 64 bits (draft-eastlake-fnv), folded to 32 as the draft recommends. A label, not a proof of identity. */
static uint32_t hash(const char *s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return (uint32_t)(h >> 32 ^ h);
}

static int name_of_path(const char *model, char **out)
{
    const char *slash = strrchr(model, '/'), *base = slash ? slash + 1 : model;
    _cleanup_(freep) char *path = NULL, *label = NULL;
    size_t n = strlen(base);
    if (n >= 5 && strcmp(base + n - 5, ".gguf") == 0) n -= 5;
    if (!n) return error_say(-EINVAL, "%s is not the path of a model", model);
    /* The hash distinguishes paths, so characters of the label may be replaced. */
    if (n > MODEL_NAME_MAX) n = utf8_whole(base, MODEL_NAME_MAX);
    label = strndup(base, n);
    if (!label) return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (control(label[i]) || (!i && label[i] == '.')) label[i] = '_';
    int r = absolute(model, &path);
    if (r < 0) return r;
    return format(out, "%s-%08x", label, hash(path));
}

int paths_model_name(const char *model, char **out)
{
    *out = NULL;
    if (is_path(model)) return name_of_path(model, out);
    int r = check_name(model);
    return r < 0 ? r : format(out, "%s", model);
}

/* 0: @path is a file; 1: no such file; else negative; sets the error message. */
static int look(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return errno == ENOENT || errno == ENOTDIR ? 1 : error_say(-errno, "%s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode)) return error_say(-EISDIR, "%s is a directory, not a model", path);
    return 0;
}

int paths_model_file(const char *model, bool system, char **out)
{
    static const char shared[] = "/usr/share/hob/models";
    _cleanup_(freep) char *dir = NULL, *first = NULL, *second = NULL;
    int r;
    *out = NULL;
    if (is_path(model)) {
        r = look(model);
        if (r > 0) return error_say(-ENOENT, "no model file %s", model);
        return r < 0 ? r : format(out, "%s", model);
    }
    r = check_name(model);
    if (r < 0) return r;
    r = paths_dir(PATHS_MODELS, system, &dir);
    if (r < 0) return r;
    r = format(&first, "%s/%s.gguf", dir, model);
    if (r == 0) r = format(&second, "%s/%s.gguf", shared, model);
    if (r < 0) return r;
    r = look(first);
    if (r > 0) {
        r = look(second);
        if (r == 0) *out = steal(second);
    } else if (r == 0) {
        *out = steal(first);
    }
    if (r > 0)
        return error_say(-ENOENT, "no model '%s': tried %s and %s; to add it: hob models add, or hob models pull",
                         model, first, second);
    return r;
}

int paths_socket(const char *model, bool system, char **out)
{
    _cleanup_(freep) char *dir = NULL, *name = NULL;
    *out = NULL;
    int r = paths_model_name(model, &name);
    if (r == 0) r = paths_dir(PATHS_RUNTIME, system, &dir);
    return r < 0 ? r : format(out, "%s/%s.sock", dir, name);
}

bool paths_program_dir(char *out)
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = 0;
    char *slash = strrchr(out, '/');
    if (slash) *slash = 0;
    return slash != NULL;
}

/* Sync the name of the new directory @path. Without this a power failure may remove it with all that was synced in it.
 * A parent that cannot be read is not synced. */
static void sync_name(const char *path)
{
    char parent[PATH_MAX];
    const char *end = strrchr(path, '/');
    snprintf(parent, sizeof(parent), "%.*s", end && end > path ? (int)(end - path) : 1, end ? path : ".");
    _cleanup_(closep) int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) (void)!fsync(fd);
}

int paths_make(const char *dir)
{
    _cleanup_(freep) char *path = strdup(dir);
    struct stat st;
    if (!path) return -ENOMEM;
    if (!*path) return error_say(-EINVAL, "the directory's path is empty");
    for (char *p = path + 1;; p++) {
        char c = *p;
        if (c && c != '/') continue;
        *p = 0;
        /* mkdir may fail with EROFS or EACCES for a directory that exists, so check that it exists. */
        if (mkdir(path, 0700) == 0) {
            sync_name(path);
        } else {
            int error = errno;
            if (stat(path, &st) < 0) return error_say(-error, "cannot make %s: %s", path, strerror(error));
            if (!S_ISDIR(st.st_mode)) return error_say(-ENOTDIR, "%s is not a directory", path);
        }
        if (!c) return 0;
        *p = '/';
    }
}
