/* SPDX-License-Identifier: MIT */
#include "kernels/kernels.h"
