/* SPDX-License-Identifier: MIT */
/* Removes useless files from the directory of the packed weights. Files that are mapped somewhere may be removed: the
 * mapping stays valid until it is unmapped. */
#include "daemon/backend/cpu/packed.h"
#include "daemon/model/partfile.h"
#include "kernels/kernels.h"
#include "libcommon/cleanup.h"
#include <dirent.h>
#include <stdbool.h>
#include <string.h>

static void closedirp(DIR **d)
{
    if (*d) closedir(*d);
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), e = strlen(end);
    return n > e && strcmp(name + n - e, end) == 0;
}

struct living {
    struct fingerprint *models; /* [n] */
    size_t n;
};

static bool is_living(const struct living *l, const char *name)
{
    char hex[FINGERPRINT_HEX];
    for (size_t i = 0; i < l->n; i++) {
        fingerprint_hex(hex, &l->models[i]);
        if (strncmp(name, hex, strlen(hex)) == 0 && name[strlen(hex)] == '-') return true;
    }
    return false;
}

/* Remove leftovers and void records. Returns false if the list of living models is incomplete. */
static bool sweep_records(DIR *d, const char *dir, struct living *l)
{
    for (struct dirent *e; (e = readdir(d));) {
        struct fingerprint f;
        if (ends_in(e->d_name, PARTFILE_SUFFIX)) partfile_sweep(dirfd(d), e->d_name);
        if (!ends_in(e->d_name, FINGERPRINT_EXT)) continue;
        if (fingerprint_living(&f, dir, e->d_name)) {
            unlinkat(dirfd(d), e->d_name, 0);
            continue;
        }
        struct fingerprint *more = reallocarray(l->models, l->n + 1, sizeof(*more));
        if (!more) return false;
        l->models = more;
        l->models[l->n++] = f;
    }
    return true;
}

/* The file has an older layout. Files of a newer hobd are left alone. */
static bool outdated(const char *name)
{
    int layout;
    return sscanf(name, "%*32[0-9a-f]-%d", &layout) == 1 && layout < KERN_LAYOUT;
}

void packed_sweep(const char *dir)
{
    _cleanup_(closedirp) DIR *d = opendir(dir);
    struct living l = {0};
    if (d && sweep_records(d, dir, &l)) {
        rewinddir(d);
        for (struct dirent *e; (e = readdir(d));)
            if (ends_in(e->d_name, PACKED_EXT) && (outdated(e->d_name) || !is_living(&l, e->d_name)))
                unlinkat(dirfd(d), e->d_name, 0);
    }
    free(l.models);
}
