"""Addresses of the notify socket, as NOTIFY_SOCKET holds them; pure."""

from __future__ import annotations

from pathlib import PurePath

SUFFIX = ".notify"
LONGEST = 107
"""Bytes of a path that a client can connect to: sun_path has 108, unix(7), the last for a NUL."""
ABSTRACT = "@ascend_supervisor."
NAME_BYTES = 16


def file_beside(state_file: PurePath) -> PurePath | None:
    """The socket's file; None if its path is too long for clients."""
    path = state_file.with_name(state_file.name + SUFFIX)
    return path if len(str(path).encode(errors="surrogateescape")) <= LONGEST else None


def abstract_name(random: bytes) -> str:
    """A name without a file; ``@`` stands for the NUL byte in front."""
    return ABSTRACT + random.hex()


def planned_address(state_file: PurePath) -> str:
    """What NOTIFY_SOCKET will be, unless the file system refuses; nobody can know a random name."""
    path = file_beside(state_file)
    return f"{ABSTRACT}<random>" if path is None else str(path)
