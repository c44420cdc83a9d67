"""Output of trainings that end with 0, by what prints it: real lines, varied to any length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path

from ascend_supervisor.progress.reader import FORMATS
from tests.progress import other_output
from tests.progress.logs import CRASH, FRAMEWORKS, Log

FOLDER = Path(__file__).parents[1] / "data" / "healthy"


@cache
def healthy_logs() -> Mapping[str, Sequence[str]]:
    """The lines of each kind of program, without repetition."""
    logs = {path.stem: path.read_text(encoding="utf-8").splitlines() for path in _files()}
    others = b"".join(other_output.lines(5000))
    examples = (example.text for one in FORMATS for example in one.examples)
    return {
        **logs,
        "builds": others.decode().splitlines(),
        "steps": "\n".join((*examples, *_training_records())).splitlines(),
    }


def grown(lines: Sequence[str], size: int) -> list[str]:
    """At least ``size`` characters: the lines again and again, each time with other numbers."""
    text = "\n".join(lines)
    made: list[str] = []
    left = size
    for turn in count():
        if left <= 0:
            return made
        made += text.translate(_other_digits(turn)).split("\n")
        left -= len(text) + 1
    raise AssertionError


def _files() -> Sequence[Path]:
    return sorted(FOLDER.glob("*.txt"))


def _training_records() -> Iterator[str]:
    for framework in FRAMEWORKS:
        log = Log()
        framework(log)
        for record, _ in log.records:
            text = record.decode(errors="replace")
            if text not in CRASH:
                yield text


def _other_digits(turn: int) -> dict[int, str]:
    return {ord("0") + digit: str((digit + turn) % 10) for digit in range(10)}
