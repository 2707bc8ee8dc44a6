/* SPDX-License-Identifier: MIT */
/* hob find: the chunks of an index that are nearest to some words. */
#include "client/exit-status.h"
#include "client/find/answer.h"
#include "client/find/chunk.h"
#include "client/find/commands.h"
#include "client/find/daemon-embedder.h"
#include "client/find/show.h"
#include "client/output.h"
#include "libcommon/cleanup.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct finding {
    const struct find_options *f;
    struct index index;
    char *question; /* owned */
    char *model;    /* of the index; owned */
    struct words words;
    float *vectors; /* [2][dim] of the question and the probe; owned */
    size_t n;       /* of them that came */
    uint32_t dim;
    uint64_t embed_usec;
    struct results found;
    char **paths; /* [found.n] as seen from the working directory; owned, and each */
};

static int no_memory(void)
{
    return error_say(-ENOMEM, "no memory for the search");
}

static int join_words(struct finding *s)
{
    struct buf all = BUF_INIT, text = BUF_INIT;
    int r = 0;
    for (size_t i = 0; r == 0 && i < s->f->n_words; i++) r = buf_printf(&all, "%s%s", i ? " " : "", s->f->words[i]);
    if (r == 0) r = chunk_put_utf8(&text, all.data, all.len);
    buf_fini(&all);
    s->question = buf_steal(&text, NULL);
    if (r < 0 || !s->question) return no_memory();
    words_of(&s->words, s->question);
    return 0;
}

static int receive(void *ctx, const float *vectors, size_t n, uint32_t dim)
{
    struct finding *s = ctx;
    if (!s->vectors) {
        s->dim = dim;
        s->vectors = calloc(2 * (size_t)dim, sizeof(*s->vectors));
        if (!s->vectors) return no_memory();
    }
    if (dim != s->dim || n > 2 - s->n) return error_say(-EPROTO, "the daemon sent other vectors than expected");
    memcpy(s->vectors + s->n * dim, vectors, n * dim * sizeof(*vectors));
    s->n += n;
    return 0;
}

/* Get the vectors of the question and of the probe. @status: see command_status. */
static int embed(struct finding *s, int *status)
{
    const struct store_meta *m = &s->index.meta;
    struct daemon_embedder d;
    struct buf text = BUF_INIT;
    uint32_t dims = m->dims;
    int r = buf_printf(&text, "%s%s", m->question_prefix, s->question);
    s->model = strdup(m->model);
    index_pause(&s->index);
    if (r < 0 || !s->model) {
        buf_fini(&text);
        return no_memory();
    }
    struct proto_text texts[2] = {{text.data, text.len}, {(char *)INDEX_PROBE, strlen(INDEX_PROBE)}};
    uint64_t from = clock_now_usec();
    daemon_embedder_init(&d, s->model, dims, true);
    r = d.e.run(&d.e, texts, 2, receive, s);
    *status = d.e.status;
    daemon_embedder_fini(&d);
    s->embed_usec = clock_now_usec() - from;
    buf_fini(&text);
    return r == 0 && s->n != 2 ? error_say(-EPROTO, "the daemon sent too few vectors") : r;
}

static int open_index(struct finding *s)
{
    int r = place_nearest(&s->index.place);
    if (r == 0) r = index_read(&s->index);
    if (r > 0)
        return error_say(-ENOENT,
                         "no index of this folder or one above it: make one with 'hob index -m MODEL' here, or "
                         "'hob index -m MODEL DIR'");
    if (r == 0 && s->index.meta.rows == 0)
        return error_say(-ENODATA, "the index of %s is empty: add to it with 'hob index %s'", s->index.place.root,
                         s->index.place.root);
    return r;
}

static int name_paths(struct finding *s)
{
    _cleanup_(freep) char *here = realpath(".", NULL);
    s->paths = calloc(s->found.n + 1, sizeof(*s->paths));
    if (!s->paths) return no_memory();
    for (size_t i = 0; i < s->found.n; i++) {
        s->paths[i] = show_path(s->index.place.root, s->found.all[i].path, here ? here : "/");
        if (!s->paths[i]) return no_memory();
    }
    return 0;
}

static int print(const struct finding *s)
{
    const char *no_color = getenv("NO_COLOR");
    struct show_style style = {.escape = isatty(STDOUT_FILENO)};
    struct buf out = BUF_INIT;
    int r = 0;
    style.color = output_draws(STDOUT_FILENO) && !(no_color && *no_color);
    for (size_t i = 0; r == 0 && i < s->found.n; i++)
        r = s->f->jsonl ? show_json(&out, s->paths[i], &s->found.all[i])
                        : show_line(&out, s->paths[i], &s->found.all[i], &s->words, style);
    if (r == 0) r = output_print(out.data ? out.data : "", out.len);
    buf_fini(&out);
    return r;
}

static void remark(const struct finding *s)
{
    const struct results *r = &s->found;
    if (r->changed + r->gone)
        log_warning("%" PRIu64 " of the files found changed and %" PRIu64
                    " are gone since they were indexed: run hob index",
                    r->changed, r->gone);
    if (s->f->verbose)
        log_info("question embedded in %.1f ms, %" PRIu64 " rows compared in %.1f ms", (double)s->embed_usec / 1000,
                 r->rows, (double)r->search_usec / 1000);
}

static int find(struct finding *s, int *status)
{
    int r = join_words(s);
    if (r == 0) r = open_index(s);
    if (r == 0) r = embed(s, status);
    if (r == 0) r = index_read_again(&s->index);
    if (r == 0) r = index_check_model(&s->index, s->vectors + s->dim, s->dim);
    if (r == 0) r = results_find(&s->found, &s->index, s->vectors, &s->words, s->f->most);
    if (r == 0) r = name_paths(s);
    if (r < 0) return r;
    index_pause(&s->index);
    if (!s->f->quiet) remark(s);
    if (s->found.n == 0) return error_say(-ENODATA, "nothing was found");
    return 0;
}

int find_command(const struct find_options *f, struct options *o)
{
    struct finding s = {.f = f, .index = INDEX_INIT};
    int status = EXIT_FAILED, r = find(&s, &status);
    if (r < 0)
        status = command_status(r, status);
    else if (f->answer)
        status = answer_run(o, &s.found, s.paths, s.question);
    else
        status = (r = print(&s)) < 0 ? command_status(r, status) : EXIT_ANSWERED;
    for (size_t i = 0; s.paths && i < s.found.n; i++) free(s.paths[i]);
    free(s.paths);
    results_fini(&s.found);
    index_close(&s.index);
    free(s.vectors);
    free(s.question);
    free(s.model);
    return status;
}
