/* SPDX-License-Identifier: MIT */
#include "libcommon/sandbox.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* linux/landlock.h of Debian 12 lacks some of these. The numbers of system calls are the same on all architectures. */
enum { LL_CREATE = 444, LL_ADD = 445, LL_RESTRICT = 446, LL_VERSION = 1, LL_PATH_BENEATH = 1 };
#define LL_EXECUTE     (1u << 0)
#define LL_WRITE_FILE  (1u << 1)
#define LL_READ_FILE   (1u << 2)
#define LL_READ_DIR    (1u << 3)
#define LL_REMOVE_DIR  (1u << 4)
#define LL_REMOVE_FILE (1u << 5)
#define LL_MAKE_DIR    (1u << 7)
#define LL_MAKE_REG    (1u << 8)
#define LL_TRUNCATE    (1u << 14)
#define LL_IOCTL       (1u << 15) /* of devices */
#define LL_OF_FILES    (LL_EXECUTE | LL_WRITE_FILE | LL_READ_FILE | LL_TRUNCATE | LL_IOCTL)
#define LL_TCP         3u /* bind, connect */
#define LL_SCOPES      3u /* connect to abstract sockets, send signals outside the sandbox */

struct ruleset { /* struct landlock_ruleset_attr */
    uint64_t files, net, scoped;
};

struct __attribute__((packed)) rule { /* struct landlock_path_beneath_attr */
    uint64_t allowed;
    int32_t parent;
};

static const struct sandbox_path system_paths[] = {
    /* libraries, time zones, information about the machine */
    {"/usr", SANDBOX_READ},           {"/lib", SANDBOX_READ},
    {"/lib64", SANDBOX_READ},         {"/etc/ld.so.cache", SANDBOX_READ},
    {"/proc", SANDBOX_READ},          {"/sys", SANDBOX_READ},
    {"/etc/localtime", SANDBOX_READ}, {"/dev/null", SANDBOX_WRITE},
    {"/dev/urandom", SANDBOX_READ}};

/* Every right that version @abi can restrict. Moving files between directories (REFER) is always forbidden. */
static struct ruleset everything(long abi)
{
    struct ruleset s = {.files = (1u << 13) - 1};
    if (abi >= 2) s.files |= 1u << 13;
    if (abi >= 3) s.files |= LL_TRUNCATE;
    if (abi >= 4) s.net = LL_TCP;
    if (abi >= 5) s.files |= LL_IOCTL;
    if (abi >= 6) s.scoped = LL_SCOPES;
    return s;
}

static size_t size_of(long abi)
{
    return abi >= 6   ? sizeof(struct ruleset)
           : abi >= 4 ? offsetof(struct ruleset, scoped)
                      : offsetof(struct ruleset, net);
}

static uint64_t rights(enum sandbox_how how)
{
    switch (how) {
    case SANDBOX_READ:
        return LL_READ_FILE | LL_READ_DIR;
    case SANDBOX_WRITE:
        return LL_READ_FILE | LL_READ_DIR | LL_WRITE_FILE | LL_TRUNCATE | LL_MAKE_REG | LL_MAKE_DIR | LL_REMOVE_FILE |
               LL_REMOVE_DIR;
    case SANDBOX_LIST:
        return LL_READ_DIR;
    case SANDBOX_REMOVE:
        return LL_REMOVE_FILE;
    case SANDBOX_DEVICE:
        return LL_READ_FILE | LL_WRITE_FILE | LL_TRUNCATE | LL_IOCTL;
    }
    return 0;
}

static int allow(int set, const struct sandbox_path *p, uint64_t known)
{
    struct rule rule = {.allowed = rights(p->how) & known};
    struct stat st;
    _cleanup_(closep) int fd = p->path ? open(p->path, O_PATH | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &st) < 0) return 0;
    if (!S_ISDIR(st.st_mode)) rule.allowed &= LL_OF_FILES;
    if (!rule.allowed) return 0;
    rule.parent = fd;
    if (syscall(LL_ADD, set, LL_PATH_BENEATH, &rule, 0) == 0) return 0;
    return error_say(-errno, "landlock: %s: %s", p->path, strerror(errno));
}

int sandbox_files(const struct sandbox *c)
{
    return sandbox_files_abi(c, LONG_MAX);
}

int sandbox_files_abi(const struct sandbox *c, long newest)
{
    long abi = syscall(LL_CREATE, NULL, 0, LL_VERSION);
    int r = 0;
    if (abi < 0) return error_say(-errno, "landlock: %s", strerror(errno));
    if (abi > newest) abi = newest;
    struct ruleset all = everything(abi);
    _cleanup_(closep) int set = (int)syscall(LL_CREATE, &all, size_of(abi), 0);
    if (set < 0) return error_say(-errno, "landlock: %s", strerror(errno));
    for (size_t i = 0; r == 0 && i < sizeof system_paths / sizeof *system_paths; i++)
        r = allow(set, &system_paths[i], all.files);
    for (size_t i = 0; r == 0 && i < c->n_paths; i++) r = allow(set, &c->paths[i], all.files);
    if (r < 0) return r;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(LL_RESTRICT, set, 0) < 0)
        return error_say(-errno, "landlock: %s", strerror(errno));
    return 0;
}

bool sandbox_is_left_out(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
    return true;
#endif
#endif
    return false;
}

static void tell(int r, const char *what)
{
    if (r == -ENOSYS || r == -EOPNOTSUPP)
        log_debug("sandbox: %s are not limited: this kernel does not support it (%s)", what, error_text(r));
    else if (r < 0)
        log_warning("sandbox: %s are not limited: %s", what, error_text(r));
    else
        log_debug("sandbox: %s are limited", what);
}

void sandbox_enter(const struct sandbox *c)
{
    if (sandbox_is_left_out()) {
        log_debug("sandbox: none in a build with sanitizers");
        return;
    }
    tell(sandbox_files(c), "files");
    tell(c->calls(), "system calls");
}
