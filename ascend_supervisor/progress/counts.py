"""What an output tells becomes steps of the whole training, checkpoints and resumes; pure."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.progress.belief import Belief, Count, CountedValue
from ascend_supervisor.progress.reading import Reading
from ascend_supervisor.progress.step_format import LARGEST, Numbers, Tells

ALIKE = 20
"""Counts that differ by less than this part count the same: bars are not drawn at each step."""
MOST_COUNTS = 4096
"""Of so many the last step is kept: a job has a rank for each mark, noise may have any number."""


class _Heading(Struct):
    """The epoch that a heading has told; its ``length`` is known from the first step below it."""

    found: Numbers
    length: int | None = None
    is_over: bool = False


class Counts:
    """``take`` what was found, in its order; gives what is to be told of it.

    All steps that it gives are of one count.
    """

    def __init__(self) -> None:
        self._belief = Belief()
        self._heading = _Heading(Numbers())
        self._last: Reading | None = None
        self._done: int | None = None
        """The last step, from whatever has told it."""
        self._agreeing: set[str] = set()
        """Formats that are less sure, but were at the same step when a surer one was read first."""
        self._places: dict[Count, tuple[int, int]] = {}
        """How far each count is."""
        self._steps: int | None = None
        self._epoch_steps: int | None = None
        self._is_saving = False
        self._saving: int | None = None
        self._checkpoint: int | None = None
        self._resume: Numbers | None = None
        """What was told of a resume whose step is not known yet."""
        self._resumed: int | None = None

    def take(self, tells: Tells, count: Count, found: Numbers, at: float) -> list[Reading]:
        if tells is Tells.STEP:
            return self._step(count, found, at)
        if tells is Tells.EPOCH:
            self._heading = _Heading(found)
        elif tells is Tells.STEPS:
            return self._announced(count.name, found, at)
        elif tells is Tells.RESUMED:
            self._is_saving, self._checkpoint = False, None  # another life began to save it
            self._resume = found
            return self._told_resume(count.name, at)
        elif tells is Tells.ENDING:
            self._is_saving = False
            return [Reading(at, count.name, is_ending=True)]
        elif tells is Tells.TIME:
            return [Reading(at, count.name, seconds=found.seconds)] if found.seconds else []
        elif tells is Tells.LOSS:
            self._belief.confirm()
        elif tells is Tells.DONE:
            self._done = found.step
        else:
            return self._save(tells, count.name, found, at)
        return []

    def see_inner_bar(self) -> None:
        """A bar was drawn below another one."""
        self._belief.see_inner()

    def _announced(self, name: str, found: Numbers, at: float) -> list[Reading]:
        if found.steps == self._steps:
            return []
        self._steps = self._belief.announced = found.steps
        return [Reading(at, name, steps=found.steps)]

    def _save(self, tells: Tells, name: str, found: Numbers, at: float) -> list[Reading]:
        told = self._step_of(found, found.checkpoint)
        if tells is Tells.SAVING:
            self._is_saving, self._saving = True, self._done if told is None else told
        elif tells is Tells.SAVING_STEP:
            self._saving = told
        elif tells is Tells.SCHEDULED:
            self._is_saving = False
        elif tells is Tells.SAVED and told is not None:
            return self._saved(name, told, at)
        elif tells is Tells.SAVED or self._is_saving:
            return self._saved(name, self._saving if self._is_saving else self._done, at)
        return []

    def _step(self, count: Count, found: Numbers, at: float) -> list[Reading]:
        if count.has_heading:
            found = self._below_heading(found)
        if not found.step:
            return []
        steps = self._belief.steps(count, CountedValue(found, at))
        return [reading for one in steps for reading in self._believed(count, *one)]

    def _believed(self, count: Count, found: Numbers, at: float) -> list[Reading]:
        reading = self._reading(count, found, at)
        reading = None if reading is None else self._with_total(self._ranked(reading))
        if reading is None or not self._is_new(count, reading):
            return []
        if self._last is not None and (reading.step or 0) < (self._last.step or 0):
            self._checkpoint = self._resumed = None  # another life may tell the same again
        readings = []
        if self._resume is not None:
            readings += self._told_resume(count.name, at, reading)
        if self._is_saving and self._is_after(count, reading):
            readings += self._saved(count.name, self._saving, at)
        self._last, self._done = reading, reading.step
        readings.append(reading)
        return readings

    def _ranked(self, reading: Reading) -> Reading | None:
        """As it counts beside what was told before; None if something surer was.

        What is surer takes the place of what was believed before. A bar that was at the same step
        then goes on to be read, because it is drawn more often: as one with the surer lines.
        """
        last = self._last
        if last is None or reading.doubt == last.doubt:
            return reading
        if reading.doubt > last.doubt:
            if reading.format not in self._agreeing:
                return None
            return replace(reading, format=last.format, doubt=last.doubt)
        off = abs((reading.step or 0) - (last.step or 0))
        is_alike = reading.is_within_epoch == last.is_within_epoch and off <= max(
            1, (reading.step or 0) // ALIKE
        )
        self._agreeing = {last.format} if is_alike else set()
        if not is_alike:
            self._last, self._places, self._steps = None, {}, self._belief.announced
        return reading

    def _with_total(self, reading: Reading | None) -> Reading | None:
        """With the total that was told before, if it tells none."""
        if reading is None or reading.is_within_epoch:
            return reading
        self._steps = reading.steps or self._steps
        return replace(reading, steps=self._steps)

    def _below_heading(self, found: Numbers) -> Numbers:
        """With the epoch that the heading told; nothing if this counts something else.

        Evaluations print the same lines, before the first heading and after an epoch is over.
        """
        heading = self._heading
        if heading.found.epoch is None or heading.is_over:
            return Numbers()
        if heading.length is None:
            heading.length = found.steps
        if found.steps != heading.length:
            return Numbers()
        heading.is_over = found.step == found.steps
        return replace(heading.found, step=found.step, steps=found.steps, seconds=found.seconds)

    def _reading(self, count: Count, found: Numbers, at: float) -> Reading | None:
        """With a step within the epoch made global; None if it is too large to be true."""
        step, steps, is_within = found.step or 0, found.steps, False
        if count.is_of_epoch:
            self._epoch_steps = steps or self._epoch_steps
            done, steps = self._epochs_done(found), None
            is_within = done is None or self._epoch_steps is None
            if done is not None and self._epoch_steps is not None:
                step += done * self._epoch_steps
                steps = found.epochs * self._epoch_steps if found.epochs else None
        if max(step, steps or 0) > LARGEST:
            return None
        return Reading(
            at,
            count.name,
            step,
            steps,
            found.epoch,
            found.seconds,
            is_within_epoch=is_within,
            doubt=self._belief.doubt(count, found),
        )

    def _epochs_done(self, found: Numbers) -> int | None:
        """Lightning tells no epoch after a resume; then the step of the checkpoint does."""
        if found.epoch is None and self._epoch_steps and self._resumed:
            return self._resumed // self._epoch_steps
        return found.epochs_done

    def _is_new(self, count: Count, reading: Reading) -> bool:
        """Whether it tells more than was told, by its count or by one that is ahead of it."""
        place, last = _place(reading), self._last
        before = self._places.get(count)
        if before is None and len(self._places) >= MOST_COUNTS:
            self._places.clear()
        self._places[count] = place
        if last is None or _what(last) == _what(reading):
            return last is None
        if place > _place(last) or len(self._places) == 1:
            return True
        return before is not None and place < before <= _place(last)  # another life begins

    def _step_of(self, found: Numbers, number: int | None) -> int | None:
        """``number``, or the step at the end of the epochs that are done."""
        if number is not None or found.epochs_done is None or self._epoch_steps is None:
            return number
        return found.epochs_done * self._epoch_steps

    def _is_after(self, count: Count, reading: Reading) -> bool:
        """Whether the training went on; a bar may be drawn again while a checkpoint is saved."""
        step, saving = reading.step or 0, self._saving or 0
        return reading.is_within_epoch or step > saving or (step == saving and not count.is_bar)

    def _saved(self, name: str, step: int | None, at: float) -> list[Reading]:
        self._is_saving = False
        if step is None or step == self._checkpoint:
            return []
        self._checkpoint = step
        return [Reading(at, name, checkpoint=step)]

    def _told_resume(self, name: str, at: float, first: Reading | None = None) -> list[Reading]:
        """From which step the training goes on; ``first`` is the first step after that."""
        found = self._resume or Numbers()
        step = self._step_of(found, found.resumed)
        if step is None and first is not None and found.epochs_done is None:
            step = (first.step or 0) - 1
        if step is None:
            return []
        self._resume = None
        if step == self._resumed:
            return []
        self._resumed = step
        return [Reading(at, name, resumed=step)]


def _what(reading: Reading) -> tuple[object, ...]:
    return reading.step, reading.steps, reading.epoch, reading.is_within_epoch


def _place(reading: Reading) -> tuple[int, int]:
    return (reading.epoch or 0) if reading.is_within_epoch else 0, reading.step or 0
