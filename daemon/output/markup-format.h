/* SPDX-License-Identifier: MIT */
#pragma once
/* The channel format of a struct markup: thinking and tool calls, as the chat template writes them. */
#include "daemon/output/channel.h"
#include "daemon/text/markup/markup.h"

/* Set all members but base; markup_format_init() sets that. Owns nothing. */
struct markup_format {
    struct channel_format base;
    const struct markup *markup; /* must outlive the parsers, as tools */
    const json_t *tools;         /* the request's list; NULL or empty: the answer has no calls */
    enum markup_start start;
    bool marks_in_text; /* control tokens come as text: junk is removed from it */
};

void markup_format_init(struct markup_format *f);
