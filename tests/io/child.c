/* SPDX-License-Identifier: MIT */
#include "tests/io/child.h"
#include "tests/libcommon/check.h"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int child_failed(int line, const char *text)
{
    fprintf(stderr, "# line %d: %s (errno %d)\n", line, text, errno);
    return 1;
}

int child_run(int (*fn)(void))
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) _exit(fn());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}
