/* SPDX-License-Identifier: MIT */
#include "daemon/command/command.h"

int command_inspect(int argc, char **argv)
{
    return 1;
}
