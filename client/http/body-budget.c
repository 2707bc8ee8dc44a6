/* SPDX-License-Identifier: MIT */
#include "client/http/body-budget.h"
#include <string.h>

static bool same_user(const struct exchange *a, const struct exchange *b)
{
    const char *x = exchange_user(a), *y = exchange_user(b);
    return x && y ? strcmp(x, y) == 0 : !x && !y;
}

int body_budget_take(struct exchange *x, size_t n)
{
    const uint64_t most = x->gateway->options->max_body * BODY_BUDGET;
    uint64_t all = n, own = n;
    if (n <= BODY_SMALL || n <= x->held) return 0;
    for (const struct exchange *y = x->gateway->exchanges; y; y = y->next) {
        if (y == x || !y->held) continue;
        all += y->held;
        if (same_user(x, y)) own += y->held;
    }
    if (all + own > most)
        return fault_set(&x->fault, 503, NULL,
                         "requests in work have %llu MiB, %llu of them of this user; the limit is %llu MiB for all "
                         "users; try again",
                         (unsigned long long)(all >> 20), (unsigned long long)(own >> 20),
                         (unsigned long long)(most >> 20));
    x->held = n;
    return 0;
}

void body_budget_release(struct exchange *x)
{
    x->held = 0;
}
