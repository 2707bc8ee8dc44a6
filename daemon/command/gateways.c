/* SPDX-License-Identifier: MIT */
#include "daemon/command/gateways.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

/* 0; 1: no such user. */
static int find(const char *name, uid_t *uid)
{
    uint64_t number;
    const struct passwd *p = getpwnam(name);
    if (p)
        *uid = p->pw_uid;
    else if (parse_u64(name, 0, UINT32_MAX - 1, &number) == 0)
        *uid = (uid_t)number;
    else
        return 1;
    return 0;
}

static int add(uid_t **uids, size_t *n, uid_t uid)
{
    uid_t *more = reallocarray(*uids, *n + 1, sizeof(*more));
    if (!more) return error_origin(-ENOMEM);
    more[(*n)++] = uid;
    *uids = more;
    return 0;
}

int gateways_find(const struct options *o, uid_t **uids, size_t *n)
{
    static const char separators[] = " ,\t";
    const char *at = o->gateways ? o->gateways : o->system ? GATEWAY_USER : "";
    int r = 0;
    *uids = NULL;
    *n = 0;
    if (strcmp(at, "none") == 0) return 0;
    while (r == 0 && *(at += strspn(at, separators))) {
        char name[64];
        uid_t uid;
        size_t len = strcspn(at, separators);
        snprintf(name, sizeof(name), "%.*s", (int)(len < sizeof(name) ? len : sizeof(name) - 1), at);
        at += len;
        if (find(name, &uid) == 0)
            r = add(uids, n, uid);
        else if (o->gateways)
            r = error_say(-EINVAL, "gateways: no user '%s'", name);
    }
    return r;
}
