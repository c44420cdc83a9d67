"""Which of the numbers that an output tells are steps of the training; pure.

Evaluations, data and downloads are counted in the same way. So what is not unmistakable is believed
after three growing values of the same total.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from ascend_supervisor.progress.step_format import Numbers

GROWING = 3
SURE, CONFIRMED, LABELLED, PLAIN = range(4)
"""How doubtful it is that something is a step of the training: nothing else is written like this,
or it has the total that was announced; losses were told with it; its label or line says so; or it
is a bar that may count anything."""
MOST_CANDIDATES = 16


class Count(Struct, frozen=True, eq=False):
    """The format in which something was found, and what it says of its steps.

    ``mark`` tells the ranks apart that share an output. ``is_plain``: a bar without a label, which
    may count anything.
    """

    name: str
    mark: str = ""
    is_of_epoch: bool = False
    has_heading: bool = False
    is_sure: bool = True
    is_users: bool = False
    is_bar: bool = False
    is_plain: bool = False


class CountedValue(NamedTuple):
    """``numbers`` that were read ``at`` so many seconds."""

    numbers: Numbers
    at: float


class _Candidate(Struct, frozen=True):
    """A count of which ``times`` values have grown, from the ``first`` one to ``last``."""

    first: CountedValue
    last: int
    times: int = 1


class Belief:
    """``steps`` says of each number, in its order, whether it is a step.

    ``announced`` is how many steps there are to be.
    """

    def __init__(self) -> None:
        self.announced: int | None = None
        self._believed: dict[str, int | None] = {}
        """The total that was believed of each format that is not unmistakable."""
        self._candidates: dict[tuple[str, str, int | None], _Candidate] = {}
        self._has_inner = False
        """A bar was drawn below another: if it is each time, the outer one counts epochs."""
        self._drawn: tuple[str, int | None] | None = None
        """The last count, with its total, that is not unmistakable."""
        self._confirmed: tuple[str, int | None] | None = None
        self._has_sure = False
        self._global = ""
        """The format that was the first to tell steps of the whole training."""
        self._has_users = False

    def confirm(self) -> None:
        """Losses of the training are told beside its bar: another one is something else.

        Also if that was believed, because it was drawn before, for data.
        """
        if self._confirmed is None and self._believed and self._drawn is not None:
            name, total = self._confirmed = self._drawn
            self._believed[name] = total

    def see_inner(self) -> None:
        """A bar was drawn below another one."""
        self._has_inner = True

    def steps(self, count: Count, found: CountedValue) -> tuple[CountedValue, ...]:
        """``found`` if it is a step; if its count is believed from now on, its first value, too."""
        if not count.is_sure and not count.is_users:
            self._drawn = count.name, found.numbers.steps
        if self._holds(count, found.numbers):
            return (found,)
        first = self._first(count, found)
        return () if first is None else (first, found)

    def doubt(self, count: Count, found: Numbers) -> int:
        """Of a step that is believed."""
        is_announced = self.announced is not None and self.announced == found.steps
        if count.is_sure or count.is_users or is_announced:
            return SURE
        if self._confirmed == (count.name, found.steps):
            return CONFIRMED
        return PLAIN if count.is_plain else LABELLED

    def _holds(self, count: Count, found: Numbers) -> bool:
        if self._has_users or count.is_users:
            self._has_users = True
            return count.is_users
        if not count.is_sure:
            return self._is_believed(count, found)
        self._has_sure = True
        if count.is_of_epoch and found.steps is None:
            return self._global in {"", count.name}
        self._global = self._global or count.name
        if not count.is_of_epoch:
            self.announced = found.steps or self.announced
        return True

    def _is_believed(self, count: Count, found: Numbers) -> bool:
        """Of a count that may be something else."""
        if self.announced is not None and self.announced == found.steps:
            return True
        if self.announced is not None and (count.is_plain or self._has_sure):
            return False
        believed = self._believed.get(count.name)
        return believed is not None and believed == found.steps

    def _first(self, count: Count, found: CountedValue) -> CountedValue | None:
        """The first value of a count that is believed from now on; None if it is not."""
        numbers, believed = found.numbers, self._believed.get(count.name)
        if count.is_sure or count.is_users or self._has_users or self._has_sure:
            return None
        if self.announced is not None and count.is_plain:
            return None
        if numbers.is_fast or (believed is not None and self._is_other(believed, numbers)):
            return None
        candidate = self._grown(count, found)
        if candidate.times < GROWING:
            return None
        self._believed[count.name] = numbers.steps
        return candidate.first

    def _is_other(self, believed: int, found: Numbers) -> bool:
        """Whether it is an evaluation after the training; one may have come before it, too."""
        return self._confirmed is not None or (found.steps or 0) < believed

    def _grown(self, count: Count, found: CountedValue) -> _Candidate:
        key, step = (count.name, count.mark, found.numbers.steps), found.numbers.step or 0
        candidate = self._candidates.pop(key, None)
        if candidate is None or step != candidate.last:
            if candidate is None or step < candidate.last or self._has_inner:
                candidate = _Candidate(found, step)
            else:
                candidate = _Candidate(candidate.first, step, candidate.times + 1)
            self._has_inner = False
        self._candidates[key] = candidate
        if len(self._candidates) > MOST_CANDIDATES:
            del self._candidates[next(iter(self._candidates))]
        return candidate
