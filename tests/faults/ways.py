"""The ways in which a supervisor is started on a bad day: as whom, and as PID 1 or not."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

NOBODY = 65534
REPOSITORY = Path(__file__).parents[2]

SHOW = """
# In a mount namespace of its own: others may read the directories named, wherever they lie.
set -e
hidden=$1 store=$2
shift 2
for place; do
    [ "$place" != -- ] || break
    mkdir -p "$store$place"
    mount --bind "$place" "$store$place"
done
mount --rbind "$store$hidden" "$hidden"
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Way:
    """``before`` are the words before the interpreter; ``uid`` owns what the job writes."""

    name: str
    before: tuple[str, ...] = ()
    uid: int = os.geteuid()

    @property
    def is_pid_1(self) -> bool:
        return "--pid" in self.before

    @property
    def missing(self) -> str | None:
        """What this machine lacks for it, or None."""
        if self.name == "ordinary":
            return None
        if os.geteuid():
            return f"to start a supervisor as {self.name} needs root"
        return _failing(
            (*self.before, sys.executable, "-c", "import ascend_supervisor.program.run")
        )


@cache
def _failing(command: tuple[str, ...]) -> str | None:
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    if ended.returncode == 0:
        return None
    return f"{' '.join(command[:3])} ...: {ended.stderr.strip().splitlines()[-1:]}"


def _hidden() -> Path | None:
    """The first directory above the interpreter or this repository that others may not enter."""
    for place in _needed():
        for directory in reversed([place, *place.parents]):
            if not directory.stat().st_mode & 0o001:
                return directory
    return None


def _needed() -> list[Path]:
    return [Path(sys.prefix), Path(sys.base_prefix), REPOSITORY]


def unprivileged(store: Path) -> Way:
    """As nobody, without a capability; ``store`` is an empty directory."""
    user = (
        *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
        *("--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"),
    )
    hidden = _hidden()
    if hidden is None:
        return Way("unprivileged", user, NOBODY)
    below = [str(place) for place in _needed() if hidden in (place, *place.parents)]
    show = ("unshare", "--mount", "sh", "-c", SHOW, "sh", str(hidden), str(store), *below, "--")
    return Way("unprivileged", (*show, *user), NOBODY)


ORDINARY = Way("ordinary")
PID_1 = Way("pid_1", ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child"))
