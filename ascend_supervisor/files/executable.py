"""What the kernel can execute, told by a file's first bytes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

OURSELVES = Path("/proc/self/exe")
OTHER_FORMATS = Path("/proc/sys/fs/binfmt_misc")
_HEAD = 20
_LINE = 256  # BINPRM_BUF_SIZE of Linux 5.1 and later
_MACHINE = (4, 5, 18, 19)
"""Where elf(5) has the class, the byte order and the machine."""


def is_foreign(path: Path) -> bool:
    """Whether the kernel would certainly refuse it (ENOEXEC); False if it cannot be read."""
    with suppress(OSError):
        if set(os.listdir(OTHER_FORMATS)) - {"register", "status"}:  # noqa: PTH208
            return False
    try:
        head, ours = _head(path), _head(OURSELVES)
    except OSError:
        return False
    if head.startswith(b"\x7fELF") and len(head) == _HEAD:
        return any(head[at] != ours[at] for at in _MACHINE)
    return not head.startswith(b"#!")


def missing_interpreter(path: Path) -> str | None:
    """The interpreter that a script names in its first line, if it is missing."""
    with suppress(OSError), path.open("rb") as file:
        words = file.read(_LINE).partition(b"\n")[0].removeprefix(b"#!").split()
        named = os.fsdecode(words[0]) if words else ""
        if _head(path).startswith(b"#!") and named.startswith("/") and not Path(named).exists():
            return named
    return None


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)
