/* SPDX-License-Identifier: MIT */
#include "libcommon/utf8.h"
