"""Real failures from public threads, and what the program makes of them.

The format is described in tests/data/failures/README.md. ``python -m tests.evidence.corpus`` prints
how many failures it knows and which kinds it takes for which; with ``--seen`` what it tells of each
failure that may be looked at.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from ascend_supervisor.causes.cause import Blame, Layer
from ascend_supervisor.causes.diagnosis import Diagnosis
from ascend_supervisor.evidence.blame import blame, explained
from ascend_supervisor.evidence.diagnosed import diagnosis_of
from ascend_supervisor.outcome import ExitStatus, Failure
from ascend_supervisor.workers.examination import by_launchers_word

FAILURES = Path(__file__).parents[1] / "data" / "failures"
_RANK = re.compile(r"\[rank([0-9]+)\]")
_AGREES = {
    "yes": {Blame.CONSEQUENCE},
    "no": {Blame.OWN},
    "either": {Blame.OWN, Blame.CONSEQUENCE, Blame.UNKNOWN},
}

Class = Literal[
    "checkpoint", "data", "defect", "device-busy", "disk", "library", "limit", "memory-device",
    "memory-host", "network", "operator", "package", "peer", "permission", "port", "proxy",
    "rank-table", "script", "settings", "shared-memory", "slow-peer", "versions",
]  # fmt: skip
Sentence = Annotated[str, Meta(pattern=r"^[\w.-].*\.$", max_length=200)]


class Header(Struct, frozen=True, forbid_unknown_fields=True):
    """What a person has found out about a failure."""

    source: Annotated[str, Meta(pattern=r"^https://\S+$")]
    kind: Class = msgspec.field(name="class")
    layer: Layer
    cause: Sentence
    resolved: Sentence
    consequence: Literal["yes", "no", "either"]
    line: Annotated[str, Meta(min_length=5)]
    code: Annotated[str, Meta(pattern="^E[1-4A-Z][0-9]{4}$")] | None = None
    diagnosis: tuple[str, ...] = ()
    status: Annotated[int, Meta(ge=-64, le=255)] = 1


class Case(Struct, frozen=True):
    """A failure: what a person knows of it, and the lines that the rank has written."""

    name: str
    group: str
    header: Header
    lines: tuple[str, ...]

    @property
    def failure(self) -> Failure:
        """The failure as the supervisor gets it, before anything is said of it."""
        spoken = _RANK.search("\n".join(self.lines))
        rank = int(spoken[1]) if spoken else 0
        status = ExitStatus.of(self.header.status)
        failure = Failure(f"rank {rank}", rank, 0, status, 1.0, last_lines=self.lines)
        return by_launchers_word(failure)


class Verdict(Struct, frozen=True):
    """What the program makes of a failure.

    It ``contradicts`` the thread if it claims a wrong place of the cause, and ``blames`` right if
    it claims the right one. It ``names`` the failure by the expected code, or by quoting the line
    that tells it. Its ``diagnosis`` is ``right`` if a person has judged so.
    """

    contradicts: bool
    blames: bool
    names: bool
    diagnosis: Diagnosis | None
    right: bool


def belongs_unseen(name: str) -> bool:
    """Whether the failure is kept out of sight of those who write patterns."""
    return hashlib.sha256(name.encode()).hexdigest()[0] in "0123"


def cases() -> list[Case]:
    """All failures of the corpus; ValueError for one that is not in the format."""
    return [_case(path) for path in sorted(FAILURES.glob("*/*.txt"))]


def verdict(case: Case) -> Verdict:
    """What the program of today makes of it."""
    found = explained(case.failure)
    claim, agrees = blame(found), _AGREES[case.header.consequence]
    header = case.header
    is_quoted = header.line in (found.said or "")
    diagnosis = diagnosis_of(found)
    return Verdict(
        contradicts=claim is not Blame.UNKNOWN and claim not in agrees,
        blames=claim in agrees,
        names=is_quoted if header.code is None else found.code == header.code,
        diagnosis=diagnosis,
        right=diagnosis is not None and diagnosis.id in header.diagnosis,
    )


def counts(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """How many it blames right, names, knows the right and a wrong cause of; and of how many."""
    verdicts = list(verdicts)
    known = ("blames", "names", "right")
    told = {what: sum(getattr(one, what) for one in verdicts) for what in known}
    return told | {"wrong": sum(map(_is_wrong, verdicts)), "of": len(verdicts)}


def _is_wrong(one: Verdict) -> bool:
    """What is of the layer unknown claims no cause: it says that of an exception with its words."""
    claims = one.diagnosis is not None and one.diagnosis.layer != "unknown"
    return claims and not one.right


def _case(path: Path) -> Case:
    header, _, output = path.read_text(encoding="utf-8").partition("\n+++\n")
    told = msgspec.toml.decode(header, type=Header)
    return Case(path.stem, path.parent.name, told, tuple(output.splitlines()))


def _main() -> None:
    judged = [(case, verdict(case)) for case in cases()]
    for title in sorted({case.group for case, _ in judged}):
        group = (one for case, one in judged if case.group == title)
        sys.stdout.write(f"{title}: {counts(group)}\n")
    sys.stdout.write(
        "Rows: what it is. Columns: the layer that is told; (n): n of these are wrong.\n"
    )
    for kind in ("kind", "layer"):
        groups: dict[str, list[Verdict]] = defaultdict(list)
        for case, one in judged:
            groups[getattr(case.header, kind)].append(one)
        sys.stdout.write("\n".join(("", *_confusion(groups), "")))


def _confusion(groups: Mapping[str, list[Verdict]]) -> Iterator[str]:
    """A line for each group: how many of it are told to be of which layer."""
    columns = (*get_args(Layer), None)
    yield _table_line("", (*get_args(Layer), "none", "of"))
    for title, group in sorted(groups.items()):
        told = [[one for one in group if _layer(one) == column] for column in columns]
        yield _table_line(title, (*map(_cell, told), str(len(group))))


def _layer(one: Verdict) -> Layer | None:
    return None if one.diagnosis is None else one.diagnosis.layer


def _cell(group: Collection[Verdict]) -> str:
    wrong = sum(map(_is_wrong, group))
    return f"{len(group)} ({wrong})" if wrong else str(len(group) or "-")


def _table_line(title: str, cells: Iterable[str]) -> str:
    return f"{title:<14}" + "".join(f"{cell:>10}" for cell in cells)


def _print_seen() -> None:
    """Each failure that may be looked at, and what is told of it."""
    for case in cases():
        if case.group != "unseen":
            one = verdict(case)
            told = one.diagnosis and f"{one.diagnosis.id}: {one.diagnosis.told('en')}"
            mark = "right" if one.right else "WRONG" if told else "none"
            sys.stdout.write(f"{mark} {case.name}: {told}\n    is: {case.header.cause}\n")


if __name__ == "__main__":
    _print_seen() if "--seen" in sys.argv else _main()
