/* SPDX-License-Identifier: MIT */
#include "libcommon/log.h"
