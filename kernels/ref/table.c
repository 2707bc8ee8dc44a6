/* SPDX-License-Identifier: MIT */
#include "kernels/ref/ref.h"

const struct kernels REF(kernels) = KERN_TABLE(REF_SUFFIX, REF_TITLE);
