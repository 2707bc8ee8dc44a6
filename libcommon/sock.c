/* SPDX-License-Identifier: MIT */
#include "libcommon/sock.h"
