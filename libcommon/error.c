/* SPDX-License-Identifier: MIT */
#include "libcommon/error.h"
