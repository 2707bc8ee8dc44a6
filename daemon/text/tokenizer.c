/* SPDX-License-Identifier: MIT */
#include "daemon/text/tokenizer.h"
