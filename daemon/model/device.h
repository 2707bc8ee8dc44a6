/* SPDX-License-Identifier: MIT */
#pragma once
/* The choice of what computes: the CPU, or devices with a backend of their own. */
#include <stdint.h>

#define DEVICES_MAX 4 /* that share the layers of a model */

enum device_kind {
    DEVICE_CPU,
    DEVICE_AUTO, /* as DEVICE_CUDA if its backend exists and has the model; else the CPU */
    DEVICE_CUDA,
};

struct device_choice {
    enum device_kind kind;
    uint32_t n; /* devices that are named; 0: the first one, and those behind it if the model does not fit there */
    uint32_t number[DEVICES_MAX]; /* [n] of each among those of its kind, in the order of the layers */
};

/* "cpu", "auto", "cuda", "cuda:N", or "cuda:N,N" with up to DEVICES_MAX different numbers. 0, or -EINVAL and the error
 * message. */
int device_parse(struct device_choice *out, const char *s);
