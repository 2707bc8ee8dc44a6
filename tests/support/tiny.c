/* SPDX-License-Identifier: MIT */
#include "tests/support/tiny.h"
