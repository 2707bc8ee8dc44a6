/* SPDX-License-Identifier: MIT */
#include "daemon/text/template.h"
