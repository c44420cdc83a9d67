"""What came of a trial, as a document and as a page of text; values, pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from ascend_supervisor.phrases import counted

StepVerdict = Literal["ok", "failed", "not possible"]


class StepResult(Struct, frozen=True):
    """``sentence`` says what was seen, or why it failed or cannot be here; times in seconds.

    ``left`` is what was still there after the step: processes, shared memory, sockets, devices.
    """

    step: str
    result: StepVerdict
    seconds: float
    sentence: str
    figures: Mapping[str, float] = {}
    left: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        left = f"; left: {'; '.join(self.left)}" if self.left else ""
        return f"{self.result:<13}{self.step:<13}{self.seconds:6.1f} s  {self.sentence}{left}"


class Setting(Struct, frozen=True):
    """What a trial runs with: NPUs by their files, ``kind`` of ranks, ``versions`` by package.

    ``remark`` says what the trial does not tell; empty if it runs on NPUs.
    """

    npus: tuple[str, ...]
    ranks: int
    kind: str
    python: str
    versions: Mapping[str, str]
    remark: str

    @property
    def sentence(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        npus = counted(len(self.npus), "NPU")
        return f"{npus}, {counted(self.ranks, 'rank')} of kind {self.kind}; {versions}"


class Summary(Struct, frozen=True):
    """``made_at`` is RFC 3339, UTC. ``ended_early`` says why steps are missing; else empty."""

    made_at: str
    made_by: str
    host: str
    setting: Setting
    steps: tuple[StepResult, ...]
    ended_early: str = ""
    format: int = 1

    @property
    def is_good(self) -> bool:
        """Whether every step that was possible is ok, and none is missing."""
        return not self.ended_early and all(one.result != "failed" for one in self.steps)

    @property
    def verdict(self) -> str:
        counts = [sum(one.result == result for one in self.steps) for result in RESULTS]
        told = ", ".join(f"{count} {result}" for count, result in zip(counts, RESULTS, strict=True))
        return f"{told}{f'; {self.ended_early}' if self.ended_early else ''}"

    @property
    def page(self) -> str:
        """All of it on one page."""
        head = f"Trial by {self.made_by} on {self.host}, {self.made_at}: {self.setting.sentence}"
        lines = [one.line for one in self.steps]
        parts = [head, self.setting.remark, "\n".join(lines), self.verdict]
        return "\n\n".join(filter(None, parts)) + "\n"


RESULTS: tuple[StepVerdict, ...] = ("ok", "failed", "not possible")
