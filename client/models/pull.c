/* SPDX-License-Identifier: MIT */
/*
 * hob models pull: downloads into the .part. If the download is incomplete, the .part stays for the next pull; if its
 * content is known to be wrong, the .part is removed. The file gets its name only when it is complete, its SHA-256
 * matches (if known), and hobd can run it.
 */
#include "client/models/pull.h"
#include "client/exit-status.h"
#include "client/interrupt.h"
#include "client/models/fetch.h"
#include "client/models/metadata.h"
#include "client/models/parts.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/units.h"
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#define TRIES 4           /* attempts in a row without progress */
#define EARLY (32u << 20) /* bytes that normally contain the metadata and the directory of tensors */

static int pull_said(const struct pull *p, int r)
{
    return error_in(r, "%s", p->place.name);
}

static int pull_restart(struct pull *p)
{
    if (ftruncate(p->place.fd, 0) < 0)
        return error_say(-errno, "%s/%s: %s", p->place.folder, p->place.part, strerror(errno));
    p->at = p->summed = 0;
    SHA256Init(&p->sum);
    return 0;
}

static int pull_again(struct pull *p)
{
    p->restart = true;
    return -EAGAIN;
}

/* --- incoming bytes --- */

static int set_tag(struct pull *p, const char *tag)
{
    free(p->origin.tag);
    p->origin.tag = tag ? strdup(tag) : NULL;
    return tag && !p->origin.tag ? -ENOMEM : 0;
}

static int on_begin(void *ctx, const struct fetch_head *h)
{
    struct pull *p = ctx;
    struct origin *o = &p->origin;
    int r = 0;
    if (h->sha256 && p->o->sha256 && strcasecmp(h->sha256, p->o->sha256) != 0)
        return error_say(-EBADMSG, "the server's file has the SHA-256 %s, which differs from --sha256", h->sha256);
    if (h->from > 0) {
        /* The rest of another version cannot complete this file. */
        bool other = (o->total >= 0 && h->total >= 0 && o->total != h->total) ||
                     (h->sha256 && *o->sha256 && strcmp(h->sha256, o->sha256) != 0) ||
                     (h->tag && o->tag && strcmp(h->tag, o->tag) != 0);

        if (other) return pull_again(p);
    } else if (p->at > 0) {
        bar_clear(&p->bar);
        log_info("%s: the file has changed, or the server does not support ranges; starting from the beginning",
                 p->place.name);
        r = pull_restart(p);
    }
    if (h->sha256) snprintf(o->sha256, sizeof(o->sha256), "%s", h->sha256);
    if (h->total >= 0 || h->from == 0) o->total = h->total;
    if (r == 0) r = set_tag(p, h->tag);
    if (r == 0 && o->total >= 0) r = place_room(&p->place, (uint64_t)o->total - p->at);
    return r == 0 ? origin_write(o, &p->place) : r;
}

static int check_magic(struct pull *p, const uint8_t *data, size_t n)
{
    for (size_t i = 0; i < n && p->at + i < 4; i++)
        if (data[i] != (uint8_t) "GGUF"[p->at + i]) {
            p->invalid = true;
            return error_say(-EBADMSG, "%s: the server's file is not a GGUF file%s", url_shown(p->shown, p->origin.url),
                             data[i] == '<' ? "; it looks like a web page" : "");
        }
    return 0;
}

/* Check the beginning of the file early, with a hole for the rest: for a download of 40 GB the user should learn soon
 * that hobd cannot run the model. */
static int check_early(struct pull *p)
{
    _cleanup_(closep) int fd = memfd_create("hob-models", MFD_CLOEXEC);
    struct metadata f;
    char path[48];
    const char *const paths[] = {path};
    off_t from = 0;
    int r = 0;
    p->checked = true;
    if (fd < 0) return 0;
    while ((uint64_t)from < EARLY && sendfile(fd, p->place.fd, &from, EARLY - (size_t)from) > 0) {
    }
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
    if (ftruncate(fd, (off_t)p->origin.total) < 0 || metadata_read(&f, paths, 1) < 0) return interrupted() ? -EINTR : 0;
    /* An unreadable beginning may be incomplete; an unsupported model stays unsupported. */
    if (!f.error && !f.supported && !f.incomplete) {
        p->invalid = true;
        r = error_say(-EOPNOTSUPP, "%s: hobd cannot run it: %s", p->place.name, f.why ? f.why : "unknown reason");
    }
    metadata_fini(&f);
    return r;
}

static int on_data(void *ctx, const void *data, size_t n)
{
    struct pull *p = ctx;
    const uint8_t *from = data;
    int r = check_magic(p, data, n);
    if (r == 0 && p->origin.total >= 0 && n > (uint64_t)p->origin.total - p->at) {
        p->invalid = true;
        r = error_say(-EBADMSG, "%s: the server sent more bytes than it announced", url_shown(p->shown, p->origin.url));
    }
    while (r == 0 && n > 0) {
        ssize_t done = pwrite(p->place.fd, from, n, (off_t)p->at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0)
            return error_say(done ? -errno : -EIO, "%s/%s: %s", p->place.folder, p->place.part, strerror(errno));
        if (p->summed == p->at && *p->origin.sha256) {
            SHA256Update(&p->sum, from, (size_t)done);
            p->summed += (uint64_t)done;
        }
        from += done;
        n -= (size_t)done;
        p->at += (uint64_t)done;
        if (p->at > p->most) p->most = p->at;
    }
    if (r == 0 && !p->checked && p->at >= EARLY && p->origin.total > (int64_t)EARLY) r = check_early(p);
    return r;
}

static int on_tick(void *ctx)
{
    struct pull *p = ctx;
    if (interrupted()) return -EINTR;
    bar_show(&p->bar, p->at, p->origin.total > 0 ? (uint64_t)p->origin.total : 0, interrupt_now());
    return 0;
}

/* --- the complete file --- */

/* Hash the bytes that are not hashed yet, such as those of an earlier pull. */
static int sum_rest(struct pull *p)
{
    _cleanup_(freep) uint8_t *piece = malloc(1 << 20);
    if (!piece) return error_say(-ENOMEM, "no memory to check the file");
    while (p->summed < p->at) {
        ssize_t n = pread(p->place.fd, piece, 1 << 20, (off_t)p->summed);
        if (interrupted()) return -EINTR;
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return error_say(n ? -errno : -ESTALE, "%s/%s: cannot be read back", p->place.folder, p->place.part);
        SHA256Update(&p->sum, piece, (size_t)n);
        p->summed += (uint64_t)n;
    }
    return 0;
}

static int check_sum(struct pull *p)
{
    char is[SHA256_DIGEST_STRING_LENGTH];
    if (!*p->origin.sha256) return 0;
    int r = sum_rest(p);
    if (r < 0) return r;
    SHA256End(&p->sum, is);
    if (strcmp(is, p->origin.sha256) == 0) return 0;
    p->invalid = true;
    return error_say(-EBADMSG, "%s: the file has the SHA-256 %s, expected %s", url_shown(p->shown, p->origin.url), is,
                     p->origin.sha256);
}

static int pull_finish(struct pull *p)
{
    _cleanup_(freep) char *path = place_path(&p->place, p->place.part);
    struct metadata f;
    int r = path ? 0 : error_say(-ENOMEM, "no memory for a path");
    if (r == 0) {
        r = metadata_check(&f, path, p->place.name);
        p->invalid = r == -EINVAL; /* another version of hobd may run a model that this one cannot */
        if (r < 0) return pull_said(p, r);
    }
    if (r < 0) return r;
    if (p->parts > 1) r = pull_parts_commit(p);
    if (r == 0) r = place_commit(&p->place, p->o->force);
    if (r == 0) parts_remove(&p->place, p->parts);
    if (r == 0) metadata_log(&f, "pulled", p->place.name, p->o->system);
    metadata_fini(&f);
    return r;
}

/* --- attempts --- */

/* Wait before the next attempt, which requests the missing bytes: not at all after progress, else one second, two, … */
static int pull_wait(const char *why, unsigned tries)
{
    log_info("%s; retrying", why);
    return tries > 1 ? interrupt_sleep(250 << tries) : interrupted() ? -EINTR : 0;
}

/* To resume, either a tag must prove that the rest belongs to the same file, or a SHA-256 must be known. */
static bool pull_can_resume(const struct origin *o)
{
    return o->tag || *o->sha256;
}

static const char *pull_token(const struct pull *p)
{
    const char *token = p->origin.hub ? getenv("HF_TOKEN") : NULL;
    return token && *token ? token : NULL;
}

/* One attempt. Returns like fetch. */
static int pull_once(struct pull *p)
{
    struct fetch f = {.url = p->origin.url,
                      .insecure_http = p->o->insecure_http,
                      .linked = p->origin.hub,
                      .token = pull_token(p),
                      .user = p->origin.user,
                      .password = p->origin.password,
                      .begin = on_begin,
                      .data = on_data,
                      .tick = on_tick,
                      .ctx = p};
    int r = p->at > 0 && !pull_can_resume(&p->origin) ? pull_restart(p) : 0;
    if (r < 0) return r;
    f.from = p->at;
    f.if_same = p->origin.tag;
    p->restart = false;
    r = fetch(&f);
    bar_clear(&p->bar);
    if (r != FETCH_RANGE && !p->restart) return r;
    if (f.from == 0)
        return error_say(-EIO, "%s: the server refused the first byte of its own file",
                         url_shown(p->shown, p->origin.url));
    /* The .part belongs to another file. */
    error_say(-EIO, "%s: the file has changed; starting from the beginning", p->place.name);
    free(steal(p->origin.tag));
    p->origin.total = -1;
    r = pull_restart(p);
    return r < 0 ? r : FETCH_AGAIN;
}

static int pull_all(struct pull *p)
{
    const uint64_t began = p->at;
    unsigned tries = 0;
    p->most = p->at;
    for (;;) {
        uint64_t had = p->most;
        if (p->origin.total > 0 && p->at == (uint64_t)p->origin.total) return 0;
        int r = pull_once(p);
        if (r <= 0) return r;
        if (r == FETCH_UNREACHED && p->most == began) return -EIO;
        tries = p->most > had ? 0 : tries + 1;
        if (tries == TRIES) return -EIO;
        r = pull_wait(error_text(-EIO), tries);
        if (r < 0) return r;
    }
}

/* Keep the .part of another file unless --force is given. */
static int pull_other(struct pull *p, const struct origin *had)
{
    closep(&p->place.fd);
    return error_say(
        -EEXIST,
        "an incomplete pull of the model '%s' from %s exists: delete it with hob models rm '%s', or use --force",
        p->place.name, url_shown(p->shown, had->url), p->place.name);
}

/* Continue the .part of an earlier pull if it belongs to the same file. */
static int pull_resume(struct pull *p)
{
    struct origin had;
    struct stat st;
    char size[16];
    bool known = origin_read(&had, &p->place) == 0, same = known && strcmp(had.url, p->origin.url) == 0;
    int r = fstat(p->place.fd, &st) < 0 ? error_origin(-errno) : 0;
    if (r == 0 && known && !same && st.st_size > 0 && !p->o->force) r = pull_other(p, &had);
    if (p->o->sha256) {
        for (int i = 0; i < 64; i++)
            p->origin.sha256[i] = (char)(p->o->sha256[i] | (p->o->sha256[i] >= 'A' ? 0x20 : 0));
        same = same && (!*had.sha256 || strcmp(had.sha256, p->origin.sha256) == 0);
    }
    same = same && (pull_can_resume(&had) || *p->origin.sha256);
    if (r == 0 && same && (had.total < 0 || st.st_size <= had.total)) {
        p->at = (uint64_t)st.st_size;
        p->origin.tag = steal(had.tag);
        p->origin.total = had.total;
        if (*had.sha256) memcpy(p->origin.sha256, had.sha256, sizeof(had.sha256));
        if (p->at) log_info("%s: resuming after %s", p->place.name, format_size(size, p->at));
    } else if (r == 0) {
        r = pull_restart(p);
    }
    origin_fini(&had);
    return r;
}

int pull_download(struct pull *p)
{
    int r = place_begin(&p->place);
    if (r == 0) r = pull_resume(p);
    if (r == 0) r = pull_all(p);
    return r == 0 ? check_sum(p) : r;
}

void pull_keep(struct pull *p)
{
    struct stat st;
    char size[16];
    if (p->place.fd < 0) return;
    if (p->invalid || p->at == 0) {
        place_discard(&p->place);
    } else if (fstat(p->place.fd, &st) == 0) {
        bar_clear(&p->bar);
        log_info("%s of %s downloaded; run the same command to resume", format_size(size, (uint64_t)st.st_size),
                 p->place.name);
    }
}

static int pull_into(struct pull *p)
{
    int r = place_vacant(&p->place, p->o->force);
    if (r == 0) r = pull_download(p);
    if (r == 0 && p->parts > 1) r = pull_parts(p);
    if (r == 0) r = pull_finish(p);
    if (r < 0) pull_keep(p);
    return r;
}

static int pull_name(const struct models_options *o, const struct origin *from, char **out)
{
    _cleanup_(freep) char *file = o->n_words > 1 ? NULL : origin_file(from);
    if (o->n_words > 1) return place_name(o->words[1], NULL, out);
    return file ? place_name(NULL, file, out) : error_say(-EINVAL, "the URL has no file name: give a NAME");
}

int models_pull(const struct models_options *o)
{
    struct pull p = {.o = o, .place = PLACE_INIT, .parts = 1};
    char *name = NULL;
    int r = origin_parse(&p.origin, o->words[0]);
    SHA256Init(&p.sum);
    if (r == 0) r = fetch_allowed(p.origin.url, o->insecure_http);
    if (r == 0) r = pull_parts_count(&p.origin, &p.parts);
    if (r == 0 && p.parts > 1 && o->sha256)
        r = error_say(-EINVAL, "--sha256 is for one file, but this model has %u", p.parts);
    if (r == 0) r = pull_name(o, &p.origin, &name);
    if (r < 0) {
        log_error("%s", error_text(r));
        origin_fini(&p.origin);
        return r == -ENOMEM ? EXIT_FAILED : EXIT_USAGE;
    }
    r = place_open(&p.place, name, o->system, true);
    p.bar = (struct bar){.name = name, .on = !o->quiet && isatty(STDERR_FILENO)};
    if (r == 0) r = pull_into(&p);
    if (r == -EBUSY) log_error("%s", error_text(r));
    int status = r == -EBUSY ? EXIT_BUSY : r < 0 ? exit_status_report(r) : EXIT_ANSWERED;
    place_close(&p.place);
    origin_fini(&p.origin);
    return status;
}
