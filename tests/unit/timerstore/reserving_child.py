"""Processes that reserve a segment and are killed within: started by ``test_reservation.py``.

Arguments: a directory, the size of a segment, and when they die: ``steps N…`` after so many blocks
of a file system without ``fallocate``, which is staged here as glibc does it; ``seconds S…`` after
so long, on a file system as it is; ``never 0`` where the system call is refused.
"""

import errno
import os
import signal
import sys

from timermq.timerstore.mapped_file_queue import MappedFileQueue
from timermq.timerstore.os_disk import OsDisk

BLOCK_SIZE = 4096


def write_block_after_block(steps: int) -> None:
    """Stand in for ``posix_fallocate`` by what glibc does where the system call is not supported.

    Source: glibc ``sysdeps/posix/posix_fallocate64.c``.
    """
    left = steps

    def fallocate(descriptor: int, offset: int, size: int) -> None:
        nonlocal left
        for at in range(offset + (size - 1) % BLOCK_SIZE, offset + size, BLOCK_SIZE):
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            if at < os.fstat(descriptor).st_size and os.pread(descriptor, 1, at) != b"\0":
                continue
            os.pwrite(descriptor, b"\0", at)

    os.posix_fallocate = fallocate


def refuse() -> None:
    """Stand in for a ``posix_fallocate`` that does not even write, as that of musl."""

    def fallocate(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    os.posix_fallocate = fallocate


def reserve(directory: str, size: int, how: str, when: float) -> None:
    """Write one byte, which takes the blocks of the segment."""
    queue = MappedFileQueue(OsDisk(), directory, size, reserve=True)
    queue.load()
    queue.set_end(0)
    if how == "steps":
        write_block_after_block(int(when))
    elif how == "seconds":
        signal.setitimer(signal.ITIMER_REAL, when)
    else:
        refuse()
    queue.write(0, b"x")
    os._exit(0)


def main() -> None:
    """One process for each moment, in a directory of its number; says how each ended."""
    root, size, how, *moments = sys.argv[1:]
    for number, when in enumerate(moments):
        child = os.fork()
        if not child:
            reserve(f"{root}/{number}", int(size), how, float(when))
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")


if __name__ == "__main__":
    main()
