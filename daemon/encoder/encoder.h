/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Encoders of images and sounds: from pixels or samples to the embeddings that a language model reads in place of
 * tokens' embeddings. An encoder of images is a GGUF file of llama.cpp ("mmproj"), a vision transformer with a
 * projector: Gemma 3 (SigLIP, average pooling), LLaVA (CLIP, two linear layers; 1.6: tiles), Idefics3 and SmolVLM
 * (SigLIP, tiles, pixel shuffle), InternVL (InternViT, tiles, pixel shuffle), Pixtral and Mistral Small 3.1 (RoPE, line
 * breaks), LFM2-VL (SigLIP 2, tiles, pixel shuffle), Qwen2-VL and Qwen2.5-VL (RoPE, squares of 2 x 2 patches, windows).
 * One of sounds is Whisper's encoder with the projector of Ultravox, Qwen2-Audio or Voxtral.
 *
 * The arithmetic is that of kernels/ARITHMETIC.md, with these operations besides (each + - * / and sqrt rounds once):
 *
 *   resize      Pillow's, in integers: weights of 22 fractional bits, first columns, then rows (encoder-resize.h)
 *               Idefics3: the longer edge to the one that the file names, the other one rounded down and then up to an
 *               even number; then both to whole tiles; then this to the square of the last tile
 *               InternVL, LLaVA-1.6: as large as it fits into the tiles, and both edges to those of the last tile
 *               Pixtral, Qwen: as large as it fits into about its own size, in whole squares of patches
 *               LFM2-VL: both edges to this size; as large as it fits into the tiles
 *   pixel       (v / 255 - mean) / std
 *   patch       a product of [3][patch][patch] pixel values with v.patch_embd, k ascending; + bias; + position; Qwen:
 *               with the sum of its two kernels
 *   position    LFM2-VL: acc = acc + (wy * wx) * p over the rows, then the columns, ascending, w the weights of a
 *               bilinear resizing, multiples of 2^-22
 *   layernorm   16 lanes; lane j: acc = acc + x over i = j mod 16, ascending; mean = fold16 / k
 *               lane j: acc = acc + d * d, d = x - mean; r = 1 / sqrt(fold16 / k + eps); (d * r) * w + b
 *   rmsnorm     as in ARITHMETIC.md; + b if there is a bias; of Q and K: for each head, or for the row
 *   attention   as in ARITHMETIC.md with K and V in f32, all positions visible to all, segments of 512;
 *               scale = 1 / sqrt(head_dim); with windows, all positions of the window, in the order of the windows
 *   rope        as in ARITHMETIC.md, angle = position * (first * 10000^(-4 i / head_dim)) in double, i < head_dim / 4:
 *               first the pairs of the row, then those of the column; first = 1, Pixtral's column 10000^(-2 / head_dim)
 *   gelu        gelu_mul, silu: silu_mul, with up = 1 or that of the FFN; quick gelu: silu of 1.702 * x, then
 *               * f32(1 / 1.702)
 *   residual    x + (product + bias), or x + (product + bias) * scale
 *   pool        acc = acc + x over the rows of the window, then its columns, ascending; acc / (size * size)
 *
 * Of sounds, 16000 samples a second:
 *
 *   window      400 samples around each 160th one, times Hann's window (0.5 - 0.5 cos, rounded to f32); before the
 * first sample is the sound mirrored, behind the last one are 30 s of zeros power       e(n) = y(n) + y(400 - n), o(n)
 * = y(n) - y(400 - n); re and im are products of e and o, n ascending, with cosines and sines (libm's in double,
 * rounded to f32); re * re + im * im mel         a product of the power, frequency ascending, with triangles of area 1
 * on Slaney's scale, up to 8 kHz log         libm's log10 in double of max(mel, 2^-24), rounded to f32; (max(log,
 * largest of the sound - 8) + 4) / 4 chunk       3000 of these spectra; further ones, fewer than 3000, at the end are
 * dropped convolution a product of three rows with the kernel, first the row before, then within each row ascending; +
 * bias; gelu; the second one takes every second row; + position gelu        0.5 x (1 + erf(x * f32(sqrt(0.5)))), erf as
 * in encoding-erf.c mean        (x + y) / 2 of two rows, before the last norm; Qwen2-Audio, and Voxtral if
 * config.pooled stack       rows side by side after this norm; fewer than these at the end are dropped swiglu silu_mul
 * with the second half of the product as gate; rmsnorm with an epsilon of 1e-6
 *
 * Each row of a product, each query and each pooled item has its own sums, so that the number of threads, the CPU
 * variant and the size of a slice change no bit of a result.
 */
#include "daemon/media/media.h"
#include <stdbool.h>
#include <stdint.h>

#define ENCODER_VERSION  1     /* of the operations above and of the preprocessing; part of the identity */
#define ENCODER_EDGE_MAX 65536 /* pixels of an image's longer edge */

enum { ENCODER_IDENTITY = 16 /* bytes */ };

struct compute_pool;

struct encoder_config {
    const char *cpu; /* limits the instruction set, as in kernels_get */
    bool class_last; /* the class row of CLIP and InternViT is the last one, not the first, and LLaVA's projector takes
                      * the rows from the second on. llama.cpp computes so (0.7.0), although the positions of the models
                      * are for the class first */
    bool pooled; /* Voxtral: two rows become their mean, so that there are half as many embeddings. llama.cpp computes
                  * so (0.7.0), although the model has not learned it */
    enum media_kind takes; /* of a file with two encoders, that of images or that of sounds; of another file, the one
                            * that it must have. MEDIA_NONE: that of images, if there is one */
};

struct encoder;
struct encoding;

/* Read the file and pack its weights. @config NULL: all its members are zero. On 0 *out is owned by the
 * caller, and the file is no longer needed. -EINVAL: no encoder of @takes, or one that hob does not support, or
 * damaged; else -errno. Sets the error message, which begins with the path. */
int encoder_open(struct encoder **out, const char *path, const struct encoder_config *config);
/* What an encoder of the file @g would take, and its projector ("gemma3"), from the keys alone. 0; -EINVAL as
 * encoder_open. */
struct gguf;
int encoder_inspect(const struct gguf *g, enum media_kind *takes, const char **projector);
struct encoder *encoder_close(struct encoder *e); /* NULL ok, returns NULL */

/* Values of an embedding. */
uint32_t encoder_dim(const struct encoder *e);

/* 0 if the embeddings fit a model of @dim that takes the places of an image's embeddings in a grid for positions or not
 * (@grids: M-RoPE); else -EINVAL and the error message. */
int encoder_fits(const struct encoder *e, uint32_t dim, bool grids);

/* XXH3-128 over ENCODER_VERSION, KERN_ARITHMETIC, the parameters and all tensors of the file, and a probe of the libm
 * functions that the encoder uses. Encoders of one identity give one result for one image or sound. */
void encoder_identity(const struct encoder *e, uint8_t out[ENCODER_IDENTITY]);

/* Memory that the weights take, about: the size of the tensors. */
uint64_t encoder_bytes(const struct encoder *e);

/* "gemma3". */
const char *encoder_projector(const struct encoder *e);

/* MEDIA_IMAGE or MEDIA_SOUND. */
enum media_kind encoder_takes(const struct encoder *e);

struct encoder_plan {
    uint32_t items;         /* embeddings, the positions of the image or sound in a prompt; of all tiles or chunks */
    uint32_t width, height; /* to which the image is resized, without the border that makes it a square */
    uint32_t columns, rows; /* tiles into which this is cut, each encoded alone, row by row; the last tile is then the
                             * whole image once more. 0: there is one tile, the whole image */
    uint32_t tile_items;    /* embeddings of a tile; of an image in tiles, the last tile has all others */
    uint32_t grid_columns, grid_rows; /* of the embeddings, if the model takes their places in the image for positions
                                       * (M-RoPE); 0: it does not */
    uint32_t chunks; /* of a sound, of about 30 s each, encoded alone; each has tile_items embeddings. 0: an image */
};

/* What an image of this size becomes. 0; -EINVAL: no pixels, or an edge over ENCODER_EDGE_MAX, or an encoder of sounds;
 * sets the error message. */
int encoder_plan(const struct encoder *e, uint32_t width, uint32_t height, struct encoder_plan *out);

/* What a sound of so many samples becomes. 0; -EINVAL: none, or more than MEDIA_SAMPLES_MAX, or an encoder of images;
 * sets the error message. */
int encoder_plan_sound(const struct encoder *e, uint64_t samples, struct encoder_plan *out);

/* Begin to encode @rgb [height][width][3], which must stay valid, as @e, until encoding_free. On 0 *out is owned by the
 * caller; -EINVAL as encoder_plan; -ENOMEM. Sets the error message. */
int encoding_new(struct encoding **out, const struct encoder *e, const uint8_t *rgb, uint32_t width, uint32_t height);
/* The same for @samples [n] of 16 kHz. -EINVAL as encoder_plan_sound, or a sample is no number or over 1e6. */
int encoding_new_sound(struct encoding **out, const struct encoder *e, const float *samples, uint64_t n);
struct encoding *encoding_free(struct encoding *x); /* NULL ok, returns NULL */

/* Compute one slice of bounded size: some rows of one block, about 2^28 multiplications. @pool NULL: in this thread
 * alone. Each step may be in another thread, and with another pool. Returns 1: there is more to do; 0: done; -EINVAL:
 * the embeddings are no numbers, because the weights are damaged; sets the error message. */
int encoding_step(struct encoding *x, struct compute_pool *pool);

/* The embeddings [items][dim], valid until encoding_free; NULL before the last step. */
const float *encoding_result(const struct encoding *x);
