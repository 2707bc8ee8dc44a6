/* SPDX-License-Identifier: MIT */
#include "client/models/parts.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/model-parts.h"
#include <dirent.h>
#include <fcntl.h>
#include <string.h>

int parts_place(struct place *out, const struct place *p, uint32_t no, uint32_t count)
{
    char *name;
    *out = (struct place)PLACE_INIT;
    if (asprintf(&name, "%s-%05u-of-%05u", p->name, no, count) < 0) return error_say(-ENOMEM, "no memory for a name");
    return place_open(out, name, p->system, false);
}

static void strip(char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    if (n > k && strcmp(name + n - k, end) == 0) name[n - k] = 0;
}

/* A first part under its own name, which nobody has added, keeps its others. */
static bool has_own_first(const struct place *p, uint32_t count)
{
    char first[256];
    snprintf(first, sizeof(first), "%s-00001-of-%05u.gguf", p->name, count);
    return faccessat(p->dir, first, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_part_of(const struct place *p, const char *file, uint32_t keep)
{
    char name[256];
    size_t stem;
    uint32_t no, count;
    snprintf(name, sizeof(name), "%s", file);
    strip(name, ".from");
    strip(name, ".part");
    strip(name, ".link");
    return model_part_named(name, &stem, &no, &count) && no > 1 && stem == strlen(p->name) &&
           memcmp(name, p->name, stem) == 0 && (count != keep || strcmp(name, file) != 0) && !has_own_first(p, count);
}

size_t parts_remove(const struct place *p, uint32_t keep)
{
    int fd = openat(p->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    size_t n = 0;
    if (!d) closep(&fd);
    for (struct dirent *e; d && (e = readdir(d));)
        if (is_part_of(p, e->d_name, keep)) n += unlinkat(p->dir, e->d_name, 0) == 0;
    if (d) closedir(d);
    return n;
}

bool parts_is_rest(const char *file)
{
    size_t stem;
    uint32_t no, count;
    return model_part_named(file, &stem, &no, &count) && no > 1;
}
