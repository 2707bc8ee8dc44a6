/* SPDX-License-Identifier: MIT */
/* Linked into all programs by tests/sanitize.sh for the memory sanitizer: functions of the C library that clang 14's
 * does not know, so that what they return would look uninitialized. */
#include <dlfcn.h>
#include <ftw.h>
#include <malloc.h>
#include <sanitizer/msan_interface.h>
#include <sys/stat.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int known(int r, struct stat64 *st)
{
    if (r == 0) __msan_unpoison(st, sizeof(*st));
    return r;
}

int fstat64(int fd, struct stat64 *st)
{
    return known(NEXT(fstat64)(fd, st), st);
}

int stat64(const char *path, struct stat64 *st)
{
    return known(NEXT(stat64)(path, st), st);
}

int lstat64(const char *path, struct stat64 *st)
{
    return known(NEXT(lstat64)(path, st), st);
}

int fstatat64(int dir, const char *path, struct stat64 *st, int flags)
{
    return known(NEXT(fstatat64)(dir, path, st, flags), st);
}

static _Thread_local __nftw64_func_t visit;

__attribute__((no_sanitize("memory"))) static int visit_known(const char *path, const struct stat64 *st, int type,
                                                              struct FTW *place)
{
    __msan_unpoison_string(path);
    __msan_unpoison(st, sizeof(*st));
    __msan_unpoison(place, sizeof(*place));
    return visit(path, st, type, place);
}

int nftw64(const char *path, __nftw64_func_t f, int descriptors, int flags)
{
    visit = f;
    return NEXT(nftw64)(path, visit_known, descriptors, flags);
}

/* The sanitizer's allocator counts nothing. */
struct mallinfo2 mallinfo2(void)
{
    return (struct mallinfo2){0};
}
