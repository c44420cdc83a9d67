"""Where this server runs: a word that outlives the supervisor, but not its machine or container.

A supervisor that is started again at the same place, where nothing of the earlier one is left, may
take its index at once. Host names, addresses and /etc/machine-id do not tell this: images share
them, or another pod gets them.
"""

from __future__ import annotations

import re
import secrets
from contextlib import suppress
from pathlib import Path

from ascend_supervisor.files.atomic import write_atomically
from ascend_supervisor.files.regular_file import read_regular_file

SUFFIX = ".place"
MODE = 0o600
MOST_BYTES = 1024
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_WORD = re.compile(rb"[0-9a-f]{16}")


def place_beside(state_file: Path, boot_id: Path = BOOT_ID) -> str:
    """The same word at each call, if it can be kept beside the state file; it may block.

    It holds the machine's boot id: a directory that several machines share is not one place.
    """
    path = state_file.with_name(state_file.name + SUFFIX)
    word = _kept(path)
    if word is None:
        word = secrets.token_hex(8)
        with suppress(OSError):  # a full disk: then the next start is at another place
            write_atomically(path, word.encode(), MODE)
    boot = ""
    with suppress(OSError):
        boot = boot_id.read_text().strip()
    return f"{word}@{boot}"


def machine_of(place: str) -> str:
    """The same for all places on a machine that has not been started anew; containers share it."""
    return place.rpartition("@")[2]


def _kept(path: Path) -> str | None:
    with suppress(OSError):
        found = read_regular_file(path, MOST_BYTES)
        if _WORD.fullmatch(found):
            return found.decode()
    return None
