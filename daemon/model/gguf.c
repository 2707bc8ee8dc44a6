/* SPDX-License-Identifier: MIT */
#include "daemon/model/gguf.h"
