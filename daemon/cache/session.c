/* SPDX-License-Identifier: MIT */
#include "daemon/cache/session.h"
