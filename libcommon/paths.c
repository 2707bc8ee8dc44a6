/* SPDX-License-Identifier: MIT */
#include "libcommon/paths.h"
