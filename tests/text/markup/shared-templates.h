/* SPDX-License-Identifier: MIT */
#pragma once
/* The chat templates of real models in the shared data. */
#include "libcommon/buf.h"
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void read_template(const char *path, struct buf *b)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(buf_reserve(b, 1 << 20), 0);
    b->len = fread(b->data, 1, 1 << 20, f);
    fclose(f);
}

/* Calls @check with each template. Skips the test if there is no shared data. */
static inline void each_shared_template(void (*check)(void *ctx, const char *name, const struct buf *source), void *ctx)
{
    const char *data = getenv("HOB_TEST_DATA");
    char folder[512], path[1024];
    snprintf(folder, sizeof(folder), "%s/templates", data && *data ? data : SOURCE_ROOT "/../shared/data");
    DIR *d = opendir(folder);
    if (!d) {
        print_message("skipped: no %s\n", folder);
        skip();
    }
    for (struct dirent *e; (e = readdir(d));) {
        struct buf source = BUF_INIT;
        if (!strstr(e->d_name, ".jinja")) continue;
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        read_template(path, &source);
        check(ctx, e->d_name, &source);
        buf_fini(&source);
    }
    closedir(d);
}
