/* SPDX-License-Identifier: MIT */
/* hobd.conf: a file that is read gives settings, another one a message with its line. */
#include "daemon/serve-config.h"
#include "libcommon/error.h"
#include "tests/fuzz/fuzz.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const fuzz_seeds[] = {
    "# comment\nthreads = 4\nkv-size = 512M\ncontext = \"4096\"\n",
    "adapter = \"\"\"\na=b\r\nc=d\n\"\"\"\nadapter = x=/y.gguf\n",
    "idle-exit = 15min\nstop-timeout=3s\nlog-level = debug\nconfine = no\n",
    "gateways = root,65534\ndraft = none\nmmproj = none\nsandbox = yes\n",
    "kv-type = f16\nparallel = 8\nbatch = 256\nqueue = 4\nqueue-timeout = 30\ncache-size = 0\ndisk-reserve = 1G\n",
    "temperature = 0.7\ntop-k = 40\ntop-p = .9\nmin-p = 0\nrepeat-penalty = 1.1\n",
    NULL,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_path path;
    struct options o, other;
    struct buf taken = BUF_INIT, pending = BUF_INIT;
    int fd = fuzz_file(data, size, &path);
    FUZZ_CHECK(options_init(&o) == 0 && options_init(&other) == 0);
    int r = options_read_file(&o, path.s);
    if (r < 0) {
        fuzz_refused(r);
        FUZZ_CHECK(strstr(error_text(r), path.s));
    } else {
        FUZZ_CHECK(options_take(&other, &o, &taken, &pending) == 0);
        buf_clear(&taken);
        FUZZ_CHECK(options_take(&other, &o, &taken, &pending) == 0 && taken.len == 0);
    }
    buf_fini(&taken);
    buf_fini(&pending);
    options_fini(&other);
    options_fini(&o);
    close(fd);
    return 0;
}
