/* SPDX-License-Identifier: MIT */
#pragma once
/* What an earlier run has written: the numbers of the lines of input that the output has, with a check of their ids.
 * Four bytes for each line of input. */
#include <stddef.h>
#include <stdint.h>

struct batch_done {
    uint32_t *checks; /* [n], owned: of line i + 1; 0: the output does not have it */
    size_t n;
    uint64_t lines; /* that the output has */
};

/* Read the output file @fd from its start; @name: of the file, for messages. *@end is the length of its complete lines:
 * what is behind it was cut when it was written. 0; -EINVAL: not an output of hob batch; sets the error message; else
 * -errno. Call batch_done_fini in any case. */
int batch_done_read(struct batch_done *d, int fd, const char *name, uint64_t *end);

/* 1: the output has line @number; 0: it has not; -EINVAL: it has that number with another id than @id (JSON text of
 * @len bytes); sets the error message. */
int batch_done_has(const struct batch_done *d, uint64_t number, const char *id, size_t len);

void batch_done_fini(struct batch_done *d);
