/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A backend in a library of its own, of the same build as the program that loads it: most machines do not need its
 * code. It calls functions of the program, which plugin.list names.
 */
#include "daemon/model/backend.h"

struct backend_plugin {
    const char *version; /* HOB_VERSION, and */
    size_t state;        /* backend_cpu_state: where they differ, the library is of another program */
    const struct backend_type *type;
};

#define BACKEND_PLUGIN "hob_backend_plugin" /* the symbol of it */
