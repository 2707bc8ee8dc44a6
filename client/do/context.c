/* SPDX-License-Identifier: MIT */
#include "client/do/context.h"
#include "libcommon/cleanup.h"
#include "libcommon/conf.h"
#include "libcommon/error.h"
#include "libcommon/plain.h"
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

const char *do_shell(void)
{
    const char *shell = getenv("SHELL");
    return shell && *shell == '/' && access(shell, X_OK) == 0 ? shell : "/bin/sh";
}

/* os-release(5) */
static int find_name(void *ctx, const char *key, const char *value)
{
    struct do_context *c = ctx;
    if (strcmp(key, "PRETTY_NAME") == 0)
        c->system[plain_into(c->system, sizeof(c->system) - 1, value, strlen(value))] = 0;
    return 0;
}

int do_context_read(struct do_context *c)
{
    struct utsname u;
    *c = (struct do_context){.shell = do_shell()};
    if (conf_read("/etc/os-release", find_name, c) != 0 || !*c->system)
        snprintf(c->system, sizeof(c->system), "%s", uname(&u) == 0 ? u.sysname : "Linux");
    _cleanup_(freep) char *dir = getcwd(NULL, 0);
    int r = plain_line(&c->directory, dir ? dir : "unknown", strlen(dir ? dir : "unknown"));
    return r < 0 ? error_say(r, "no memory for the request") : 0;
}

void do_context_fini(struct do_context *c)
{
    buf_fini(&c->directory);
}
