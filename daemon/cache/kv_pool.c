/* SPDX-License-Identifier: MIT */
#include "daemon/cache/kv_pool.h"
