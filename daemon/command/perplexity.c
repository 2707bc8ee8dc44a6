/* SPDX-License-Identifier: MIT */
#include "daemon/command/command.h"

int command_perplexity(int argc, char **argv)
{
    return 1;
}
