/* SPDX-License-Identifier: MIT */
#pragma once
/* The choice of what computes: the CPU, or a device with a backend of its own. */
#include <stdint.h>

enum device_kind {
    DEVICE_CPU,
    DEVICE_AUTO, /* the first device whose backend exists and has the model; else the CPU */
    DEVICE_CUDA,
};

struct device_choice {
    enum device_kind kind;
    uint32_t number; /* of the device among those of its kind */
};

/* "cpu", "auto", "cuda" (the first one) or "cuda:N". 0, or -EINVAL and the error message. */
int device_parse(struct device_choice *out, const char *s);
