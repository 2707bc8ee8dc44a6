/* SPDX-License-Identifier: MIT */
/* The facts about a GGUF file that programs need. hob models runs this, because hob itself reads no models. */
#include "daemon/command/inspect.h"
#include "daemon/encoder/encoder.h"
#include "daemon/model/adapter.h"
#include "daemon/model/backend.h"
#include "daemon/text/template/template.h"
#include "daemon/text/tokenizer/tokenizer.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/json-whole.h"
#include "libcommon/paths.h"
#include <jansson.h>
#include <string.h>

DEFINE_CLEANUP(struct adapter *, adapter_close)
DEFINE_CLEANUP(struct gguf *, gguf_close)
DEFINE_CLEANUP(struct tokenizer *, tokenizer_free)
DEFINE_CLEANUP(struct template *, template_free)

static void set_gguf(json_t *o, const char *key, const struct gguf *g, const char *from)
{
    struct gguf_str s = {NULL, 0};
    if (gguf_get_str(g, from, &s)) s.data = NULL;
    json_whole_set_str(o, key, s.data, s.len);
}

/* The bytes of each tensor type, and the type with the most bytes. */
static void set_types(json_t *o, const struct gguf *g)
{
    json_t *types = json_object();
    const char *most = NULL, *key;
    json_int_t bytes = 0;
    json_t *v;
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        uint32_t block, size;
        const char *name = gguf_tensor_type_name(t->type, &block, &size);
        if (!name) name = "unknown";
        json_int_t had = json_integer_value(json_object_get(types, name));
        json_whole_set(types, name, json_integer(had + (json_int_t)t->size));
    }
    json_object_foreach(types, key, v)
    {
        if (json_integer_value(v) < bytes) continue;
        bytes = json_integer_value(v);
        most = key;
    }
    json_whole_set_str(o, "type", most, most ? strlen(most) : 0);
    json_whole_set(o, "types", types);
}

/* Checks whether hobd can run the file, with the functions that load it. @context and @memory stay 0 where they are
 * unknown. */
static int check(const struct gguf *g, uint32_t *context, size_t *memory)
{
    _cleanup_(tokenizer_freep) struct tokenizer *t = NULL;
    struct hparams s;
    int r = hparams_read(&s, g);
    if (r) return r;
    *context = s.ctx;
    r = backend_check(NULL, g, &s, memory);
    return r ? r : tokenizer_new(&t, g);
}

static int packed_here(const struct gguf *g)
{
    _cleanup_(freep) char *cache = NULL, *dir = NULL;
    int r = paths_dir(PATHS_CACHE, false, &cache);
    if (r < 0) return r == -ENOENT ? 0 : r; /* without a home directory nothing is stored */
    if (asprintf(&dir, "%s/packed", cache) < 0) return error_say(-ENOMEM, "no memory for a path");
    return backend_is_packed(NULL, g, dir);
}

static void set_error(json_t *o, const char *key, const char *path, int r)
{
    const char *why = error_text(r);
    size_t n = strlen(path);
    if (!strncmp(why, path, n) && why[n] == ':') why += n + 2;
    json_whole_set_str(o, key, why, strlen(why));
    if (json_is_null(json_object_get(o, key))) json_whole_set_str(o, key, "unreadable file", 15);
}

static void set_packed(json_t *o, const struct gguf *g)
{
    int r = packed_here(g);
    json_whole_set(o, "packed", r < 0 ? json_null() : json_boolean(r));
    if (r < 0) set_error(o, "packed_why", gguf_path(g), r);
}

/* Without a usable template a model still runs raw prompts, so the model is not refused. */
static void set_template(json_t *o, const struct gguf *g)
{
    _cleanup_(template_freep) struct template *chat = NULL;
    struct gguf_str src;
    int r = gguf_get_str(g, "tokenizer.chat_template", &src);
    if (!r) r = template_new(&chat, src.data, src.len);
    json_whole_set(o, "template", r == -ENOMEM ? NULL : json_boolean(!r));
    if (r < 0) set_error(o, "template_why", gguf_path(g), r);
}

/* The context length in the file, for any architecture. */
static void set_context(json_t *o, const struct gguf *g, uint32_t context)
{
    struct gguf_str arch;
    char key[96];
    if (!context && !gguf_get_str(g, "general.architecture", &arch) && arch.len < 64) {
        snprintf(key, sizeof(key), "%.*s.context_length", (int)arch.len, arch.data);
        if (gguf_get_u32(g, key, &context)) context = 0;
    }
    json_whole_set(o, "context", context ? json_integer(context) : json_null());
}

/* An mmproj file, which a model can have beside itself. */
static bool is_encoder(const struct gguf *g)
{
    struct gguf_str arch;
    return !gguf_get_str(g, "general.architecture", &arch) && arch.len == 4 && !memcmp(arch.data, "clip", 4);
}

/* 0: *projector is set if it is an encoder. */
static int check_any(const struct gguf *g, uint32_t *context, size_t *memory, const char **projector)
{
    enum media_kind takes;
    return is_encoder(g) ? encoder_inspect(g, &takes, projector) : check(g, context, memory);
}

static void describe(json_t *o, const struct gguf *g)
{
    uint32_t context = 0;
    size_t memory = 0;
    const char *projector = NULL;
    int r = check_any(g, &context, &memory, &projector);
    json_whole_set(o, "supported", json_boolean(!r));
    if (r) set_error(o, "why", gguf_path(g), r);
    json_whole_set(o, "parts", json_integer(gguf_n_parts(g)));
    json_whole_set(o, "complete", json_boolean(r != -ENOENT)); /* a part is missing */
    json_whole_set(o, "bytes", json_integer((json_int_t)gguf_file_size(g)));
    set_gguf(o, "name", g, "general.name");
    set_gguf(o, "architecture", g, "general.architecture");
    set_types(o, g);
    set_context(o, g, context);
    set_template(o, g);
    set_gguf(o, "tokenizer", g, "tokenizer.ggml.model");
    json_whole_set(o, "encoder", projector ? json_string(projector) : json_null());
    json_whole_set(o, "memory_bytes", r || projector ? json_null() : json_integer((json_int_t)memory));
    set_packed(o, g);
}

/* Print @o, which is dropped; @r: what the file's error was. */
static int print_object(json_t *o, int r)
{
    char *text = json_whole_text(o);
    if (!text) return error_say(-ENOMEM, "no memory for what is to be printed");
    bool printed = puts(text) != EOF && fflush(stdout) == 0;
    if (!printed) r = error_say(-EIO, "standard output: %s", strerror(errno));
    free(text);
    return printed && r ? 1 : r;
}

int inspect_adapter_json(const char *path, const char *base)
{
    _cleanup_(gguf_closep) struct gguf *g = NULL, *model = NULL;
    _cleanup_(adapter_closep) struct adapter *a = NULL;
    json_t *o = json_object();
    int r = gguf_open(&g, path);
    json_whole_set_str(o, "file", path, strlen(path));
    if (r) set_error(o, "error", path, r);
    if (r) return print_object(o, r);
    set_gguf(o, "architecture", g, "general.architecture");
    json_whole_set(o, "bytes", json_integer((json_int_t)gguf_file_size(g)));
    json_whole_set(o, "parts", json_integer(1));
    set_types(o, g);
    int e = gguf_open(&model, base);
    if (!e) e = adapter_open(&a, path, model);
    json_whole_set(o, "supported", json_boolean(!e));
    if (e) set_error(o, "why", path, e);
    if (!e) json_whole_set(o, "matrices", json_integer((json_int_t)a->n_pairs));
    if (!e) json_whole_set(o, "activated", json_boolean(a->n_invocation > 0));
    return print_object(o, 0);
}

int inspect_json(const char *path)
{
    _cleanup_(gguf_closep) struct gguf *g = NULL;
    json_t *o = json_object();
    int r = gguf_open(&g, path);
    json_whole_set_str(o, "file", path, strlen(path));
    if (r)
        set_error(o, "error", path, r);
    else
        describe(o, g);
    return print_object(o, r);
}
