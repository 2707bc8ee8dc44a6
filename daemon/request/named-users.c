/* SPDX-License-Identifier: MIT */
#include "daemon/request/named-users.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define FILE_NAME "users"
#define LAST      (UINT32_MAX - 1) /* (uid_t)-1 is no uid */

enum { FILE_MOST = 16 << 20, LINE_MOST = 2 * 11 + PROTO_USER_MAX + 2 };

struct named_user {
    uid_t number, gateway;
    char name[PROTO_USER_MAX + 1];
};

struct named_users {
    pthread_mutex_t lock;
    char *dir;               /* NULL: none */
    struct named_user *list; /* [n] */
    size_t n;
    uint64_t next; /* the least number that no user has, and no directory of sessions */
};

int named_users_new(struct named_users **out, const char *dir)
{
    struct named_users *u = calloc(1, sizeof(*u));
    if (!u) return error_origin(-ENOMEM);
    u->next = NAMED_USERS_FIRST;
    u->dir = dir ? strdup(dir) : NULL;
    if (dir && !u->dir) {
        free(u);
        return error_origin(-ENOMEM);
    }
    pthread_mutex_init(&u->lock, NULL);
    *out = u;
    return 0;
}

struct named_users *named_users_free(struct named_users *u)
{
    if (!u) return NULL;
    pthread_mutex_destroy(&u->lock);
    free(u->list);
    free(u->dir);
    free(u);
    return NULL;
}

static bool valid_name(const char *s, size_t n)
{
    return n > 0 && n <= PROTO_USER_MAX &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@") == n;
}

static const struct named_user *look_up(const struct named_users *u, uid_t gateway, const char *name)
{
    for (size_t i = 0; i < u->n; i++)
        if (u->list[i].gateway == gateway && strcmp(u->list[i].name, name) == 0) return &u->list[i];
    return NULL;
}

static int add(struct named_users *u, uid_t number, uid_t gateway, const char *name)
{
    struct named_user *more = reallocarray(u->list, u->n + 1, sizeof(*more));
    if (!more) return error_origin(-ENOMEM);
    u->list = more;
    more[u->n] = (struct named_user){.number = number, .gateway = gateway};
    strcpy(more[u->n++].name, name);
    if (number >= u->next) u->next = (uint64_t)number + 1;
    return 0;
}

/* --- the file --- */

/* Read the number at *s, which ends with a space, and step over both. */
static bool parse_number(const char **s, uid_t *out)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(*s, &end, 10);
    if (errno || end == *s || *end != ' ' || **s < '0' || **s > '9' || v > LAST) return false;
    *out = (uid_t)v;
    *s = end + 1;
    return true;
}

static int read_line(struct named_users *u, const char *line)
{
    uid_t number, gateway;
    if (!parse_number(&line, &number) || !parse_number(&line, &gateway) || number < NAMED_USERS_FIRST ||
        !valid_name(line, strlen(line)))
        return -EBADMSG;
    return look_up(u, gateway, line) ? 0 : add(u, number, gateway, line);
}

/* Is this line, without its end, the last one, and are bytes of it missing? A power failure leaves zeros for them. */
static bool is_torn(const char *line, const char *end, const char *file_end)
{
    return memchr(line, 0, (size_t)(end - line)) && !memchr(end + 1, '\n', (size_t)(file_end - end - 1));
}

/* Add the users of the file's @n bytes, and remove an incomplete last line, which a crash has left. */
static int parse(struct named_users *u, int fd, char *text, size_t n)
{
    size_t at = 0, line = 1;
    int r = 0;
    for (char *end; r == 0 && (end = memchr(text + at, '\n', n - at)); line++) {
        if (is_torn(text + at, end, text + n)) break;
        *end = 0;
        r = read_line(u, text + at);
        at = (size_t)(end - text) + 1;
    }
    if (r == -EBADMSG) return error_say(r, "%s/" FILE_NAME ":%zu: not a line of a user", u->dir, line - 1);
    if (r == 0 && at < n && ftruncate(fd, (off_t)at) < 0) return error_origin(-errno);
    return r;
}

static int read_file(struct named_users *u, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0) return error_origin(-errno);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH) || st.st_size > FILE_MOST)
        return error_say(-EBADMSG, "%s/" FILE_NAME " is not a file that only this user may write", u->dir);
    size_t n = (size_t)st.st_size;
    _cleanup_(freep) char *text = malloc(n + 1);
    if (!text) return error_origin(-ENOMEM);
    ssize_t got = pread(fd, text, n, 0);
    if (got < 0 || (size_t)got != n) return error_origin(got < 0 ? -errno : -EIO);
    return parse(u, fd, text, n);
}

/* No number of a directory of sessions is given to a new user, even if the file was lost. */
static int skip_directories(struct named_users *u, int dir)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        int r = error_origin(-errno);
        closep(&fd);
        return r;
    }
    for (struct dirent *e; (e = readdir(d));) {
        char *end;
        unsigned long long v = strtoull(e->d_name, &end, 10);
        if (!*end && end > e->d_name && v >= u->next && v <= LAST) u->next = v + 1;
    }
    closedir(d);
    return 0;
}

static int write_line(int dir, int fd, const struct named_user *x)
{
    char line[LINE_MOST + 1];
    int n = snprintf(line, sizeof(line), "%" PRIu32 " %" PRIu32 " %s\n", (uint32_t)x->number, (uint32_t)x->gateway,
                     x->name);
    ssize_t done = write(fd, line, (size_t)n);
    if (done >= 0 && done != n) return error_origin(-ENOSPC);
    return done < 0 || fsync(fd) < 0 || fsync(dir) < 0 ? error_origin(-errno) : 0;
}

/* Open the directory and the locked file. 0: both are the caller's to close. */
static int open_file(const struct named_users *u, int *dir, int *fd)
{
    int r = paths_make(u->dir);
    if (r < 0) return r;
    *dir = open(u->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*dir < 0) return error_origin(-errno);
    *fd = openat(*dir, FILE_NAME, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    return *fd < 0 || flock(*fd, LOCK_EX) < 0 ? error_origin(-errno) : 0;
}

/* --- numbers --- */

static int give_number(struct named_users *u, int dir, int fd, uid_t gateway, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < u->n; i++) n += u->list[i].gateway == gateway;
    if (n >= NAMED_USERS_MAX || u->next > LAST)
        return error_say(-EDQUOT, "uid %" PRIu32 " has named %zu users, the most", (uint32_t)gateway, n);
    struct named_user x = {.number = (uid_t)u->next, .gateway = gateway};
    strcpy(x.name, name);
    int r = fd >= 0 ? write_line(dir, fd, &x) : 0;
    return r < 0 ? r : add(u, x.number, gateway, name);
}

/* A user who is not in the list: look into the file, then add a new one. */
static int fetch(struct named_users *u, uid_t gateway, const char *name)
{
    _cleanup_(closep) int dir = -1, fd = -1;
    int r = u->dir ? open_file(u, &dir, &fd) : 0;
    if (r == 0 && u->dir) r = read_file(u, fd);
    if (r == 0 && !look_up(u, gateway, name)) {
        if (u->dir) r = skip_directories(u, dir);
        if (r == 0) r = give_number(u, dir, fd, gateway, name);
    }
    return r < 0 ? error_in(r, "the user '%s'", name) : 0;
}

int named_users_number(struct named_users *u, uid_t gateway, const struct proto_text *name, uid_t *out)
{
    if (!valid_name(name->data, name->len))
        return error_say(-EINVAL, "the name of a user must have 1 to %d letters, digits, '-', '_', '.' and '@'",
                         PROTO_USER_MAX);
    pthread_mutex_lock(&u->lock);
    int r = look_up(u, gateway, name->data) ? 0 : fetch(u, gateway, name->data);
    if (r == 0) *out = look_up(u, gateway, name->data)->number;
    pthread_mutex_unlock(&u->lock);
    return r;
}

bool named_users_find(struct named_users *u, uid_t number, uid_t *gateway, char name[static PROTO_USER_MAX + 1])
{
    bool found = false;
    if (number < NAMED_USERS_FIRST) return false;
    pthread_mutex_lock(&u->lock);
    for (size_t i = 0; i < u->n && !found; i++) {
        if (u->list[i].number != number) continue;
        *gateway = u->list[i].gateway;
        strcpy(name, u->list[i].name);
        found = true;
    }
    pthread_mutex_unlock(&u->lock);
    return found;
}
