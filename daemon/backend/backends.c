/* SPDX-License-Identifier: MIT */
/* The table alone, so that a test which defines its own links without this file. */
#include "daemon/backend/backends.h"

const struct backend_type *const backend_types[] = {&backend_cpu, &backend_cuda_plugin, NULL};
