/* SPDX-License-Identifier: MIT */
#include "daemon/command/command.h"

int command_tokenize(int argc, char **argv)
{
    return 1;
}
