/* SPDX-License-Identifier: MIT */
#pragma once
/* A debt is a resource that was used beyond its share, often time. It decreases as time passes. */
#include <stdint.h>

/* The rest of @debt after @elapsed, in the same unit: a @share-th of @elapsed is paid. */
static inline uint64_t decay_debt(uint64_t debt, uint64_t elapsed, unsigned share)
{
    uint64_t paid = elapsed / share;

    return paid < debt ? debt - paid : 0;
}
