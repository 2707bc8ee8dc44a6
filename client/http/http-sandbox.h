/* SPDX-License-Identifier: MIT */
#pragma once
/* The sandbox of hob-http: it reads the keys and the names of models, connects to Unix sockets, and accepts connections
 * of the sockets that it has. It cannot write files, open network connections or start programs. */

/* Enter it (libcommon/sandbox.h); the process has one thread and has opened its sockets. @keys: the path of the keys
 * file, NULL: none. */
void http_sandbox_enter(const char *keys);

/* Its half that restricts system calls. 0 or -errno with a message. */
int http_sandbox_calls(void);
