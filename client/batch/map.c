/* SPDX-License-Identifier: MIT */
#include "client/batch/map.h"
#include "client/batch/batch-lines.h"
#include "client/batch/batch-result.h"
#include "client/batch/batch-run.h"
#include "client/batch/map-file.h"
#include "client/columns.h"
#include "client/exit-status.h"
#include "client/generate.h"
#include "client/input.h"
#include "client/output.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/plain.h"
#include <string.h>
#include <unistd.h>

struct map {
    const struct options *options;
    size_t next;           /* of the words: 0 is the prompt */
    struct batch_lines in; /* names, if there are none among the words */
    uint64_t n;            /* files so far */
    bool printed;          /* an answer was */
    struct output out;
    struct buf line; /* scratch */
};

/* --- names --- */

/* The next name. 0; 1: no more; 2: not yet; else as batch_lines_next. */
static int next_name(struct map *m, const char **name)
{
    const struct options *o = m->options;
    if (o->n_words > 1) {
        if (m->next == o->n_words) return 1;
        *name = o->words[m->next++];
        return 0;
    }
    for (;;) {
        int r = batch_lines_next(&m->in);
        if (r != BATCH_LINE_WHOLE) return r < 0 ? r : r == BATCH_LINE_END ? 1 : 2;
        *name = m->in.line.data;
        if (m->in.line.len && strlen(*name) == m->in.line.len) return 0;
        if (m->in.line.len)
            return error_say(-EINVAL, "the name on line %llu has a NUL character: see --null",
                             (unsigned long long)m->in.number);
    }
}

/* --- prompts --- */

/* Put the text of the file into the prompt in place of each {}, or before it. */
static int fill(struct buf *out, const char *prompt, const struct buf *text)
{
    const char *at = strstr(prompt, "{}");
    int r = 0;
    if (!at) {
        r = buf_append(out, text->data, text->len);
        if (r == 0) r = buf_puts(out, "\n\n");
    }
    for (; r == 0 && at; at = strstr(prompt, "{}")) {
        r = buf_append(out, prompt, (size_t)(at - prompt));
        if (r == 0) r = buf_append(out, text->data, text->len);
        prompt = at + 2;
    }
    return r == 0 ? buf_puts(out, prompt) : r;
}

/* Make the request of the file @j->name. */
static int make(struct map *m, struct batch_job *j)
{
    const struct options *o = m->options;
    struct buf text = BUF_INIT;
    struct input input = {0};
    int r = input_whole(&text, j->name, -1);
    if (r == 0) r = input_finish(o, &text, 0, j->name);
    if (r > 0) r = error_say(-EINVAL, "%s is empty", j->name);
    if (r == 0) r = fill(&input.text, o->words[0], &text);
    if (r == 0 && input.text.len > INPUT_MAX)
        r = error_say(-EMSGSIZE, "%s: larger than %u MiB, the limit of a request", j->name, INPUT_MAX >> 20);
    if (r == 0) r = generate_request(&j->line.request, o, &input);
    buf_fini(&text);
    input_fini(&input);
    return r;
}

static int take(void *ctx, struct batch_run *run, struct batch_job **out)
{
    struct map *m = ctx;
    const struct options *o = m->options;
    const char *name;
    for (;;) {
        int r = next_name(m, &name);
        if (r != 0) return r;
        struct batch_job *j = batch_job_new(++m->n);
        if (j) j->name = strdup(name);
        if (!j || !j->name) {
            batch_job_free(j);
            return error_say(-ENOMEM, "no memory for a file");
        }
        j->bytes = 1;
        j->line.extract = o->extract;
        r = o->batch.write ? map_file_check(j->name, o->batch.resume) : 0;
        if (r == 0) r = make(m, j);
        if (r < 0 && r != -EINTR && r != -ENOMEM) batch_job_fail(j, r);
        if (r == 0 || j->state == BATCH_FAILED) {
            *out = j;
            return 0;
        }
        batch_job_free(j);
        if (r < 0) return r;
        run->meter.skipped++;
        run->meter.skipped_bytes++;
    }
}

/* --- answers --- */

/* Print the answer under a heading, as head(1) does. */
static int print(struct map *m, const struct batch_job *j, const struct buf *text)
{
    struct buf *line = &m->line;
    buf_clear(line);
    int r = buf_puts(line, m->printed ? "\n==> " : "==> ");
    if (r == 0) r = table_plain(line, j->name);
    if (r == 0) r = buf_puts(line, " <==\n");
    if (r == 0 && text->len)
        r = m->out.tty ? plain_text(line, text->data, text->len) : buf_append(line, text->data, text->len);
    if (r == 0 && line->data[line->len - 1] != '\n') r = buf_puts(line, "\n");
    m->printed = true;
    return r < 0 ? error_say(r, "no memory for an answer") : output_write(&m->out, line->data, line->len);
}

static int put(void *ctx, struct batch_run *run, struct batch_job *j)
{
    struct map *m = ctx;
    struct buf text = BUF_INIT;
    if (j->state == BATCH_FAILED) {
        const char *why = j->message.len ? j->message.data : strerror(j->code);
        batch_meter_clear(&run->meter);
        if (strncmp(why, j->name, strlen(j->name)) == 0)
            log_error("%s", why);
        else
            log_error("%s: %s", j->name, why);
        return 0;
    }
    int r = batch_result_text(&text, j);
    if (r == 0 && m->options->batch.write && text.len && text.data[text.len - 1] != '\n') r = buf_puts(&text, "\n");
    if (r < 0)
        error_say(r, "no memory for an answer");
    else
        r = m->options->batch.write ? map_file_write(j->name, &text) : print(m, j, &text);
    buf_fini(&text);
    return r;
}

int map_command(const struct options *o)
{
    struct map m = {.options = o, .next = 1};
    struct batch_run run = {.options = o};
    struct batch_ends ends = {.ctx = &m, .take = take, .put = put, .wait_fd = STDIN_FILENO, .ordered = !o->batch.write};
    m.in.fd = STDIN_FILENO;
    m.in.name = "standard input";
    m.in.null = o->batch.null;
    if (o->n_words == 1 && isatty(STDIN_FILENO)) {
        log_error("map needs files, or their names on standard input");
        return EXIT_USAGE;
    }
    if (o->n_words > 1) run.meter.all_bytes = o->n_words - 1;
    output_init(&m.out, STDOUT_FILENO, false);
    int status = batch_run(&run, &ends, o->batch.write ? "what is written is kept: run it again with --resume" : NULL);
    batch_lines_fini(&m.in);
    buf_fini(&m.line);
    return status;
}
