/* SPDX-License-Identifier: MIT */
#include "daemon/command/command.h"

int command_bench(int argc, char **argv)
{
    return 1;
}
