/* SPDX-License-Identifier: MIT */
#pragma once
/* What 'hob do' tells the model about the user's system, and nothing else. */
#include "libcommon/buf.h"

struct do_context {
    char system[128];     /* such as "Debian GNU/Linux 12 (bookworm)" */
    const char *shell;    /* path of the user's shell; belongs to the environment */
    struct buf directory; /* current directory */
};

/* The shell in which the command runs: $SHELL if it is an absolute path of a program, else /bin/sh. */
const char *do_shell(void);

/* 0 or -ENOMEM; sets the error message. Call do_context_fini in any case. */
int do_context_read(struct do_context *c);
void do_context_fini(struct do_context *c);
