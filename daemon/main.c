/* SPDX-License-Identifier: MIT */
#include "daemon/command/command.h"

int main(int argc, char **argv)
{
    return command_serve(argc, argv);
}
