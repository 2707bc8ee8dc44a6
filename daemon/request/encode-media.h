/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The embeddings of images, when a sequence needs them: from memory, from disk, or from the encoder. A sequence whose
 * next item has none is SEQ_ENCODING. It keeps its slot and blocks meanwhile, because the image is the next thing that
 * it computes; it can be preempted like one that runs, and is charged for the encoder's time. Only a few images are
 * made ready ahead, so that a prompt of many images takes little memory. Engine's thread.
 */
#include "daemon/request/request.h"

/* @s has its blocks: check that all embeddings can be had, and go on as encode_ahead. 0, or -errno and an error
 * message.
 */
int encode_start(struct core *core, struct seq *s);
/* @s runs: attach embeddings that it needs soon, or begin to make them, and drop those that are computed. Without those
 * of its next item it is SEQ_ENCODING from now on. 0, or -errno and an error message. */
int encode_ahead(struct core *core, struct seq *s);
/* @s waits for a slot: drop the embeddings that the caches have. Of those that only its media can give again it keeps
 * the next ones, so that it gets on when it has a slot. */
void encode_wait(struct core *core, struct seq *s);
/* @s ends and waits for nothing any more. */
void encode_leave(struct core *core, struct seq *s);

/* Add to @ev, a done event, the media of the messages of @r. */
void encode_usage(struct proto_event *ev, const struct request *r, const struct seq *s);

/* Is there a slice to be computed? */
bool encode_ready(const struct core *core);
/* Compute slices of the users' images, in the order of their accounts. @step_usec: of the step before, beside which
 * they take about as long; 0: nothing else is to be computed, and they take longer. */
void encode_turn(struct core *core, uint64_t step_usec);
