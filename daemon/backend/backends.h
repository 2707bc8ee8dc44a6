/* SPDX-License-Identifier: MIT */
#pragma once
/* The backends that the program is built with. Callers choose one by name (backend_new in daemon/model/backend.h). */
#include "daemon/model/backend.h"

extern const struct backend_type backend_cpu;
extern const struct backend_type backend_cuda;        /* in hobd-cuda.so, with the option -Dcuda */
extern const struct backend_type backend_cuda_plugin; /* what loads it */

/* Bytes of the state of backend_cpu. */
extern const size_t backend_cpu_state;
