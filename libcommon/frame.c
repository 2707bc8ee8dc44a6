/* SPDX-License-Identifier: MIT */
#include "libcommon/frame.h"
