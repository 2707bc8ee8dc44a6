/* SPDX-License-Identifier: MIT */
#pragma once
/* Memory of decoded files that wait to be encoded. A uid may hold at most as much as it leaves free for the others.
 * Any thread. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct pixel_budget;

int pixel_budget_new(struct pixel_budget **out, uint64_t bytes_max); /* 0 or -ENOMEM */
struct pixel_budget *pixel_budget_free(struct pixel_budget *b);      /* nothing is taken. NULL ok, returns NULL */

/* Take @bytes for @uid. False: there is no room. */
bool pixel_budget_take(struct pixel_budget *b, uid_t uid, uint64_t bytes);
void pixel_budget_give(struct pixel_budget *b, uid_t uid, uint64_t bytes);
uint64_t pixel_budget_bytes(struct pixel_budget *b); /* taken by all */
