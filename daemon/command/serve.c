/* SPDX-License-Identifier: MIT */
#include "daemon/command/command.h"

int command_serve(int argc, char **argv)
{
    return 1;
}
