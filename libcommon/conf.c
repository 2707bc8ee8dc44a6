/* SPDX-License-Identifier: MIT */
#include "libcommon/conf.h"
