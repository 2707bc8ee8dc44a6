/* SPDX-License-Identifier: MIT */
#pragma once
/* The limits of the log's size and age. */
#include "client/log/log-store.h"

/* Remove the conversations whose last exchange is older than @age_ms (0: no limit); then, if the texts of the log take
 * more than @size bytes (0: no limit), the conversations that ended first, until they take nine tenths of it. The
 * conversation of the newest exchange stays. Errors as store_open. */
int limits_keep(struct store *s, int64_t size, int64_t age_ms);
