/* SPDX-License-Identifier: MIT */
/* hobd inspect: the content of a GGUF file, and the parts of it that hobd can run. Reads no weights. */
#include "daemon/command/inspect.h"
#include "daemon/command/command.h"
#include "daemon/model/backend.h"
#include "daemon/text/template/template.h"
#include "daemon/text/tokenizer/tokenizer.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/plain.h"
#include "libcommon/units.h"
#include "libcommon/utf8.h"
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TEXT_SHOWN  72 /* bytes of a string */
#define ITEMS_SHOWN 6  /* elements of an array */

/* Sizes of values of fixed size. */
static const uint8_t value_size[GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

DEFINE_CLEANUP(struct gguf *, gguf_close)
DEFINE_CLEANUP(struct tokenizer *, tokenizer_free)
DEFINE_CLEANUP(struct template *, template_free)

/* Prints at most @max bytes of @s. Bytes that could control a terminal are written as \xNN. */
static void print_text(struct gguf_str s, size_t max)
{
    size_t shown = s.len > max ? max : s.len;
    for (size_t i = 0; i < shown;) {
        uint32_t cp = 0;
        size_t n = utf8_decode(s.data + i, s.len - i, &cp);
        if (s.data[i] == '\n')
            fputs("\\n", stdout);
        else if (s.data[i] == '\\' || s.data[i] == '"')
            printf("\\%c", s.data[i]);
        else if (n && !plain_commands(cp))
            fwrite(s.data + i, 1, n, stdout);
        else
            printf("\\x%02x", (unsigned char)s.data[i]), n = 1;
        i += n;
    }
    if (shown < s.len) printf("… (%zu bytes)", s.len);
}

static void print_scalar(enum gguf_type type, const void *p)
{
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
        float f32;
        double f64;
    } v = {0};
    memcpy(&v, p, value_size[type]);
    switch (type) {
    case GGUF_U8:
        printf("%u", v.u8);
        break;
    case GGUF_I8:
        printf("%d", v.i8);
        break;
    case GGUF_U16:
        printf("%u", v.u16);
        break;
    case GGUF_I16:
        printf("%d", v.i16);
        break;
    case GGUF_U32:
        printf("%" PRIu32, v.u32);
        break;
    case GGUF_I32:
        printf("%" PRId32, v.i32);
        break;
    case GGUF_U64:
        printf("%" PRIu64, v.u64);
        break;
    case GGUF_I64:
        printf("%" PRId64, v.i64);
        break;
    case GGUF_F32:
        printf("%g", (double)v.f32);
        break;
    case GGUF_F64:
        printf("%g", v.f64);
        break;
    case GGUF_BOOL:
        fputs(v.u8 ? "true" : "false", stdout);
        break;
    case GGUF_STRING:
    case GGUF_ARRAY:
    case GGUF_TYPES:
        break;
    }
}

static void print_array(const struct gguf_kv *kv)
{
    uint64_t shown = kv->n < ITEMS_SHOWN ? kv->n : ITEMS_SHOWN, index = 0;
    const void *it = NULL;
    struct gguf_str s;
    putchar('[');
    for (uint64_t i = 0; i < shown; i++) {
        if (i) fputs(", ", stdout);
        if (kv->elem == GGUF_STRING && gguf_next_str(kv, &it, &s, &index)) {
            putchar('"');
            print_text(s, 24);
            putchar('"');
        } else {
            print_scalar(kv->elem, (const char *)kv->value + i * value_size[kv->elem]);
        }
    }
    if (shown < kv->n) printf(", … (%" PRIu64 ")", kv->n);
    putchar(']');
}

static void print_metadata(const struct gguf *g)
{
    printf("\nmetadata: %zu keys\n", gguf_n_kv(g));
    for (size_t i = 0; i < gguf_n_kv(g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(g, i);
        struct gguf_str s;
        char key[256];
        fputs("  ", stdout);
        print_text(kv->key, 200);
        fputs(" = ", stdout);
        if (kv->type == GGUF_ARRAY) {
            print_array(kv);
        } else if (kv->type == GGUF_STRING && kv->key.len < sizeof(key)) {
            snprintf(key, sizeof(key), "%.*s", (int)kv->key.len, kv->key.data);
            if (!gguf_get_str(g, key, &s)) print_text(s, TEXT_SHOWN);
        } else {
            print_scalar(kv->type, kv->value);
        }
        putchar('\n');
    }
}

static const char *type_name(uint32_t type, char out[32])
{
    uint32_t block, bytes;
    const char *name = gguf_tensor_type_name(type, &block, &bytes);
    if (name) return name;
    snprintf(out, 32, "type %u", type);
    return out;
}

static void print_tensors(const struct gguf *g)
{
    char size[16], unknown[32];
    uint64_t sum = 0;
    for (size_t i = 0; i < gguf_n_tensors(g); i++) sum += gguf_tensor_at(g, i)->size;
    printf("\ntensors: %zu, %s\n", gguf_n_tensors(g), format_size(size, sum));
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        printf("  %-8s", type_name(t->type, unknown));
        for (uint32_t d = 0; d < t->n_dims; d++) printf("%s%" PRIu64, d ? " x " : " ", t->dims[d]);
        fputs("  ", stdout);
        print_text(t->name, 200);
        if (t->data)
            printf("  %" PRIu64 " bytes\n", t->size);
        else
            puts("  (size not known)");
    }
}

static void print_types(const struct gguf *g)
{
    struct {
        uint32_t type;
        size_t n;
        uint64_t bytes;
    } sums[64] = {0};
    size_t n = 0, k;
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        for (k = 0; k < n && sums[k].type != t->type; k++) {
        }
        if (k == 64) continue;
        if (k == n) sums[n++].type = t->type;
        sums[k].n++;
        sums[k].bytes += t->size;
    }
    if (n) puts("\ntensor types");
    for (k = 0; k < n; k++) {
        char size[16], unknown[32];
        printf("  %-8s %zu x, %s\n", type_name(sums[k].type, unknown), sums[k].n, format_size(size, sums[k].bytes));
    }
}

/* --- support, checked with the functions that load the parts --- */

static void unsupported(const struct gguf *g, int r)
{
    const char *why = error_text(r);
    size_t path = strlen(gguf_path(g));
    if (!strncmp(why, gguf_path(g), path) && why[path] == ':') why += path + 2;
    fputs("not supported: ", stdout);
    print_text((struct gguf_str){why, strlen(why)}, 1000);
    putchar('\n');
}

/* The layers behind the last: the first of them proposes tokens, where its kind is known. */
static void say_mtp(const struct gguf *g, struct hparams s)
{
    const bool drafts = hparams_drafts(&s);
    const uint32_t others = drafts ? s.mtp.nextn - 1 : s.mtp.nextn;
    size_t bytes;
    char size[16];
    if (others) printf("not computed: %u more layers, which predict later tokens\n", others);
    if (!drafts) return;
    hparams_mtp(&s);
    int r = backend_check(NULL, g, &s, &bytes);
    if (!r) printf("MTP layer: it proposes tokens; %s more of memory for its weights\n", format_size(size, bytes));
    if (r) printf("MTP layer: it is not used: %s\n", error_text(r));
}

static uint32_t dense_layers(const struct hparams *s)
{
    uint32_t n = 0;
    for (uint32_t l = 0; l < s->n_layers; l++) n += !hparams_mixes(s, l);
    return n;
}

static void check_model(const struct gguf *g)
{
    struct hparams s;
    size_t bytes = 0;
    char size[16];
    int r = hparams_read(&s, g);
    if (!r) {
        printf("supported: architecture %s: %u layers, width %u, ", s.arch, s.n_layers, s.dim);
        if (s.experts.n) printf("%u experts of %u, %u for each token, ", s.experts.n, s.experts.ffn, s.experts.used);
        if (s.experts.shared_ffn) printf("a shared one of %u, ", s.experts.shared_ffn);
        const uint32_t dense = dense_layers(&s);
        if (s.experts.n && dense) printf("%u layers without experts and with ", dense);
        if (dense) printf("ffn %u, ", s.ffn);
        printf("%u heads of %u, %u KV heads, context %u, %s output\n", s.heads, s.head_dim, s.kv_heads, s.ctx,
               s.tied ? "tied" : "untied");
        const struct hparams_heads window = hparams_heads_of(&s, true);
        if (s.by_layer.window_heads.kv_heads)
            printf("layers with a window: heads of %u, %u KV heads\n", window.head_dim, window.kv_heads);
        if (s.by_layer.shared_kv) printf("the last %u layers use the K and V of earlier ones\n", s.by_layer.shared_kv);
        r = backend_check(NULL, g, &s, &bytes);
        if (!r) printf("supported: all tensors; %s of memory for the weights\n", format_size(size, bytes));
        if (!r && s.mtp.nextn) say_mtp(g, s);
    }
    if (r) unsupported(g, r);
}

static void check_text(const struct gguf *g)
{
    _cleanup_(tokenizer_freep) struct tokenizer *t = NULL;
    _cleanup_(template_freep) struct template *chat = NULL;
    struct gguf_str model, pre = {"", 0}, src;
    int r = tokenizer_new(&t, g);
    if (r < 0) {
        unsupported(g, r);
    } else if (!gguf_get_str(g, "tokenizer.ggml.model", &model)) {
        gguf_get_str(g, "tokenizer.ggml.pre", &pre);
        fputs("supported: tokenizer ", stdout);
        print_text(model, 40);
        if (pre.len) fputs(", pre-tokenizer ", stdout), print_text(pre, 40);
        printf(", %zu tokens\n", tokenizer_vocab(t));
    }
    r = gguf_get_str(g, "tokenizer.chat_template", &src);
    if (r > 0) {
        puts("no chat template: raw prompts only");
        return;
    }
    if (!r) r = template_new(&chat, src.data, src.len);
    if (r < 0)
        unsupported(g, error_in(r, "chat template"));
    else
        puts("supported: chat template");
}

static int run(const char *path)
{
    _cleanup_(gguf_closep) struct gguf *g = NULL;
    char size[16];
    int r = gguf_open(&g, path);
    if (r < 0) return r;
    print_text((struct gguf_str){path, strlen(path)}, 4096);
    printf(": GGUF version %u, %s (%" PRIu64 " bytes)", gguf_version(g), format_size(size, gguf_file_size(g)),
           gguf_file_size(g));
    if (gguf_n_parts(g) > 1) printf(" in %u parts", gguf_n_parts(g));
    putchar('\n');
    print_metadata(g);
    print_tensors(g);
    print_types(g);
    putchar('\n');
    check_model(g);
    check_text(g);
    if (fflush(stdout) || ferror(stdout)) return error_say(-EIO, "standard output: %s", strerror(errno));
    return 0;
}

static void usage(void)
{
    puts("usage: hobd inspect FILE\n"
         "       hobd inspect --json FILE...\n"
         "       hobd inspect --json --adapter-of MODEL FILE...\n"
         "       hobd inspect --supported\n"
         "\nPrints the metadata of a GGUF file, its tensors with their types and sizes, and\n"
         "whether hobd supports it.\n\n"
         "      --json         print one JSON object per FILE, one per line\n"
         "      --adapter-of MODEL  with --json: each FILE is an adapter of MODEL\n"
         "      --supported    print the supported architectures, RoPE scalings and types\n"
         "      --help         print this help");
}

/* A bad file does not stop the others. @base: of adapters; NULL: of models. */
static int run_json(char **files, const char *base)
{
    int r = 0, one;
    for (; *files && r >= 0; files++) {
        one = base ? inspect_adapter_json(*files, base) : inspect_json(*files);
        if (one) r = one;
    }
    return r;
}

/* Checks the number of files against @mode: 0 (one), 'j' (at least one) or 's' (none). */
static const char *check_files(int mode, int files)
{
    if (mode == 's') return files ? "--supported takes no FILE" : NULL;
    if (!files) return "FILE is missing; see hobd inspect --help";
    return files > 1 && !mode ? "more than one FILE needs --json" : NULL;
}

int command_inspect(int argc, char **argv)
{
    static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"supported", no_argument, NULL, 's'},
                                          {"adapter-of", required_argument, NULL, 'a'},
                                          {0}};
    const char *base = NULL;
    int c, r, mode = 0;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":", longs, NULL)) == 'j' || c == 's' || c == 'a') {
        if (c == 'a')
            base = optarg;
        else
            mode = c;
    }
    if (c == 'h') {
        usage();
        return 0;
    }
    if (c != -1) return command_misused(argv, command_refuse(argv, c));
    const char *wrong = check_files(mode, argc - optind);
    if (!wrong && base && mode != 'j') wrong = "--adapter-of needs --json";
    if (wrong) return command_misused(argv, error_say(-EINVAL, "%s", wrong));
    r = mode == 's' ? print_supported() : mode ? run_json(argv + optind, base) : run(argv[optind]);
    return r < 0 ? command_failed(argv, r) : r;
}
