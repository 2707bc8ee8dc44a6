/* SPDX-License-Identifier: MIT */
#include "daemon/model/shape.h"
