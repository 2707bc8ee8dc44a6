/* SPDX-License-Identifier: MIT */
#include "daemon/command/command.h"
#include "libcommon/error.h"
#include "libcommon/plain.h"
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int command_failed(char **argv, int r)
{
    char before[64];
    snprintf(before, sizeof(before), "hobd %.50s: ", argv[0]);
    plain_print(stderr, before, error_text(r));
    return 1;
}

int command_misused(char **argv, int r)
{
    return command_failed(argv, r) + 1;
}

int command_refuse(char **argv, int c)
{
    const char *arg = argv[optind - 1];
    bool valued = !strncmp(arg, "--", 2) && strchr(arg, '=');
    if (c == ':') return error_say(-EINVAL, "option '%s' needs a value", arg);
    if (optopt && valued) return error_say(-EINVAL, "option '%s' takes no value", arg);
    char letter[] = {'-', (char)optopt, 0};
    return error_say(-EINVAL, "unknown option '%s'; hobd %s --help lists them", optopt ? letter : arg, argv[0]);
}
