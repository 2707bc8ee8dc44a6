/* SPDX-License-Identifier: MIT */
#include "daemon/cache/kv_table.h"
