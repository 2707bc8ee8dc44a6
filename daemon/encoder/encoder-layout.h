/* SPDX-License-Identifier: MIT */
#pragma once
/* Where the embeddings of an image or a sound go in a prompt, and the special tokens around them, as llama.cpp's mtmd
 * has it. */
#include "daemon/encoder/encoder.h"

/* A text, or embeddings. */
struct encoder_part {
    const char *text; /* special tokens by name, to be parsed as markup, and line ends; NULL: embeddings */
    uint32_t first;   /* of the embeddings in encoding_result */
    uint32_t n;       /* embeddings; 0 in a text */
};

struct encoder_layout {
    struct encoder_part *parts; /* [n]; no two texts follow each other, and no text is empty */
    uint32_t n;
    char *texts; /* the parts' texts are in here */
};

/* The layout of what encoder_plan or encoder_plan_sound planned; its runs are all of plan->items, each once, in
 * ascending order. 0: the caller calls encoder_layout_fini; -ENOMEM. Sets the error message. */
int encoder_layout(const struct encoder *e, const struct encoder_plan *plan, struct encoder_layout *out);
void encoder_layout_fini(struct encoder_layout *l);
