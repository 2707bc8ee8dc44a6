/* SPDX-License-Identifier: MIT */
#include "daemon/model/reference.h"
