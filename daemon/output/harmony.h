/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The channel parser of OpenAI's Harmony format (gpt-oss; "OpenAI harmony response format", OpenAI Cookbook):
 * <|start|>ROLE<|channel|>NAME<|message|>TEXT<|end|>, repeated. The text of the channel "final" is the answer, the text
 * of any other ("analysis", "commentary …") is thinking; role and name are neither. An answer without <|channel|> has
 * no parts.
 *
 * Within a struct markup_format with tools, a message to functions.NAME (in the role or in the channel's name) is a
 * tool call: its text are the arguments.
 */
#include "daemon/output/channel.h"

#define HARMONY_CHANNEL "<|channel|>" /* a vocabulary with this control token has the format */

extern const struct channel_format channel_harmony;
