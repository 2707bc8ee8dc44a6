/* SPDX-License-Identifier: MIT */
#include "libcommon/buf.h"
