/* SPDX-License-Identifier: MIT */
#pragma once
#include "daemon/serve-config.h"

/* Find out whether the device that is configured can be used, and set o->engine.device: the CPU, if it is 'auto' and
 * there is no other; then the sandbox has nothing of a device. 0; -ENODEV, -EINVAL and the error message. Call this
 * after options_resolve and before the sandbox. */
int serve_device(struct options *o);
