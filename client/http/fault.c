/* SPDX-License-Identifier: MIT */
#include "client/http/fault.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int code, status;
    const char *name;
} statuses[] = {
    {EBUSY, 429, "busy"},
    {EINVAL, 400, NULL},
    {EILSEQ, 400, NULL},
    {EDOM, 400, "constraint_not_supported"},
    {E2BIG, 400, "context_length_exceeded"},
    {EMSGSIZE, 413, NULL},
    {EFBIG, 413, NULL},
    {ENOENT, 404, "session_not_found"},
    {EEXIST, 409, NULL},
    {EPERM, 403, NULL},
    {ETIMEDOUT, 408, "timeout"},
    {ECANCELED, 499, "canceled"},
    {ESHUTDOWN, 503, "stopping"},
    {ENOMEM, 503, NULL},
    {EDQUOT, 429, "quota"},
    {ENOSPC, 503, NULL},
    {EOPNOTSUPP, 422, "not_supported"},
};

/* A message may quote what a client sent. */
static void clean(char *s)
{
    size_t n = strlen(s), at;
    s[utf8_whole(s, n)] = 0;
    n = strlen(s);
    while ((at = utf8_check(s, n)) < n) s[at] = '?';
}

int fault_set(struct fault *f, int status, const char *param, const char *fmt, ...)
{
    va_list ap;
    *f = (struct fault){.status = status};
    if (param) {
        snprintf(f->param, sizeof(f->param), "%s", param);
        clean(f->param);
    }
    va_start(ap, fmt);
    vsnprintf(f->message, sizeof(f->message), fmt, ap);
    va_end(ap);
    clean(f->message);
    return -EINVAL;
}

int fault_of_event(struct fault *f, int code, const char *message)
{
    int status = 500;
    const char *name = NULL;
    for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++) {
        if (statuses[i].code != code) continue;
        status = statuses[i].status;
        name = statuses[i].name;
    }
    fault_set(f, status, NULL, "%s", message && *message ? message : strerror(code));
    f->code = name;
    return -EINVAL;
}

int fault_of_error(struct fault *f, int r)
{
    return fault_set(f, r == -EMSGSIZE ? 413 : r == -ENOMEM ? 503 : 500, NULL, "%s", error_text(r));
}

bool fault_is_temporary(const struct fault *f)
{
    return f->status == 429 || f->status == 503;
}
