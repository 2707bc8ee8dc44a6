/* SPDX-License-Identifier: MIT */
#include "kernels/table.h"

const struct kernels KERN_PASTE(kernels, X86_SUFFIX) = KERN_TABLE(X86_SUFFIX, X86_TITLE);
