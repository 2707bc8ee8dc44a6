/* SPDX-License-Identifier: MIT */
#include "daemon/command/command.h"

int command_template(int argc, char **argv)
{
    return 1;
}
