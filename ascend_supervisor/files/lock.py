"""A file that one process at a time has locked; its content says who. The lock ends with it.

Everything here may block on the disk: it belongs in a thread.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path

from ascend_supervisor.files.directories import make_directories
from ascend_supervisor.files.regular_file import NotRegular, close_quietly, refuse_to_replace

LOCK_MODE = 0o600
"""No other user may open it: whoever can read it can lock it."""
FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def take_lock(path: Path, content: bytes) -> bool:
    """Lock ``path``, make it hold ``content``, and keep it open; false if another process has it.

    The lock is flock(2)'s: it lasts until this process ends, and no child inherits it. Makes the
    directory. Raises OSError if locking is impossible, or if another user planted the file.
    """
    make_directories(path.parent)
    if not path.is_dir():  # which the kernel refuses
        refuse_to_replace(path)  # to open a device may do something
    descriptor = os.open(path, FLAGS, LOCK_MODE)
    try:
        _refuse_planted(descriptor, path)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        close_quietly(descriptor)
        return False
    except OSError:
        close_quietly(descriptor)
        raise
    with suppress(OSError):  # on a full disk: it is the lock that counts
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, content, 0)
    return True


def _refuse_planted(descriptor: int, path: Path) -> None:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise NotRegular(found.st_mode)
    if found.st_nlink > 1:
        raise OSError(errno.EMLINK, "it has another name, too", str(path))
    shared = path.parent.stat().st_mode & stat.S_IWOTH
    if shared and found.st_uid not in {os.geteuid(), 0}:
        raise PermissionError(errno.EPERM, "another user has put it there", str(path))
