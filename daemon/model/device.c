/* SPDX-License-Identifier: MIT */
#include "daemon/model/device.h"
#include "libcommon/error.h"
#include <string.h>

#define NUMBER_MOST 99

/* A number of one or two digits. */
static int parse_number(uint32_t *out, const char *s)
{
    const size_t n = strspn(s, "0123456789");
    if (!n || n > 2 || s[n]) return -EINVAL;
    for (*out = 0; *s; s++) *out = *out * 10 + (uint32_t)(*s - '0');
    return 0;
}

int device_parse(struct device_choice *out, const char *s)
{
    *out = (struct device_choice){DEVICE_CPU, 0};
    if (!strcmp(s, "cpu")) return 0;
    out->kind = DEVICE_AUTO;
    if (!strcmp(s, "auto")) return 0;
    out->kind = DEVICE_CUDA;
    if (!strcmp(s, "cuda") || (!strncmp(s, "cuda:", 5) && parse_number(&out->number, s + 5) == 0)) return 0;
    return error_say(-EINVAL, "device '%.64s' is none of auto, cpu, cuda and cuda:N (N up to %d)", s, NUMBER_MOST);
}
