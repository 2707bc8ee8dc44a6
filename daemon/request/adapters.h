/* SPDX-License-Identifier: MIT */
#pragma once
/* The adapters of a model, by name, and the one of a request. They are read when the model is, and stay until the
 * daemon ends. */
#include "daemon/model/adapter.h"
#include "daemon/model/backend.h"
#include "daemon/request/config.h"

struct request;
struct seq;

struct named_adapter {
    const char *name; /* borrowed from the configuration */
    struct adapter *file;
    uint32_t number; /* the backend's */
    uint64_t bytes;  /* memory that it takes there */
};

struct adapters {
    struct named_adapter *list; /* [n] */
    size_t n;
};

/* Open the adapters of @c for the model @base. One that cannot be used and is not required is left out, with a warning.
 * 0, or -errno and the error message; adapters_close in either case. */
int adapters_open(struct adapters *a, const struct adapter_config *c, const struct gguf *base);
/* Memory that they will take, about. */
uint64_t adapters_bytes(const struct adapters *a);
/* Load them into @b. As adapters_open. */
int adapters_load(struct adapters *a, const struct adapter_config *c, struct backend *b);
/* Behind the end of the backend. */
void adapters_close(struct adapters *a);

/* Give @s, whose prompt is ready, the adapter that its request names, or else that of its session. 0; -ENOENT: there is
 * no such adapter; -EINVAL: the scale is no number; -ENOMEM; with the error message. */
int adapters_choose(struct request *r, struct seq *s);

/* After a turn of @r: its session keeps the adapter for the next one. 0 or -ENOMEM. */
int adapters_keep(const struct request *r);
