/* SPDX-License-Identifier: MIT */
#include "daemon/model/device.h"
#include "libcommon/error.h"
#include <stdbool.h>
#include <string.h>

#define NUMBER_MOST 99

/* A number of one or two digits; *s is moved behind it. */
static bool parse_number(uint32_t *out, const char **s)
{
    const size_t n = strspn(*s, "0123456789");
    if (!n || n > 2) return false;
    *out = 0;
    for (const char *end = *s + n; *s < end; (*s)++) *out = *out * 10 + (uint32_t)(**s - '0');
    return true;
}

static bool has(const struct device_choice *c, uint32_t number)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (c->number[i] == number) return true;
    return false;
}

static int refuse(const char *s)
{
    return error_say(
        -EINVAL, "device '%.64s' is none of auto, cpu, cuda, cuda:N and cuda:N,N,… (up to %d numbers, each up to %d)",
        s, DEVICES_MAX, NUMBER_MOST);
}

/* The numbers @list of the device @s. */
static int parse_list(struct device_choice *out, const char *list, const char *s)
{
    for (bool more = true; more; list += more) {
        uint32_t number;
        if (!parse_number(&number, &list) || (*list && *list != ',')) return refuse(s);
        if (has(out, number)) return error_say(-EINVAL, "device '%.64s' has the number %u twice", s, number);
        if (out->n == DEVICES_MAX) return error_say(-EINVAL, "device '%.64s' has more than %d numbers", s, DEVICES_MAX);
        out->number[out->n++] = number;
        more = *list == ',';
    }
    return 0;
}

int device_parse(struct device_choice *out, const char *s)
{
    *out = (struct device_choice){.kind = DEVICE_CPU};
    if (!strcmp(s, "cpu")) return 0;
    out->kind = DEVICE_AUTO;
    if (!strcmp(s, "auto")) return 0;
    out->kind = DEVICE_CUDA;
    if (!strcmp(s, "cuda")) return 0;
    return strncmp(s, "cuda:", 5) ? refuse(s) : parse_list(out, s + 5, s);
}
