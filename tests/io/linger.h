/* SPDX-License-Identifier: MIT */
#pragma once

/* A TCP socket whose close(2) waits for an hour, or until the other end *out is closed, which the caller owns. */
int linger_make(int *out);
/* Send @fd with one byte on the Unix socket @to, and close it here without waiting. */
void linger_send(int to, int fd);
