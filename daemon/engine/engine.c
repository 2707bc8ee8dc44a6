/* SPDX-License-Identifier: MIT */
#include "daemon/engine/engine.h"
