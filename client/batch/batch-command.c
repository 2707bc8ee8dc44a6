/* SPDX-License-Identifier: MIT */
#include "client/batch/batch-command.h"
#include "client/batch/batch-file.h"
#include "client/batch/batch-line.h"
#include "client/batch/batch-lines.h"
#include "client/batch/batch-result.h"
#include "client/batch/batch-run.h"
#include "client/exit-status.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/utf8.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct batch {
    const struct options *options;
    struct batch_lines in;
    struct batch_done done;
    struct batch_file out;
    struct buf line; /* of output */
};

/* A line of white space only is no prompt. */
static bool is_blank(const struct buf *line)
{
    return !line->data || line->data[strspn(line->data, " \t\r")] == 0;
}

/* Fill @j from the line that was read. 0: it is a job; 1: the output has it; else -errno. A broken line fails the job.
 */
static int read_line(struct batch *b, struct batch_run *run, struct batch_job *j)
{
    const struct buf *s = &b->in.line;
    size_t bad = s->len ? utf8_check(s->data, s->len) : 0;
    int r = batch_line_begin(&j->line, j->number, s->data, b->in.too_long ? 0 : s->len);
    if (r == -ENOMEM) return r;
    if (b->in.too_long) r = error_say(-EMSGSIZE, "the line is longer than %u MiB", BATCH_LINE_MAX >> 20);
    if (!b->in.too_long && bad < s->len) r = error_say(-EILSEQ, "invalid UTF-8 at byte %zu", bad);
    if (r < 0) batch_job_fail(j, r);
    int has = batch_done_has(&b->done, j->number, j->line.id.data, j->line.id.len);
    if (has != 0) return has;
    if (r == 0) r = batch_line_request(&j->line, b->options, s->data, s->len);
    if (r == -ENOMEM) return r;
    if (r < 0) batch_job_fail(j, r);
    return 0;
}

static int take(void *ctx, struct batch_run *run, struct batch_job **out)
{
    struct batch *b = ctx;
    for (;;) {
        int r = batch_lines_next(&b->in);
        if (r < 0) return r;
        if (r != BATCH_LINE_WHOLE) return r == BATCH_LINE_END ? 1 : 2;
        struct batch_job *j = NULL;
        r = 1;
        if (b->in.too_long || !is_blank(&b->in.line)) {
            j = batch_job_new(b->in.number);
            if (!j) return error_say(-ENOMEM, "no memory for a line");
            j->bytes = b->in.bytes;
            r = read_line(b, run, j);
            if (r == 1) run->meter.skipped++;
        }
        if (r == 0) {
            *out = j;
            return 0;
        }
        run->meter.skipped_bytes += b->in.bytes;
        batch_job_free(j);
        if (r < 0) return r == -ENOMEM ? error_say(r, "no memory for a line") : r;
    }
}

static int put(void *ctx, struct batch_run *run, struct batch_job *j)
{
    struct batch *b = ctx;
    buf_clear(&b->line);
    int r = batch_result_line(&b->line, j, run->options->model ? run->options->model : "default", (int64_t)time(NULL));
    return r < 0 ? error_say(r, "no memory for a result") : batch_file_write(&b->out, &b->line);
}

static int open_input(struct batch *b)
{
    const struct options *o = b->options;
    const char *path = o->n_words && strcmp(o->words[0], "-") != 0 ? o->words[0] : NULL;
    b->in.name = path ? path : "standard input";
    b->in.fd = STDIN_FILENO;
    if (!path && !o->n_words && isatty(STDIN_FILENO))
        return error_say(-EINVAL, "batch needs a file of JSON lines, or them on standard input");
    if (!path) return 0;
    b->in.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (b->in.fd >= 0) return 0;
    int r = error_origin(-errno);
    return error_in(r, "%s", path);
}

static uint64_t size_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

int batch_command(const struct options *o)
{
    struct batch b = {.options = o, .in.fd = -1, .out.fd = -1};
    struct batch_run run = {.options = o};
    struct batch_ends ends = {.ctx = &b, .take = take, .put = put, .ordered = o->batch.ordered};
    int status, r = open_input(&b);
    if (r == 0) r = batch_file_open(&b.out, o->batch.out, b.in.fd, o->batch.resume, &b.done);
    if (r == 0) {
        ends.wait_fd = b.in.fd;
        run.meter.all_bytes = size_of(b.in.fd);
        status =
            batch_run(&run, &ends, o->batch.out ? "the complete lines are kept: run it again with --resume" : NULL);
        r = batch_file_close(&b.out);
        if (r < 0) status = exit_status_report(r);
    } else {
        status = exit_status_before(r);
    }
    if (b.in.fd > STDIN_FILENO) close(b.in.fd);
    if (b.out.fd > STDOUT_FILENO) close(b.out.fd);
    batch_lines_fini(&b.in);
    batch_done_fini(&b.done);
    buf_fini(&b.line);
    return status;
}
