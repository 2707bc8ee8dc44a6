/* SPDX-License-Identifier: MIT */
/* What daemon/backend/plugin.c finds in hobd-cuda.so. */
#include "daemon/backend/plugin.h"
#include "daemon/backend/backends.h"
#include "daemon/backend/cpu/cpu.h"

extern const struct backend_plugin hob_backend_plugin;
__attribute__((visibility("default"))) const struct backend_plugin hob_backend_plugin = {
    .version = HOB_VERSION, .state = sizeof(struct cpu), .type = &backend_cuda};
