/* SPDX-License-Identifier: MIT */
#include "daemon/encoder/encoder-layout.h"
#include "daemon/encoder/encoder-state.h"
#include "libcommon/buf.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The texts of a kind of encoder. */
struct texts {
    const char *begin, *end; /* of the image, or the sound */
    /* Of an image in tiles, if there is a text before a tile. */
    const char *tile;  /* before each tile but the last: the row and the column, from 1 */
    const char *row;   /* between two rows of tiles */
    const char *whole; /* before the last tile, which is the whole image */
};

static const struct texts kinds[] = {
    [ENCODER_GEMMA3] = {.begin = "<start_of_image>", .end = "<end_of_image>"},
    [ENCODER_MLP] = {.begin = "", .end = ""},
    [ENCODER_IDEFICS3] = {.begin = "",
                          .end = "<fake_token_around_image>",
                          .tile = "<fake_token_around_image><row_%u_col_%u>",
                          .row = "\n",
                          .whole = "\n\n<fake_token_around_image><global-img>"},
    [ENCODER_INTERNVL] = {.begin = "<img>", .end = "</img>"},
    [ENCODER_PIXTRAL] = {.begin = "", .end = "[IMG_END]"},
    [ENCODER_LFM2] = {.begin = "<|image_start|>",
                      .end = "<|image_end|>",
                      .tile = "<|img_row_%u_col_%u|>",
                      .row = "",
                      .whole = "<|img_thumbnail|>"},
    [ENCODER_QWEN2VL] = {.begin = "<|vision_start|>", .end = "<|vision_end|>"},
    [ENCODER_QWEN25VL] = {.begin = "<|vision_start|>", .end = "<|vision_end|>"},
};

static const struct texts sounds[] = {
    [SOUND_ULTRAVOX] = {.begin = "", .end = ""},
    [SOUND_QWEN2A] = {.begin = "<|audio_bos|>", .end = "<|audio_eos|>"},
    [SOUND_VOXTRAL] = {.begin = "[BEGIN_AUDIO]", .end = ""},
};

/* A layout while it grows. The texts are one after the other, each with its NUL. */
struct builder {
    struct buf texts;
    struct encoder_layout out;
    uint32_t room; /* parts */
    size_t begin;  /* of the text that is not yet a part */
    uint32_t next; /* embedding */
    int r;         /* the first error; the functions below do nothing after it */
};

static void add_part(struct builder *b, struct encoder_part part)
{
    if (b->out.n == b->room) {
        uint32_t room = b->room ? 2 * b->room : 8;
        struct encoder_part *parts = reallocarray(b->out.parts, room, sizeof(*parts));
        if (!parts) {
            b->r = -ENOMEM;
            return;
        }
        b->out.parts = parts;
        b->room = room;
    }
    b->out.parts[b->out.n++] = part;
}

/* The text since the last part becomes one; its place is known at the end. */
static void end_text(struct builder *b)
{
    if (b->r || b->texts.len == b->begin) return;
    b->r = buf_append(&b->texts, "", 1);
    if (b->r) return;
    b->begin = b->texts.len;
    add_part(b, (struct encoder_part){.text = ""});
}

static void add_text(struct builder *b, const char *text)
{
    if (!b->r) b->r = buf_puts(&b->texts, text);
}

static void add_run(struct builder *b, uint32_t n)
{
    end_text(b);
    if (!b->r) add_part(b, (struct encoder_part){.first = b->next, .n = n});
    b->next += n;
}

static void add_tiles(struct builder *b, const struct texts *t, const struct encoder_plan *plan)
{
    char name[64];
    for (uint32_t y = 0; y < plan->rows; y++) {
        if (y) add_text(b, t->row);
        for (uint32_t x = 0; x < plan->columns; x++) {
            snprintf(name, sizeof(name), t->tile, y + 1, x + 1);
            add_text(b, name);
            add_run(b, plan->tile_items);
        }
    }
    add_text(b, t->whole);
}

/* Give the parts their texts. */
static void place_texts(struct builder *b)
{
    char *text = b->out.texts = buf_steal(&b->texts, NULL);
    for (uint32_t i = 0; i < b->out.n; i++)
        if (b->out.parts[i].text) {
            b->out.parts[i].text = text;
            text += strlen(text) + 1;
        }
}

int encoder_layout(const struct encoder *e, const struct encoder_plan *plan, struct encoder_layout *out)
{
    const struct texts *t = e->p.sound.kind ? &sounds[e->p.sound.kind] : &kinds[e->p.kind];
    struct builder b = {.texts = BUF_INIT};
    add_text(&b, t->begin);
    if (plan->columns && t->tile) add_tiles(&b, t, plan);
    add_run(&b, plan->items - b.next);
    add_text(&b, t->end);
    end_text(&b);
    place_texts(&b);
    if (b.r) {
        encoder_layout_fini(&b.out);
        return error_say(b.r, "no memory for the layout of embeddings");
    }
    *out = b.out;
    return 0;
}

void encoder_layout_fini(struct encoder_layout *l)
{
    free(l->parts);
    free(l->texts);
    *l = (struct encoder_layout){0};
}
