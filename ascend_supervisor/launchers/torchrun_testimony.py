"""What torchrun and its workers leave behind when a worker has failed; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct

from ascend_supervisor.launchers.testimony import Culprit, Exhibit, raised
from ascend_supervisor.outcome import ExitStatus


class TorchrunTestimony(Struct, frozen=True):
    """Reads what torchrun 1.11 to 2.13 leaves: its summary, and the error files of its workers.

    ``ranks`` are those of the workers, by local rank; ``others`` names the other servers.
    """

    directory: PurePath
    ranks: tuple[int, ...]
    others: tuple[str, ...] = ()

    @property
    def exhibits(self) -> tuple[PurePath, str]:
        """``<run>/attempt_<n>/<local rank>/error.json``, as ``@record`` writes them."""
        return self.directory, "*/attempt_*/*/error.json"

    def culprit(
        self,
        lines: Sequence[str],
        exhibits: Sequence[Exhibit],
        ranks: Mapping[int, int],  # noqa: ARG002  (its summary has them)
    ) -> Culprit | None:
        """The worker that was killed, or wrote the first error file, or is named by torchrun.

        Exceptions after a worker was killed are consequences. torchrun's own time stamps only
        have whole seconds.
        """
        ends = list(_ends(lines))
        own_words = _before_torchrun(lines)
        killed = next((end for end in ends if end.killed), None)
        for exhibit in exhibits if killed is None else ():
            local_rank = _local_rank(exhibit.path)
            if local_rank is None:
                continue
            status = next((end.status for end in ends if end.local_rank == local_rank), None)
            rank = self.ranks[local_rank] if local_rank < len(self.ranks) else None
            exception = raised(exhibit.head)
            return Culprit(rank, status or ExitStatus(1), exception, own_words)
        chosen = killed or (ends[-1] if ends else None)
        return Culprit(chosen.rank, chosen.status, None, own_words) if chosen else None

    def false_success(self, lines: Sequence[str]) -> str | None:
        """Status 0 is false if torchrun has waited in vain for the other servers."""
        if not any(_IN_VAIN in line for line in lines):
            return None
        whose = " or ".join(self.others) or "another server"
        return (
            "torchrun ended with 0 here, but the job did not: its workers ended well, and it then "
            f"waited in vain for the other servers; look at what ended {whose}"
        )


_IN_VAIN = "Error waiting on exit barrier"
_RANK = re.compile(r"\s*rank\s*: (\d+) \(local_rank: (\d+)\)", re.ASCII)
_EXIT = re.compile(r"\s*exitcode\s*: (-?\d+) \(pid: \d+\)", re.ASCII)
_SPOKEN = re.compile(
    r"[EW]\d{4} .*torch/distributed/elastic/|.*ChildFailedError|WARNING:torch\.dis"
)
_CONSEQUENCES = frozenset({15, 6, 2})
"""TERM and INT come from torchrun, ABRT from a collective that lost another rank."""


class _End(Struct, frozen=True):
    """A line of torchrun's summary; the root cause is the last of them."""

    rank: int
    local_rank: int
    status: ExitStatus

    @property
    def killed(self) -> bool:
        return self.status.signal is not None and self.status.signal not in _CONSEQUENCES


def _ends(lines: Sequence[str]) -> Iterator[_End]:
    place: tuple[int, int] | None = None
    for line in lines:
        if found := _RANK.fullmatch(line.rstrip()):
            place = int(found[1]), int(found[2])
        elif place and (found := _EXIT.match(line)):
            code = int(found[1])
            status = ExitStatus(code) if code >= 0 else ExitStatus(None, -code)
            yield _End(*place, status)
            place = None


def _before_torchrun(lines: Sequence[str]) -> tuple[str, ...]:
    """What the workers wrote before torchrun began to speak of their end."""
    for number, line in enumerate(lines):
        if "closing signal" in line or "failed (exitcode" in line:
            return tuple(line for line in lines[:number] if not _SPOKEN.match(line))
    return tuple(lines)


def _local_rank(path: PurePath) -> int | None:
    name = path.parent.name
    return int(name) if name.isascii() and name.isdecimal() else None
