"""Real failures from public threads, and what the program makes of them.

The format is described in tests/data/failures/README.md. ``python -m tests.evidence.corpus`` prints
how many failures it knows, with ``--seen`` also which of those that may be looked at.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from ascend_supervisor.causes.cause import Blame
from ascend_supervisor.causes.diagnosis import Diagnosis
from ascend_supervisor.evidence.blame import blame, explained
from ascend_supervisor.evidence.diagnosed import diagnosis_of
from ascend_supervisor.outcome import ExitStatus, Failure

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
Layer = Literal["user", "framework", "cann", "device", "host", "network", "cluster"]
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
    hint: Annotated[tuple[str, ...], Meta(min_length=1)]
    code: Annotated[str, Meta(pattern="^E[1-4A-Z][0-9]{4}$")] | None = None
    diagnosis: tuple[str, ...] = ()
    status: Annotated[int, Meta(ge=-64, le=255)] = 1


class Case(Struct, frozen=True):
    """A failure: what a person knows of it, and the lines that the rank has written."""

    name: str
    is_unseen: bool
    header: Header
    lines: tuple[str, ...]

    @property
    def failure(self) -> Failure:
        """The failure as the supervisor gets it, before anything is said of it."""
        spoken = _RANK.search("\n".join(self.lines))
        rank = int(spoken[1]) if spoken else 0
        status = ExitStatus.of(self.header.status)
        return Failure(f"rank {rank}", rank, 0, status, 1.0, last_lines=self.lines)


class Verdict(Struct, frozen=True):
    """What the program makes of a failure.

    It ``contradicts`` the thread if it claims a wrong place of the cause, and ``blames`` right if
    it claims the right one. It ``names`` the failure by the expected code, or by quoting the line
    that tells it. Its ``diagnosis`` is ``right`` if a person has judged it so, or if it has one of
    the words of a right explanation, and looks for the cause where it is.
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
        right=diagnosis is not None and _is_right(diagnosis, header),
    )


def _is_right(diagnosis: Diagnosis, header: Header) -> bool:
    if diagnosis.id in header.diagnosis:
        return True
    place = {"yes": True, "no": False}.get(header.consequence, diagnosis.is_consequence)
    told = f"{diagnosis.text} {diagnosis.remedy}"
    return diagnosis.is_consequence is place and any(_has(hint, told) for hint in header.hint)


def counts(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """How many it blames right, names, knows the right and a wrong cause of; and of how many."""
    verdicts = list(verdicts)
    known = ("blames", "names", "right")
    told = {what: sum(getattr(one, what) for one in verdicts) for what in known}
    wrong = sum(one.diagnosis is not None and not one.right for one in verdicts)
    return told | {"wrong": wrong, "of": len(verdicts)}


def _has(words: str, sentence: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", sentence, re.IGNORECASE) is not None


def _case(path: Path) -> Case:
    header, _, output = path.read_text(encoding="utf-8").partition("\n+++\n")
    told = msgspec.toml.decode(header, type=Header)
    return Case(path.stem, path.parent.name == "unseen", told, tuple(output.splitlines()))


def _main() -> None:
    groups: dict[str, list[Verdict]] = defaultdict(list)
    for case in cases():
        one = verdict(case)
        groups["unseen" if case.is_unseen else "seen"].append(one)
        groups[f"class {case.header.kind}"].append(one)
        groups[f"layer {case.header.layer}"].append(one)
    for title in sorted(groups):
        sys.stdout.write(f"{title}: {counts(groups[title])}\n")


def _print_seen() -> None:
    """Each failure that may be looked at, and what is told of it."""
    for case in cases():
        if not case.is_unseen:
            one = verdict(case)
            told = one.diagnosis and f"{one.diagnosis.id}: {one.diagnosis.told('en')}"
            mark = "right" if one.right else "WRONG" if told else "none"
            sys.stdout.write(f"{mark} {case.name}: {told}\n    is: {case.header.cause}\n")


if __name__ == "__main__":
    _print_seen() if "--seen" in sys.argv else _main()
