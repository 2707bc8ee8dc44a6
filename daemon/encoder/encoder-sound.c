/* SPDX-License-Identifier: MIT */
#include "daemon/encoder/encoder-sound.h"
#include "daemon/encoder/encoder-kinds.h"
#include "daemon/encoder/encoder-tensors.h"
#include "daemon/model/keys.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

enum { STACK_MAX = 64 };

static const char *const names[] = {
    [SOUND_ULTRAVOX] = "ultravox", [SOUND_QWEN2A] = "qwen2a", [SOUND_VOXTRAL] = "voxtral"};
enum { N_NAMES = sizeof(names) / sizeof(*names) };

const char *encoder_sound_name(enum encoder_sound_kind kind)
{
    return names[kind];
}

int encoder_choose(const struct gguf *g, enum media_kind takes, enum media_kind *out)
{
    bool sound = false;
    int r = gguf_get_bool(g, "clip.has_audio_encoder", &sound);
    bool image = !sound;
    if (r >= 0) r = gguf_get_bool(g, "clip.has_vision_encoder", &image);
    if (r < 0) return r;
    if ((takes == MEDIA_SOUND && !sound) || (takes == MEDIA_IMAGE && !image && sound))
        return error_say(-EINVAL, "%s: this encoder takes %s, not %s", gguf_path(g), sound ? "sounds" : "images",
                         sound ? "images" : "sounds");
    *out = sound && (takes == MEDIA_SOUND || !image) ? MEDIA_SOUND : MEDIA_IMAGE;
    return 0;
}

static int read_kind(struct encoder_hparams *p, const struct gguf *g)
{
    struct gguf_str s = {0};
    char name[40];
    int r = gguf_get_str(g, "clip.projector_type", &s);
    if (r == 1) r = gguf_get_str(g, "clip.audio.projector_type", &s);
    if (r < 0) return r;
    if (r) return error_say(-EINVAL, "%s: key 'clip.projector_type' is missing", gguf_path(g));
    if (encoder_equals(s, "qwen2.5o")) p->sound.kind = SOUND_QWEN2A; /* Qwen2.5-Omni's name for both of its encoders */
    for (int i = SOUND_ULTRAVOX; i < N_NAMES; i++)
        if (encoder_equals(s, names[i])) p->sound.kind = (enum encoder_sound_kind)i;
    if (p->sound.kind) return 0;
    gguf_text(name, sizeof(name), s);
    return error_say(-EINVAL, "%s: projector type '%s' is not supported for sounds; supported: %s, %s, %s",
                     gguf_path(g), name, names[SOUND_ULTRAVOX], names[SOUND_QWEN2A], names[SOUND_VOXTRAL]);
}

static int read_sizes(struct encoder_hparams *p, const struct gguf *g)
{
    const struct keys k = {g, "clip.audio"};
    int r = keys_u32(&k, &p->sound.bins, "num_mel_bins", REQUIRED, 1, MEL_BINS_MAX);
    if (!r) r = encoder_blocks_read(p, &k);
    p->sound.stack = 1;
    if (!r && p->sound.kind != SOUND_QWEN2A)
        r = keys_u32(&k, &p->sound.stack, "projector.stack_factor", REQUIRED, 1, STACK_MAX);
    if (r) return r;
    if (p->dim % p->heads || p->dim / p->heads > ENCODER_HEAD)
        return error_say(-EINVAL, "%s: rows of %u values cannot be divided into %u heads of at most %d values",
                         gguf_path(g), p->dim, p->heads, ENCODER_HEAD);
    return 0;
}

int encoder_sound_hparams(struct encoder_hparams *out, const struct gguf *g, bool pooled)
{
    memset(out, 0, sizeof(*out));
    int r = encoder_check_architecture(g);
    if (!r) r = read_kind(out, g);
    if (!r) r = read_sizes(out, g);
    out->act = ENCODER_GELU_ERF;
    out->blocks = out->layers;
    out->sound.pool = out->sound.kind == SOUND_QWEN2A || (out->sound.kind == SOUND_VOXTRAL && pooled) ? 2 : 1;
    return r;
}

/* --- weights --- */

static void read_block(struct tensor_reader *r, struct encoder_block *b, uint32_t i, const struct encoder_hparams *p)
{
    tensor_read_norm(r, &b->ln1, tensor_in_block("a", i, "ln1").s, p->dim, true);
    tensor_read_norm(r, &b->ln2, tensor_in_block("a", i, "ln2").s, p->dim, true);
    tensor_read_matrix(r, &b->q, tensor_in_block("a", i, "attn_q").s, p->dim, p->dim);
    tensor_read_matrix(r, &b->k, tensor_in_block("a", i, "attn_k").s, p->dim, p->dim);
    tensor_read_matrix(r, &b->v, tensor_in_block("a", i, "attn_v").s, p->dim, p->dim);
    tensor_read_matrix(r, &b->out, tensor_in_block("a", i, "attn_out").s, p->dim, p->dim);
    tensor_read_matrix(r, &b->up, tensor_in_block("a", i, "ffn_up").s, p->ffn, p->dim);
    tensor_read_matrix(r, &b->down, tensor_in_block("a", i, "ffn_down").s, p->dim, p->ffn);
}

/* Ultravox's first product gives two halves: values and their gates. */
static void read_halves(struct tensor_reader *r, struct encoder_sound *s, struct encoder_weights *w, uint32_t wide)
{
    tensor_read_norm(r, &w->gathered, "mm.a.norm_pre", wide, true);
    tensor_read_matrix(r, &w->project, "mm.a.mlp.1", 0, wide);
    const uint32_t half = w->project.rows / 2;
    if (!r->error && w->project.rows % 2)
        r->error = error_say(-EINVAL, "%s: tensor 'mm.a.mlp.1.weight' has %u rows, which are no two halves",
                             gguf_path(r->g), w->project.rows);
    if (r->error) return;
    tensor_read_norm(r, &s->middle, "mm.a.norm_mid", half, true);
    tensor_read_matrix(r, &w->then, "mm.a.mlp.2", 0, half);
}

static void read_projector(struct tensor_reader *r, struct encoder_sound *s, struct encoder_weights *w,
                           struct encoder_hparams *p)
{
    const uint32_t wide = p->dim * p->sound.stack;
    switch (p->sound.kind) {
    case SOUND_ULTRAVOX:
        read_halves(r, s, w, wide);
        break;
    case SOUND_VOXTRAL:
        tensor_read_matrix(r, &w->project, "mm.a.mlp.1", 0, wide);
        if (!r->error) tensor_read_matrix(r, &w->then, "mm.a.mlp.2", 0, w->project.rows);
        break;
    default:
        tensor_read_matrix(r, &w->project, "mm.a.fc", p->dim_out, wide);
    }
    p->dim_out = w->then.panels ? w->then.rows : w->project.rows;
}

static void read_all(struct tensor_reader *r, struct encoder_sound *s, struct encoder_weights *w,
                     struct encoder_hparams *p)
{
    tensor_read_convolution(r, &s->first, "a.conv1d.1", p->dim, SOUND_TAPS, p->sound.bins);
    tensor_read_convolution(r, &s->second, "a.conv1d.2", p->dim, SOUND_TAPS, p->dim);
    w->positions = tensor_read_floats(r, "a.position_embd", SOUND_ROWS, p->dim);
    for (uint32_t i = 0; i < p->layers; i++) read_block(r, &w->blocks[i], i, p);
    tensor_read_norm(r, &w->post, "a.post_ln", p->dim, true);
    read_projector(r, s, w, p);
    tensor_reader_end(r, MEDIA_SOUND);
}

int encoder_sound_read(struct encoder_sound *s, struct encoder_weights *w, struct encoder_hparams *p,
                       const struct gguf *g)
{
    struct tensor_reader reader;
    *w = (struct encoder_weights){.blocks = calloc(p->blocks, sizeof(*w->blocks)), .n_blocks = p->blocks};
    if (!w->blocks) return error_say(-ENOMEM, "%s: out of memory", gguf_path(g));
    int r = tensor_reader_init(&reader, g);
    if (r < 0) return r;
    read_all(&reader, s, w, p);
    tensor_reader_fini(&reader);
    return reader.error ? reader.error : encoder_mel_init(&s->mel, p->sound.bins);
}

void encoder_sound_fini(struct encoder_sound *s)
{
    encoder_matrix_fini(&s->first);
    encoder_matrix_fini(&s->second);
    free(s->middle.w);
    free(s->middle.b);
    encoder_mel_fini(&s->mel);
}
