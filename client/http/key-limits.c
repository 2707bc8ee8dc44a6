/* SPDX-License-Identifier: MIT */
#include "client/http/key-limits.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include <string.h>

#define MINUTE 60e6

int key_limits_read(struct key_limits *l, const char *word)
{
    const struct {
        const char *name;
        uint32_t *limit;
    } known[] = {{"running=", &l->running}, {"requests=", &l->requests}, {"tokens=", &l->tokens}};
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        uint64_t v;
        size_t n = strlen(known[i].name);
        if (strncmp(word, known[i].name, n) != 0) continue;
        int r = parse_u64(word + n, 1, 1000000000, &v);
        if (r < 0) return error_in(r, "%.*s", (int)(n - 1), known[i].name);
        *known[i].limit = (uint32_t)v;
        return 0;
    }
    return 1;
}

static void pay(double *debt, double passed)
{
    *debt = *debt > passed ? *debt - passed : 0;
}

static void advance(struct key_use *u, uint64_t now)
{
    double passed = now > u->at_usec ? (double)(now - u->at_usec) : 0;
    pay(&u->requests_usec, passed);
    pay(&u->tokens_usec, passed);
    u->at_usec = now;
}

static int refuse(struct fault *f, double wait_usec, const char *of, uint32_t limit)
{
    fault_set(f, 429, NULL, "the limit of this key is %lu %s; try again", (unsigned long)limit, of);
    f->code = "rate_limit_exceeded";
    f->retry_s = (unsigned)(wait_usec / 1e6) + 1;
    return -EINVAL;
}

int key_limits_begin(const struct key_limits *l, struct key_use *u, uint64_t now, struct fault *f)
{
    double each = l->requests ? MINUTE / l->requests : 0;
    advance(u, now);
    if (l->running && u->running >= l->running) return refuse(f, 0, "requests at the same time", l->running);
    if (l->requests && u->requests_usec + each > MINUTE)
        return refuse(f, u->requests_usec + each - MINUTE, "requests a minute", l->requests);
    if (l->tokens && u->tokens_usec >= MINUTE) return refuse(f, u->tokens_usec - MINUTE, "tokens a minute", l->tokens);
    u->running++;
    u->requests_usec += each;
    return 0;
}

void key_limits_end(struct key_use *u)
{
    u->running--;
}

void key_limits_tokens(const struct key_limits *l, struct key_use *u, uint64_t n, uint64_t now)
{
    if (!l->tokens) return;
    advance(u, now);
    u->tokens_usec += (double)n * MINUTE / l->tokens;
}
