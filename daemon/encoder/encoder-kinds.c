/* SPDX-License-Identifier: MIT */
#include "daemon/encoder/encoder-kinds.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <string.h>

static const struct encoder_kind_row kinds[] = {
    [ENCODER_GEMMA3] = {"gemma3", NULL, CUT_SQUARE, RESIZE_BILINEAR, {0}, "projector.scale_factor", 4},
    [ENCODER_MLP] = {"mlp", "LLaVA", CUT_SQUARE, RESIZE_BICUBIC, {122, 116, 104} /* CLIP's mean color */, NULL, 1},
    [ENCODER_IDEFICS3] = {"idefics3", "SmolVLM", CUT_EDGE, RESIZE_LANCZOS, {0}, "projector.scale_factor", 0},
    [ENCODER_INTERNVL] = {"internvl", NULL, CUT_GRIDS, RESIZE_BICUBIC, {0}, "projector.scale_factor", 0},
    [ENCODER_PIXTRAL] =
        {"pixtral", NULL, CUT_WHOLE, RESIZE_BICUBIC, {0}, "spatial_merge_size", 1, 8, 1024, ROPE_PAIRS, true},
    [ENCODER_LFM2] = {"lfm2", NULL, CUT_LFM2, RESIZE_BILINEAR, {0}, "projector.scale_factor", 0, 64, 256},
    [ENCODER_QWEN2VL] =
        {"qwen2vl_merger", NULL, CUT_WHOLE, RESIZE_BICUBIC, {0}, "spatial_merge_size", 2, 8, 4096, ROPE_HALVES, false},
    [ENCODER_QWEN25VL] =
        {"qwen2.5vl_merger", NULL, CUT_WHOLE, RESIZE_BICUBIC, {0}, "spatial_merge_size", 2, 8, 4096, ROPE_HALVES, true},
};
enum { N_KINDS = sizeof(kinds) / sizeof(*kinds) };

const struct encoder_kind_row *encoder_kind_row(enum encoder_kind kind)
{
    return &kinds[kind];
}

const char *encoder_kind_name(enum encoder_kind kind)
{
    return kinds[kind].name;
}

bool encoder_equals(struct gguf_str s, const char *word)
{
    return s.len == strlen(word) && !memcmp(s.data, word, s.len);
}

static int refuse(const struct gguf *g, struct gguf_str s)
{
    char name[40], known[256] = "";
    for (int i = 0; i < N_KINDS; i++) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof(known) - n, "%s%s%s%s%s", i ? ", " : "", kinds[i].name, kinds[i].models ? " (" : "",
                 kinds[i].models ? kinds[i].models : "", kinds[i].models ? ")" : "");
    }
    gguf_text(name, sizeof(name), s);
    return error_say(-EINVAL, "%s: projector type '%s' is not supported; supported: %s", gguf_path(g), name, known);
}

int encoder_kind_find(struct encoder_hparams *p, const struct gguf *g, struct gguf_str name)
{
    for (int i = 0; i < N_KINDS; i++)
        if (encoder_equals(name, kinds[i].name)) {
            p->kind = (enum encoder_kind)i;
            p->rope = kinds[i].rope;
            p->rms = kinds[i].rms;
            p->prepare.cut = kinds[i].cut;
            p->prepare.filter = kinds[i].filter;
            memcpy(p->prepare.border, kinds[i].border, sizeof(p->prepare.border));
            return 0;
        }
    return refuse(g, name);
}
