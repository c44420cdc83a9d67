"""How a check says what it has found; pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ascend_supervisor.events.server import Fitness, Result

_WORST: tuple[Fitness, ...] = ("unfit", "warning", "unknown")


class Checked(Struct, frozen=True):
    """What was found; ``output`` is the file that has what the user's own program has printed."""

    rows: tuple[Result, ...] = ()
    output: str | None = None


def fit(subject: str, found: str) -> Result:
    return Result(subject, "fit", found)


def warning(subject: str, found: str, expected: str, remedy: str) -> Result:
    """A rank may fail, or the job may be slow."""
    return Result(subject, "warning", found, expected, remedy)


def unfit(subject: str, found: str, expected: str, remedy: str) -> Result:
    """A rank would surely fail: a false refusal costs more than a fault that is missed."""
    return Result(subject, "unfit", found, expected, remedy)


def unknown(subject: str, reason: str) -> Result:
    """It could not be looked at, which stops no start."""
    return Result(subject, "unknown", reason)


def sentences(results: Iterable[Result], verdict: Fitness) -> tuple[str, ...]:
    """Those of the rows with this verdict."""
    return tuple(result.sentence for result in results if result.verdict == verdict)


def verdict_of(results: Iterable[Result]) -> Fitness:
    """The worst of them."""
    verdicts = {result.verdict for result in results}
    return next((verdict for verdict in _WORST if verdict in verdicts), "fit")
