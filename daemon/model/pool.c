/* SPDX-License-Identifier: MIT */
#include "daemon/model/pool.h"
