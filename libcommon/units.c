/* SPDX-License-Identifier: MIT */
#include "libcommon/units.h"
