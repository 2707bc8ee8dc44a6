/* SPDX-License-Identifier: MIT */
/*
 * A driver starts a thread, which would be outside of the sandbox if the driver started before it. In the sandbox it
 * cannot start a program that loads the kernel's modules and makes device files, as NVIDIA's does where they are
 * missing. So a process that ends at once starts it first, and the engine's thread once more in the sandbox. Its
 * library is loaded before, because it may be anywhere.
 */
#include "daemon/command/serve-device.h"
#include "daemon/model/backend.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct answer {
    int r;
    char why[508];
};

static void probe(const struct device_choice *d, int to)
{
    struct answer a = {.r = backend_probe(d, true)};
    if (a.r) snprintf(a.why, sizeof(a.why), "%s", error_text(a.r));
    _exit(write(to, &a, sizeof(a)) == sizeof(a) ? EXIT_SUCCESS : EXIT_FAILURE); /* less than PIPE_BUF */
}

static int ask(const struct device_choice *d, struct answer *a)
{
    int ends[2], status = 0;
    if (pipe2(ends, O_CLOEXEC) < 0) return error_say(-errno, "pipe: %s", strerror(errno));
    const pid_t pid = fork();
    if (pid == 0) probe(d, ends[1]);
    close(ends[1]);
    const ssize_t n = pid < 0 ? 0 : read(ends[0], a, sizeof(*a));
    close(ends[0]);
    if (pid < 0) return error_say(-errno, "fork: %s", strerror(errno));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (n == (ssize_t)sizeof(*a)) return 0;
    return error_say(-ENODEV, "the device's driver ends its process: %s",
                     WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "no signal");
}

/* What the driver compiles for a GPU without code of its own is kept where the sandbox lets it write. */
static void set_cache(const char *dir)
{
    _cleanup_(freep) char *path = NULL;
    if (dir && asprintf(&path, "%s/cuda", dir) >= 0) setenv("CUDA_CACHE_PATH", path, 0);
}

int serve_device(struct options *o)
{
    struct answer a = {0};
    o->engine.device = o->device;
    if (o->device.kind == DEVICE_CPU) return 0;
    set_cache(o->engine.packed.dir);
    int r = ask(&o->device, &a);
    if (r == 0 && a.r) r = error_say(a.r, "%s", a.why);
    if (r == 0) r = backend_probe(&o->device, false);
    if (r == 0 || o->device.kind != DEVICE_AUTO) return r;
    log_info("the CPU computes: %s", error_text(r));
    error_forget();
    o->engine.device.kind = DEVICE_CPU;
    return 0;
}
