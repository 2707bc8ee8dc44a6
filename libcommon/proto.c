/* SPDX-License-Identifier: MIT */
#include "libcommon/proto.h"
