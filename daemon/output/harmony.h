/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The parts of an answer in OpenAI's Harmony format (gpt-oss; "OpenAI harmony response format", OpenAI Cookbook):
 * <|start|>ROLE<|channel|>NAME<|message|>TEXT<|end|>, again and again. What is in the channel "final" is the answer, in
 * any other ("analysis", "commentary …") thinking; role and name are neither. An answer without <|channel|> has no
 * parts.
 */
#include <stdbool.h>
#include <stddef.h>

/* Zero at the beginning of an answer. */
struct harmony {
    bool begun; /* there was a <|channel|> */
    enum { HARMONY_TEXT, HARMONY_HEADER, HARMONY_NAME } at;
    bool thinking;
    char name[8]; /* as much of it as is needed */
    size_t n;
};

/* A control token with this text. */
void harmony_control(struct harmony *h, const char *piece, size_t len);

/* Text of other tokens: is it to be shown? */
bool harmony_text(struct harmony *h, const char *text, size_t len);

/* Static: what is shown now is "answer" or "thinking". */
const char *harmony_channel(const struct harmony *h);
