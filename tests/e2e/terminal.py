# SPDX-License-Identifier: MIT
"""A terminal of a test's own, read to the last byte that a program writes there."""
import os
import pty
import subprocess
import threading

END = b"\x00the program has ended"


def until_end(p, main, side):
    """What process @p writes to the terminal from now until it has ended; both sides stay open.

    Linux can answer a read of the main side with EIO while text is on its way, if the last process closes the other
    side at that moment. So this process keeps @side open, and a mark shows where the text ends.
    """
    mark = threading.Thread(target=lambda: (p.wait(), os.write(side, END)))
    mark.start()
    out = b""
    while not out.endswith(END):
        out += os.read(main, 65536)
    mark.join()
    return out[:-len(END)]


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
    out = until_end(p, main, side)
    os.close(main)
    os.close(side)
    return out, p.returncode
