# SPDX-License-Identifier: MIT
"""A terminal of a test's own, read to the last byte that a program writes there."""
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import threading

END = b"\x00the program has ended"


def fork_on_terminal(rows, columns):
    """As pty.fork(), on a terminal that has its size from the beginning; returns (pid, main side, other side)."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    pid = os.fork()
    if pid == 0:
        os.setsid()
        fcntl.ioctl(side, termios.TIOCSCTTY, 0)
        for fd in range(3):
            os.dup2(side, fd)
    return pid, main, side


def until_end(wait, main, side):
    """What a process writes to the terminal from now until it has ended, for which wait() waits; both sides stay open.

    Linux can answer a read of the main side with EIO while text is on its way, if the last process closes the other
    side at that moment. So this process keeps @side open, and a mark shows where the text ends.
    """
    mark = threading.Thread(target=lambda: (wait(), os.write(side, END)), daemon=True)
    mark.start()
    out = b""
    while not out.endswith(END):
        assert select.select([main], [], [], 120)[0], out
        out += os.read(main, 65536)
    mark.join()
    return out[:-len(END)]


def end_of(pid, main, side):
    """The rest of what the child @pid writes there, and its exit status."""
    ended = []
    out = until_end(lambda: ended.append(os.waitpid(pid, 0)[1]), main, side)
    return out, os.waitstatus_to_exitcode(ended[0])


def on_terminal(argv, input=None, **kw):
    """What a terminal gets from standard output and standard error of @argv, and the exit status.

    Standard input is the terminal too, or the bytes @input.
    """
    main, side = pty.openpty()
    p = subprocess.Popen([os.fspath(a) for a in argv], stdin=side if input is None else subprocess.PIPE, stdout=side,
                         stderr=side, **kw)
    if input is not None:
        p.stdin.write(input)
        p.stdin.close()
    out = until_end(p.wait, main, side)
    os.close(main)
    os.close(side)
    return out, p.returncode
