/* SPDX-License-Identifier: MIT */
#pragma once
/* What hob warns of, for tests. */

/* Collect what is written to standard error, warnings included. 0 or -1. */
int warnings_begin(void);
/* End that. The text since then, valid until the next warnings_begin; NULL: it cannot be read. Only errors are logged
 * from now on. */
const char *warnings_end(void);
