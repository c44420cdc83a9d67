"""Phrases that several events and messages share; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_RUN = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
MOST_NAMED = 8
"""Of ranks, and of servers."""
QUOTED = "the last lines of"
"""What the lines of a failed rank are announced with."""
EXACT_SECONDS = 120.0
"""Longer times are told in whole minutes."""
MOST_CPUS = 8192
"""Of a machine: CONFIG_NR_CPUS is at most that on x86-64, and 4096 on aarch64."""


def who(rank: int | None, program: str | None) -> str:
    return program or "the launcher" if rank is None else f"rank {rank}"


def restarts_words(left: int, used: int | None, limit: int | None) -> str:
    """How many restarts are ``left``, and how many of its ``limit`` the cluster has ``used``.

    Without a cluster that restarts the job (``used`` None), only the first. With one, only the
    second if no restarts are left: then --restarts does not apply, or was not given.
    """
    if used is None:
        return f"restarts left: {left}"
    own = f"restarts left: {left}; " if left else ""
    return f"{own}restarts by the cluster within an hour: {used} of {limit}"


def counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """Its two largest units: ``2 h 10 min``, ``45 s``; less than a second is ``0 s``."""
    left = max(int(seconds), 0)
    parts = []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        parts.append((count, unit))
    first = next((at for at, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count) or "0 s"


def about(seconds: float) -> str:
    """``duration``, rounded to seconds, or to minutes from EXACT_SECONDS on."""
    unit = 60 if seconds >= EXACT_SECONDS else 1
    return duration(unit * round(seconds / unit))


def step_seconds(seconds: float) -> str:
    """How long a step takes, in two digits: ``2.1 s``, ``35 ms``, ``2 min``."""
    if seconds >= EXACT_SECONDS:
        return about(seconds)
    number, unit = (seconds, "s") if seconds >= 1 else (1000 * seconds, "ms")
    return f"{float(f'{number:.2g}'):g} {unit}"


def listed(names: Iterable[object], most: int = MOST_NAMED) -> str:
    """The first ``most`` of them: ``a, b and 3 more``."""
    words = [str(name) for name in names]
    return " ".join((", ".join(words[:most]), *more(len(words) - most)))


def more(left: int) -> list[str]:
    """The last of several lines or clauses, of which so many are ``left`` out: ``and 3 more``."""
    return [f"and {left} more"] if left > 0 else []


def have(one: str, numbers: Sequence[int]) -> str:
    """The subject of a sentence, with its verb; of many, ranks or servers, the first is named."""
    if len(numbers) == 1:
        return f"{one} {numbers[0]} has"
    if len(numbers) > MOST_NAMED:
        return f"{len(numbers)} {one}s, {one} {numbers[0]} first, have"
    return f"{one}s {', '.join(map(str, numbers))} have"


def runs(numbers: Iterable[int]) -> list[range]:
    """The numbers in order, those without a gap between them as one range."""
    found: list[range] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1].stop:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return found


def run_text(run: range) -> str:
    """As options and tables write it: ``3``, ``0-7``."""
    return f"{run.start}" if len(run) == 1 else f"{run.start}-{run.stop - 1}"


def run_of(text: str) -> range | None:
    """What ``run_text`` writes so; None for any other text."""
    match = _RUN.fullmatch(text)
    if match is None:
        return None
    first, last = int(match[1]), int(match[2] or match[1])
    return range(first, last + 1) if first <= last else None


def run_list(numbers: Iterable[int]) -> str:
    """The numbers in the shortest form, as the kernel writes a list of CPUs: ``0-3,8``."""
    return ",".join(map(run_text, runs(numbers)))


def read_cpu_list(text: str) -> frozenset[int]:
    """The CPUs of a list as the kernel writes it; raises ValueError. An empty text holds none."""
    spans = [run_of(word.strip()) for word in text.split(",") if word.strip()]
    if any(span is None or span.stop > MOST_CPUS for span in spans):
        raise ValueError(text)
    return frozenset(cpu for span in spans if span is not None for cpu in span)
