/* SPDX-License-Identifier: MIT */
/* The backends of these tests: that of hobd-cuda.so is linked. */
#include "daemon/backend/backends.h"

const struct backend_type *const backend_types[] = {&backend_cpu, &backend_cuda, NULL};
