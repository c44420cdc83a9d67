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
    """The interpreter that a script names in its first line, if it is missing.

    If the line ends with CR LF, the CR is a part of the last word, as it is for the kernel and for
    env.
    """
    with suppress(OSError), path.open("rb") as file:
        line = file.read(_LINE).partition(b"\n")[0]
        words = os.fsdecode(line.removeprefix(b"#!")).strip(" \t").replace("\t", " ").split(" ")
        if not line.startswith(b"#!"):
            return None
        if words[-1].endswith("\r") and Path(words[0]).name == "env":
            return words[-1]
        if words[0].startswith("/") and not Path(words[0]).exists():
            return words[0]
    return None


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)
