/* SPDX-License-Identifier: MIT */
#include "client/find/index-batch.h"
#include "client/find/chunk.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static void empty(struct batch *b)
{
    for (size_t i = 0; i < b->n_files; i++) free(b->files[i].path);
    for (size_t i = 0; i < b->n_chunks; i++) free(b->texts[i].data);
    free(b->files);
    free(b->chunks);
    free(b->texts);
    free(b->codes);
    free(b->scales);
    *b = (struct batch){.embedded = b->embedded};
}

void batch_fini(struct batch *b)
{
    empty(b);
}

bool batch_is_full(const struct batch *b)
{
    return b->n_chunks >= BATCH_CHUNKS || b->n_files >= BATCH_FILES;
}

static int no_memory(void)
{
    return error_say(-ENOMEM, "no memory for the texts of the index");
}

/* The id of the content of @digest: 0: none. */
static int find_content(struct index *x, const uint8_t digest[16], int64_t *id)
{
    _cleanup_(store_statement_fini) sqlite3_stmt *q = NULL;
    int r = store_prepare(&x->store, &q, "SELECT id FROM content WHERE digest = ?");
    if (r == 0 && sqlite3_bind_blob(q, 1, digest, 16, SQLITE_STATIC) != SQLITE_OK) r = store_error(&x->store);
    if (r == 0) r = store_step(&x->store, q);
    *id = r > 0 ? sqlite3_column_int64(q, 0) : 0;
    return r < 0 ? r : 0;
}

static int add_chunk(struct batch *b, const struct index *x, const struct chunk *k)
{
    size_t room = b->n_chunks;
    if ((room & (room - 1)) == 0) {
        room = room ? 2 * room : 1;
        struct batch_chunk *chunks = reallocarray(b->chunks, room, sizeof(*chunks));
        if (chunks) b->chunks = chunks;
        struct proto_text *texts = reallocarray(b->texts, room, sizeof(*texts));
        if (texts) b->texts = texts;
        if (!chunks || !texts) return no_memory();
    }
    struct buf text = BUF_INIT;
    int r = buf_puts(&text, x->meta.prefix);
    if (r == 0) r = chunk_put_utf8(&text, k->text, k->len);
    if (r < 0) {
        buf_fini(&text);
        return no_memory();
    }
    struct proto_text *t = &b->texts[b->n_chunks];
    *t = (struct proto_text){0};
    t->data = buf_steal(&text, &t->len);
    b->chunks[b->n_chunks++] = (struct batch_chunk){k->first, k->last};
    return 0;
}

int batch_add(struct batch *b, struct index *x, const char *path, int64_t size, int64_t mtime, const char *text,
              size_t len)
{
    struct chunker c;
    struct chunk k;
    struct batch_file f = {.size = size, .mtime = mtime, .first = b->n_chunks};
    XXH128_canonicalFromHash((XXH128_canonical_t *)f.digest, XXH3_128bits(text, len));
    int64_t known;
    int r = find_content(x, f.digest, &known);
    for (size_t i = 0; i < b->n_files; i++) known |= memcmp(b->files[i].digest, f.digest, sizeof(f.digest)) == 0;
    chunker_init(&c, text, known || !chunk_is_text(text, len) ? 0 : len);
    while (r == 0 && chunk_next(&c, &k)) r = add_chunk(b, x, &k);
    if (r < 0) return r;
    f.n = b->n_chunks - f.first;
    f.path = strdup(path);
    struct batch_file *files = f.path ? reallocarray(b->files, b->n_files + 1, sizeof(*files)) : NULL;
    if (!files) {
        free(f.path);
        return no_memory();
    }
    b->files = files;
    b->files[b->n_files++] = f;
    return 0;
}

struct receiving {
    struct batch *b;
    struct index *x;
};

/* The vectors of the chunks that follow. */
static int receive(void *ctx, const float *vectors, size_t n, uint32_t dim)
{
    struct receiving *s = ctx;
    struct batch *b = s->b;
    const size_t stride = vector_stride(dim);
    if (dim != s->x->meta.dim || n > b->n_chunks - b->done)
        return error_say(-EMEDIUMTYPE, "the daemon sent vectors of %u dims, not %u", dim, s->x->meta.dim);
    for (size_t i = 0; i < n; i++, b->done++)
        if (!vector_quantize(b->codes + b->done * stride, &b->scales[b->done], vectors + i * dim, dim))
            return error_say(-EDOM, "the model '%s' gives a vector that is not finite", s->x->meta.model);
    return 0;
}

/* The vector of the probe: the first one tells the dims of a new index. */
static int receive_probe(void *ctx, const float *vectors, size_t n, uint32_t dim)
{
    struct index *x = ctx;
    if (n != 1 || dim == 0 || dim > VECTOR_DIM_MAX)
        return error_say(-EPROTO, "the daemon sent %zu vectors, not one", n);
    if (x->meta.probe) return index_check_model(x, vectors, dim);
    x->meta.probe = malloc(dim * sizeof(*vectors));
    if (!x->meta.probe) return no_memory();
    memcpy(x->meta.probe, vectors, dim * sizeof(*vectors));
    x->meta.dim = dim;
    return 0;
}

static int embed(struct batch *b, struct index *x, struct embedder *e)
{
    const struct proto_text probe = {.data = (char *)INDEX_PROBE, .len = strlen(INDEX_PROBE)};
    const bool new = !x->meta.probe;
    char name[PLACE_NAME];
    int r = e->run(e, &probe, 1, receive_probe, x);
    if (r == 0 && new) {
        x->meta.generation = 1;
        r = vector_file_make(&x->vectors, x->place.fd, place_vectors(name, 1), x->meta.dim, 1);
    }
    if (r < 0) return r;
    b->codes = reallocarray(NULL, b->n_chunks, vector_stride(x->meta.dim));
    b->scales = reallocarray(NULL, b->n_chunks, sizeof(*b->scales));
    if (!b->codes || !b->scales) return no_memory();
    struct receiving s = {b, x};
    r = e->run(e, b->texts, b->n_chunks, receive, &s);
    if (r == 0 && b->done != b->n_chunks) r = error_say(-EPROTO, "the daemon sent too few vectors");
    return r;
}

static int step_once(struct store *s, sqlite3_stmt *q)
{
    int r = store_step(s, q);
    sqlite3_reset(q);
    return r < 0 ? r : 0;
}

/* Store the content of @f and its chunks, from row @row on. */
static int put_content(struct index *x, const struct batch *b, const struct batch_file *f, uint64_t row, int64_t *id)
{
    _cleanup_(store_statement_fini) sqlite3_stmt *content = NULL, *chunk = NULL;
    int r = store_prepare(&x->store, &content, "INSERT INTO content(digest, row, n) VALUES(?, ?, ?)");
    if (r == 0) r = store_prepare(&x->store, &chunk, "INSERT OR REPLACE INTO chunk VALUES(?, ?, ?)");
    if (r < 0) return r;
    sqlite3_bind_blob(content, 1, f->digest, 16, SQLITE_STATIC);
    sqlite3_bind_int64(content, 2, f->n ? (sqlite3_int64)row : -1);
    sqlite3_bind_int64(content, 3, (sqlite3_int64)f->n);
    r = step_once(&x->store, content);
    *id = sqlite3_last_insert_rowid(x->store.db);
    for (size_t i = 0; r == 0 && i < f->n; i++) {
        sqlite3_bind_int64(chunk, 1, (sqlite3_int64)row + (sqlite3_int64)i);
        sqlite3_bind_int64(chunk, 2, b->chunks[f->first + i].first);
        sqlite3_bind_int64(chunk, 3, b->chunks[f->first + i].last);
        r = step_once(&x->store, chunk);
    }
    return r;
}

static int put_file(struct index *x, const struct batch_file *f, int64_t content)
{
    _cleanup_(store_statement_fini) sqlite3_stmt *q = NULL;
    int r = store_prepare(&x->store, &q, "INSERT OR REPLACE INTO file VALUES(?, ?, ?, ?)");
    if (r < 0) return r;
    sqlite3_bind_blob(q, 1, f->path, (int)strlen(f->path), SQLITE_STATIC);
    sqlite3_bind_int64(q, 2, f->size);
    sqlite3_bind_int64(q, 3, f->mtime);
    sqlite3_bind_int64(q, 4, content);
    return step_once(&x->store, q);
}

static int put_all(struct batch *b, struct index *x)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < b->n_files; i++) {
        const struct batch_file *f = &b->files[i];
        int64_t id;
        r = find_content(x, f->digest, &id);
        if (r == 0 && id == 0) r = put_content(x, b, f, x->meta.rows + f->first, &id);
        if (r == 0) r = put_file(x, f, id);
    }
    return r;
}

int batch_flush(struct batch *b, struct index *x, struct embedder *e)
{
    int r = b->n_chunks ? embed(b, x, e) : 0;
    if (r == 0 && b->n_chunks) r = vector_file_write(&x->vectors, x->meta.rows, b->codes, b->scales, b->n_chunks);
    if (r == 0 && b->n_chunks) r = vector_file_sync(&x->vectors);
    if (r == 0) r = store_begin(&x->store, true);
    if (r == 0) r = put_all(b, x);
    if (r == 0) {
        x->meta.rows += b->n_chunks;
        r = store_meta_write(&x->store, &x->meta);
    }
    if (r == 0) r = store_commit(&x->store);
    if (r == 0) b->embedded += b->n_chunks;
    empty(b);
    return r;
}
