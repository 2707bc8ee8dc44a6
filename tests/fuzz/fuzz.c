/* SPDX-License-Identifier: MIT */
#include "tests/fuzz/fuzz.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void fuzz_fail(const char *what, const char *why)
{
    fprintf(stderr, "check failed: %s %s\n", what, why);
    abort();
}

void fuzz_refused(int r)
{
    if (r != -EINVAL && r != -EBADMSG && r != -ENOTSUP && r != -EDOM && r != -E2BIG && r != -ELOOP && r != -ETIME)
        fuzz_fail("an unknown error", strerror(-r));
    if (strlen(error_text(r)) < 5) fuzz_fail("no message", error_text(r));
}

unsigned fuzz_byte(struct fuzz_input *in)
{
    if (!in->n) return 0;
    in->n--;
    return *in->data++;
}

unsigned fuzz_short(struct fuzz_input *in)
{
    unsigned low = fuzz_byte(in);
    return low | fuzz_byte(in) << 8;
}

const char *fuzz_bytes(struct fuzz_input *in, size_t *n)
{
    const char *at = (const char *)in->data;
    if (*n > in->n) *n = in->n;
    if (*n) in->data += *n; /* data may be NULL */
    in->n -= *n;
    return at;
}

static void write_all(int fd, const char *s, size_t n)
{
    while (n > 0) {
        ssize_t k = write(fd, s, n);
        FUZZ_CHECK(k > 0);
        s += k;
        n -= (size_t)k;
    }
}

int fuzz_file(const void *bytes, size_t n, struct fuzz_path *path)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0);
    write_all(fd, bytes, n);
    snprintf(path->s, sizeof(path->s), "/proc/self/fd/%d", fd);
    return fd;
}

void fuzz_write(const char *path, const void *bytes, size_t n)
{
    _cleanup_(closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) fuzz_fail(path, strerror(errno));
    write_all(fd, bytes, n);
}

static char folders[4][64];
static pid_t owner;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    return remove(path);
}

static void remove_folders(void)
{
    for (size_t i = 0; i < 4 && getpid() == owner; i++)
        if (folders[i][0]) nftw(folders[i], remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

char *fuzz_folder(char out[64])
{
    size_t i = 0;
    while (i < 4 && folders[i][0]) i++;
    FUZZ_CHECK(i < 4);
    snprintf(out, 64, "%s/hob-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    FUZZ_CHECK(mkdtemp(out));
    memcpy(folders[i], out, 64);
    if (!owner) atexit(remove_folders);
    owner = getpid();
    return out;
}

void fuzz_quiet(void)
{
    log_init("fuzz", (enum log_level) - 1);
}
