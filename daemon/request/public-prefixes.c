/* SPDX-License-Identifier: MIT */
#include "daemon/request/public-prefixes.h"
#include "daemon/request/request.h"
#include "daemon/request/types.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/utf8.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define UID       0          /* whom the prefixes are charged to */
#define BYTES_MAX (1u << 20) /* of one file */
#define FILES_MAX 64

/* The whole file as a text. 0, or -errno and an error message. */
static int read_text(struct proto_text *out, int dir, const char *name)
{
    struct stat st;
    _cleanup_(closep) int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0) return error_say(-errno, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode)) return error_say(-EINVAL, "not a regular file");
    if (st.st_size > BYTES_MAX) return error_say(-EFBIG, "larger than %u bytes", BYTES_MAX);
    size_t size = (size_t)st.st_size, n = 0;
    _cleanup_(freep) char *data = malloc(size + 1);
    if (!data) return -ENOMEM;
    while (n < size) {
        ssize_t r = read(fd, data + n, size - n);
        if (r < 0) return error_say(-errno, "%s", strerror(errno));
        if (r == 0) break;
        n += (size_t)r;
    }
    while (n && (data[n - 1] == '\n' || data[n - 1] == '\r')) n--; /* as a shell's $(cat) drops them */
    if (n == 0) return error_say(-EINVAL, "it is empty");
    if (utf8_check(data, n) < n) return error_say(-EILSEQ, "not UTF-8");
    data[n] = '\0';
    *out = (struct proto_text){.data = steal(data), .len = n};
    return 0;
}

/* The beginning of any `hob -s TEXT`; the text after the system prompt does not matter. */
static int request(struct proto_request *q, struct proto_text *text)
{
    q->type = PROTO_WARM;
    proto_generate_init(&q->gen);
    q->gen.messages = calloc(2, sizeof(*q->gen.messages));
    if (!q->gen.messages) return -ENOMEM;
    q->gen.n_messages = 2;
    q->gen.messages[0].content = *text;
    *text = (struct proto_text){0};
    int r = proto_text_set(&q->gen.messages[0].role, "system", 6);
    if (r == 0) r = proto_text_set(&q->gen.messages[1].role, "user", 4);
    return r < 0 ? r : proto_text_set(&q->gen.messages[1].content, "?", 1);
}

static int warm(struct core *core, int dir, const char *name)
{
    struct proto_text text = {0};
    struct proto_request q = {0};
    struct request *r = NULL;
    int result = read_text(&text, dir, name);
    if (result == 0) result = request(&q, &text);
    if (result == 0) result = request_new(&r, core, &request_warm, 0, UID, &q);
    proto_text_fini(&text);
    proto_request_fini(&q);
    if (result < 0) return result;
    r->control.internal = true;
    r->control.silent = true;
    pthread_mutex_lock(&core->mail.lock);
    r->user = user_hold(&core->mail.users, UID);
    if (r->user) request_list_push(&core->mail.inbox, r);
    pthread_mutex_unlock(&core->mail.lock);
    if (r->user) return 0;
    request_free(r);
    return -ENOMEM;
}

static int is_text(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return d->d_name[0] != '.' && n > 4 && !strcmp(d->d_name + n - 4, ".txt");
}

void public_prefixes_warm(struct core *core)
{
    struct dirent **names = NULL;
    const char *path = core->config.prefixes_dir;
    _cleanup_(closep) int dir = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir < 0) {
        if (path && errno != ENOENT) log_warning("%s: %s", path, strerror(errno));
        return;
    }
    int n = scandirat(dir, ".", &names, is_text, alphasort);
    if (n > FILES_MAX) log_warning("%s: only the first %d of %d prefixes are used", path, FILES_MAX, n);
    for (int i = 0; i < n; i++) {
        int r = i < FILES_MAX ? warm(core, dir, names[i]->d_name) : 0;
        if (r < 0) log_warning("%s/%s: %s", path, names[i]->d_name, error_text(r));
        if (r == 0) core->cache.has_public = true;
        free(names[i]);
    }
    free(names);
}
