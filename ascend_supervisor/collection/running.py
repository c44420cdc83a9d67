"""A supervisor or a rank that runs, as /proc shows it: its words, variables and directory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.processes import proc


class RunningProcess(Struct, frozen=True):
    """What /proc shows of a process; nothing of one that is gone, or of another user.

    ``is_ours``: it is of our own user, so that what it names may be executed.
    """

    words: tuple[str, ...] = ()
    environ: Mapping[str, str] = {}
    cwd: Path = Path("/")
    is_ours: bool = False

    def option(self, name: str) -> Path | None:
        """The path that a supervisor was given with ``--name``, or by its variable."""
        variable = f"ASCEND_SUPERVISOR_{name.upper().replace('-', '_')}"
        found = _option_in(self.words, f"--{name}") or self.environ.get(variable)
        return self.cwd / found if found else None


def here() -> Path:
    """Our own directory; the root if ours was removed."""
    with suppress(OSError):
        return Path.cwd()
    return Path("/")


def shown(pid: int, owners: frozenset[int] | None) -> RunningProcess:
    """What can be seen of the process ``pid``; nothing if it is of a user who is none of these.

    A state file that is forged may name any process.
    """
    with suppress(OSError):
        user = Path(f"/proc/{pid}").stat().st_uid
        if owners is None or user in owners:
            return _shown(pid, is_ours=user == os.geteuid())
    return RunningProcess()


def _shown(pid: int, *, is_ours: bool) -> RunningProcess:
    environ = {os.fsdecode(name): os.fsdecode(value) for name, value in proc.environ(pid).items()}
    cwd = Path("/")
    with suppress(OSError):
        cwd = Path(f"/proc/{pid}/cwd").readlink()
    return RunningProcess(tuple(proc.words(pid)), environ, cwd, is_ours)


def _option_in(words: Sequence[str], flag: str) -> str | None:
    """The value of an option, before the command of the ranks begins."""
    own = words[: words.index("--")] if "--" in words else words
    for word, following in zip(own, (*own[1:], ""), strict=False):
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
        if word == flag:
            return following
    return None
