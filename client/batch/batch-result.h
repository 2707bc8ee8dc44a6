/* SPDX-License-Identifier: MIT */
#pragma once
/* The line of output for a job that has ended: one JSON object, as hob's or as that of OpenAI's batch files. */
#include "client/batch/batch-job.h"

/* Append the line with its newline. @model: its name. @created: seconds since 1970, for OpenAI's form. 0 or -ENOMEM. */
int batch_result_line(struct buf *out, const struct batch_job *j, const char *model, int64_t created);

/* Append the text of the answer: with `extract` its first fenced code block. 0 or -ENOMEM. */
int batch_result_text(struct buf *out, const struct batch_job *j);
