/* SPDX-License-Identifier: MIT */
#include "tests/support/folder.h"
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int folder_make(char path[FOLDER_PATH], const char *what)
{
    int n = snprintf(path, FOLDER_PATH, "/tmp/hob-%s-XXXXXX", what);

    return n < FOLDER_PATH && mkdtemp(path) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return remove(path);
}

int folder_remove(const char *path)
{
    return nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *folder_at(const char *path, const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *at = paths[next++ % 8];

    snprintf(at, sizeof paths[0], "%s/%s", path, name + (*name == '/'));
    return at;
}

int folder_put(const char *path, const char *name, const char *text)
{
    char file[512];
    FILE *f;
    int r;

    strcpy(file, folder_at(path, name));
    for (char *slash = file + strlen(path) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(file, 0755) < 0 && errno != EEXIST) return -1;
        *slash = '/';
    }
    f = fopen(file, "w");
    if (!f) return -1;
    r = fputs(text, f) < 0 ? -1 : 0;
    return fclose(f) == 0 ? r : -1;
}
