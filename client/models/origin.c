/* SPDX-License-Identifier: MIT */
#include "client/models/origin.h"
#include "client/models/url.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#define ORIGIN_MAX 16384 /* bytes of a .from */
#define URL_MAX    8192

/* ORG/REPO[@REVISION]/FILE; FILE may contain folders. */
static int hub_url(const char *text, char **out)
{
    const char *end = getenv("HF_ENDPOINT");
    if (!end || !*end) end = "https://huggingface.co";
    const char *repo = strchr(text, '/');
    const char *file = repo ? strchr(repo + 1, '/') : NULL;
    if (!file || repo == text || file == repo + 1 || !file[1] || strstr(text, "..") || strpbrk(text, "?#"))
        return error_say(-EINVAL, "hf:%.200s: expected hf:ORG/REPO/FILE", text);
    const char *at = memchr(repo, '@', (size_t)(file - repo));
    int n = (int)((at ? at : file) - text);
    int r = asprintf(out, "%.*s/%.*s/resolve/%.*s/%s", (int)(strlen(end) - (end[strlen(end) - 1] == '/')), end, n, text,
                     at ? (int)(file - at - 1) : 4, at ? at + 1 : "main", file + 1);
    return r < 0 ? error_say(-ENOMEM, "no memory for a URL") : 0;
}

/* Remove user and password from the URL, so that they are neither shown nor written to a file. */
static int take_login(struct origin *o, CURLU *u)
{
    _cleanup_(url_text_free) char *user = NULL, *password = NULL;
    CURLUcode a = curl_url_get(u, CURLUPART_USER, &user, CURLU_URLDECODE);
    CURLUcode b = curl_url_get(u, CURLUPART_PASSWORD, &password, CURLU_URLDECODE);

    if ((a != CURLUE_OK && a != CURLUE_NO_USER) || (b != CURLUE_OK && b != CURLUE_NO_PASSWORD))
        return error_say(-EINVAL, "invalid user or password in the URL");
    if (!user && !password) return 0;
    o->user = strdup(user ? user : "");
    o->password = strdup(password ? password : "");
    if (!o->user || !o->password) return error_say(-ENOMEM, "no memory for a URL");
    curl_url_set(u, CURLUPART_USER, NULL, 0);
    curl_url_set(u, CURLUPART_PASSWORD, NULL, 0);
    return 0;
}

int origin_parse(struct origin *o, const char *text)
{
    _cleanup_(url_cleanup) CURLU *u = curl_url();
    _cleanup_(freep) char *hub = NULL;
    _cleanup_(url_text_free) char *url = NULL;
    char shown[URL_SHOWN];
    int r = 0;
    *o = (struct origin){.total = -1};
    if (strlen(text) > URL_MAX) return error_say(-EINVAL, "the URL is longer than %d bytes", URL_MAX);
    o->hub = strncmp(text, "hf:", 3) == 0;
    if (o->hub) r = hub_url(text + 3, &hub);
    if (r < 0) return r;
    if (!u) return error_say(-ENOMEM, "no memory for a URL");
    if (curl_url_set(u, CURLUPART_URL, hub ? hub : text, CURLU_NON_SUPPORT_SCHEME | CURLU_URLENCODE) != CURLUE_OK)
        return error_say(-EINVAL, "neither a URL nor hf:ORG/REPO/FILE: %s", url_shown(shown, text));
    curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0);
    r = take_login(o, u);
    if (r < 0) return r;
    if (curl_url_get(u, CURLUPART_URL, &url, 0) != CURLUE_OK)
        return error_say(-EINVAL, "not a URL: %s", url_shown(shown, text));
    o->url = strdup(url);
    return o->url ? 0 : error_say(-ENOMEM, "no memory for a URL");
}

char *origin_file(const struct origin *o)
{
    _cleanup_(url_cleanup) CURLU *u = curl_url();
    _cleanup_(url_text_free) char *path = NULL, *file = NULL;
    int n;
    if (!u || curl_url_set(u, CURLUPART_URL, o->url, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK ||
        curl_url_get(u, CURLUPART_PATH, &path, 0) != CURLUE_OK)
        return NULL;
    const char *slash = strrchr(path, '/');
    file = curl_easy_unescape(NULL, slash ? slash + 1 : path, 0, &n);
    /* A name with an escaped NUL is invalid. */
    return file && *file && strlen(file) == (size_t)n ? strdup(file) : NULL;
}

static char *line_of(const char *text, const char *key)
{
    const char *p = strstr(text, key);
    return p ? strndup(p + strlen(key), strcspn(p + strlen(key), "\n")) : NULL;
}

int origin_read(struct origin *o, const struct place *p)
{
    _cleanup_(closep) int fd = openat(p->dir, p->from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    _cleanup_(freep) char *sha256 = NULL, *total = NULL;
    char text[ORIGIN_MAX];
    *o = (struct origin){.total = -1};
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n <= 0) return 1;
    text[n] = 0;
    /* A file that is not completely valid is ignored. */
    if (strlen(text) != (size_t)n || strncmp(text, "hob pull 1\n", 11) != 0 || n < 5 ||
        strcmp(text + n - 5, "\nend\n") != 0)
        return 1;
    o->url = line_of(text, "\nurl ");
    o->tag = line_of(text, "\ntag ");
    sha256 = line_of(text, "\nsha256 ");
    total = line_of(text, "\ntotal ");
    if (total) o->total = strtoll(total, NULL, 10);
    if (sha256 && strspn(sha256, "0123456789abcdef") == 64) snprintf(o->sha256, sizeof(o->sha256), "%.64s", sha256);
    return o->url ? 0 : 1;
}

int origin_write(const struct origin *o, const struct place *p)
{
    _cleanup_(closep) int fd =
        openat(p->dir, p->from, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    struct buf text = BUF_INIT;
    if (fd < 0) return error_say(-errno, "%s/%s: %s", p->folder, p->from, strerror(errno));
    int r = buf_printf(&text, "hob pull 1\nurl %s\n", o->url);
    if (r == 0 && o->tag) r = buf_printf(&text, "tag %s\n", o->tag);
    if (r == 0 && *o->sha256) r = buf_printf(&text, "sha256 %s\n", o->sha256);
    if (r == 0 && o->total >= 0) r = buf_printf(&text, "total %" PRId64 "\n", o->total);
    if (r == 0) r = buf_puts(&text, "end\n");
    ssize_t n = r == 0 ? write(fd, text.data, text.len) : -1;
    if (r == 0 && n != (ssize_t)text.len)
        r = error_say(n < 0 ? -errno : -ENOSPC, "%s/%s: cannot write the file", p->folder, p->from);
    buf_fini(&text);
    return r;
}

void origin_fini(struct origin *o)
{
    free(o->url);
    free(o->user);
    free(o->password);
    free(o->tag);
    *o = (struct origin){.total = -1};
}
