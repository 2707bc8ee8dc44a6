/* SPDX-License-Identifier: MIT */
#pragma once
/* The system calls of hobd: the half of its sandbox that libcommon/sandbox.h does not have. */

/* Allow this process, which has one thread, only these calls. 0, or -errno with a message; -EOPNOTSUPP: there are no
 * rules for this architecture. */
int sandbox_calls(void);

/* The same with the calls that the driver of a GPU makes in addition. */
int sandbox_calls_device(void);
