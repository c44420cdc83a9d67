"""The server itself: what a look at it has found that does not fit the job."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from ascend_supervisor.events import Event, Level

Fitness = Literal["fit", "warning", "unfit", "unknown"]
"""``unfit``: a rank would surely fail; ``warning``: it may. ``unknown``: nobody could look."""


class Result(Struct, frozen=True):
    """A row: what was ``found``, what was ``expected``, and the ``remedy``; parts of a sentence.

    The last two are empty where nothing is to be done.
    """

    subject: str
    verdict: Fitness
    found: str
    expected: str = ""
    remedy: str = ""

    @property
    def sentence(self) -> str:
        if self.verdict == "unknown":
            return f"{self.subject}: {self.found}"
        expected = f", expected {self.expected}" if self.expected else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.subject}: found {self.found}{expected}{remedy}"


class ServerChecked(Event, frozen=True):
    """A sentence for each row that is not fit; ``output`` has what the user's own program said."""

    name: ClassVar[str] = "server.checked"
    level: ClassVar[Level] = "warning"
    verdict: Fitness
    unfit: tuple[str, ...]
    warnings: tuple[str, ...]
    unknown: tuple[str, ...]
    seconds: float
    output: str | None = None

    @property
    def severity(self) -> Level:
        return "info" if self.verdict == "unknown" else self.level

    @property
    def sentence(self) -> str:
        told = "; ".join((*self.unfit, *self.warnings, *self.unknown))
        return f"{_VERDICTS[self.verdict]}: {told}"


_VERDICTS: dict[Fitness, str] = {
    "fit": "this server is fit for the job",
    "warning": "this server may not be fit for the job",
    "unfit": "this server is not fit for the job",
    "unknown": "not all of this server could be checked",
}
