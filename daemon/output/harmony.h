/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The channel parser of OpenAI's Harmony format (gpt-oss; "OpenAI harmony response format", OpenAI Cookbook):
 * <|start|>ROLE<|channel|>NAME<|message|>TEXT<|end|>, repeated. The text of the channel "final" is the answer, the text
 * of any other ("analysis", "commentary …") is thinking; role and name are neither. An answer without <|channel|> has
 * no parts.
 */
#include "daemon/output/channel.h"

#define HARMONY_CHANNEL "<|channel|>" /* a vocabulary with this control token has the format */

extern const struct channel_format channel_harmony;
