/* SPDX-License-Identifier: MIT */
#pragma once
/* Closes a descriptor that a peer chose. Of a FUSE file or a socket that lingers, close(2) may wait as long as the peer
 * likes. */

/* Takes @fd: close it in a thread of its own, or here if there are already several such threads, or none can be made.
 */
void close_apart(int fd);
