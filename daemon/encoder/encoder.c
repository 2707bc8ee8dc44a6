/* SPDX-License-Identifier: MIT */
#include "daemon/encoder/encoder.h"
#include "daemon/encoder/encoding-state.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

DEFINE_CLEANUP(struct gguf *, gguf_close)

/* The name, shape, type and bytes of a tensor. */
static void add_tensor(XXH3_state_t *state, const struct gguf_tensor *t)
{
    uint64_t head[6] = {t->name.len, t->type, t->dims[0], t->dims[1], t->dims[2], t->dims[3]};
    XXH3_128bits_update(state, head, sizeof(head));
    XXH3_128bits_update(state, t->name.data, t->name.len);
    if (t->data) XXH3_128bits_update(state, t->data, t->size);
}

static int identify(struct encoder *e, const struct gguf *g)
{
    const uint32_t versions[2] = {ENCODER_VERSION, KERN_ARITHMETIC};
    const uint64_t libm = e->p.sound.kind          ? encoder_mel_identity()
                          : e->p.rope != ROPE_NONE ? encoding_turns_identity(&e->p)
                                                   : 0;
    XXH128_canonical_t digest;
    XXH3_state_t *state = XXH3_createState();
    if (!state) return error_say(-ENOMEM, "%s: out of memory", gguf_path(g));
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, versions, sizeof(versions));
    XXH3_128bits_update(state, &libm, sizeof(libm));
    XXH3_128bits_update(state, &e->p, sizeof(e->p));
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        add_tensor(state, gguf_tensor_at(g, i));
        e->bytes += gguf_tensor_at(g, i)->size;
    }
    XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(state));
    XXH3_freeState(state);
    _Static_assert(sizeof(digest) == ENCODER_IDENTITY, "XXH3-128");
    memcpy(e->identity, &digest, sizeof(digest));
    return 0;
}

static int read_images(struct encoder *e, const struct gguf *g, const struct encoder_config *config)
{
    int r = encoder_hparams_read(&e->p, g);
    e->p.class_last = config->class_last;
    return r ? r : encoder_weights_read(&e->w, &e->p, g);
}

static int read_sounds(struct encoder *e, const struct gguf *g, const struct encoder_config *config)
{
    int r = encoder_sound_hparams(&e->p, g, config->pooled);
    return r ? r : encoder_sound_read(&e->sound, &e->w, &e->p, g);
}

static int open_file(struct encoder *e, const char *path, const struct encoder_config *config)
{
    _cleanup_(gguf_closep) struct gguf *g = NULL;
    enum media_kind kind;
    int r = gguf_open(&g, path);
    if (!r) r = encoder_choose(g, config->takes, &kind);
    if (!r) r = kind == MEDIA_SOUND ? read_sounds(e, g, config) : read_images(e, g, config);
    return r ? r : identify(e, g);
}

int encoder_open(struct encoder **out, const char *path, const struct encoder_config *config)
{
    static const struct encoder_config none = {0};
    struct encoder *e = calloc(1, sizeof(*e));
    if (!e) return error_say(-ENOMEM, "%s: out of memory", path);
    if (!config) config = &none;
    e->kern = kernels_get(config->cpu);
    int r = e->kern ? open_file(e, path, config)
                    : error_say(-EINVAL, "HOB_CPU=%s: not one of scalar, avx2, avx512, amx", config->cpu);
    if (r < 0) {
        encoder_close(e);
        return r;
    }
    *out = e;
    return 0;
}

int encoder_inspect(const struct gguf *g, enum media_kind *takes, const char **projector)
{
    struct encoder_hparams p = {0};
    int r = encoder_choose(g, MEDIA_NONE, takes);
    if (!r) r = *takes == MEDIA_SOUND ? encoder_sound_hparams(&p, g, false) : encoder_hparams_read(&p, g);
    if (!r) *projector = *takes == MEDIA_SOUND ? encoder_sound_name(p.sound.kind) : encoder_kind_name(p.kind);
    return r;
}

struct encoder *encoder_close(struct encoder *e)
{
    if (!e) return NULL;
    encoder_weights_fini(&e->w);
    encoder_sound_fini(&e->sound);
    free(e);
    return NULL;
}

uint32_t encoder_dim(const struct encoder *e)
{
    return e->p.dim_out;
}

int encoder_fits(const struct encoder *e, uint32_t dim, bool grids)
{
    const bool own = e->p.rope == ROPE_HALVES;
    if (e->p.dim_out == dim && own == grids) return 0;
    if (e->p.dim_out == dim)
        return error_say(-EINVAL, "the %s encoder is for a model %s M-RoPE, and the model has %s",
                         media_kind_name(encoder_takes(e)), own ? "with" : "without", grids ? "it" : "none");
    return error_say(-EINVAL,
                     "the %s encoder makes embeddings of %u values, the model takes %u: it is for another model",
                     media_kind_name(encoder_takes(e)), e->p.dim_out, dim);
}

void encoder_identity(const struct encoder *e, uint8_t out[ENCODER_IDENTITY])
{
    memcpy(out, e->identity, ENCODER_IDENTITY);
}

uint64_t encoder_bytes(const struct encoder *e)
{
    return e->bytes;
}

const char *encoder_projector(const struct encoder *e)
{
    return e->p.sound.kind ? encoder_sound_name(e->p.sound.kind) : encoder_kind_name(e->p.kind);
}

enum media_kind encoder_takes(const struct encoder *e)
{
    return e->p.sound.kind ? MEDIA_SOUND : MEDIA_IMAGE;
}
