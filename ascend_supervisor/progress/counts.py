"""What an output tells becomes steps of the whole training, checkpoints and resumes; pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.progress.belief import Belief, Count
from ascend_supervisor.progress.formats import LARGEST, Numbers, Tells
from ascend_supervisor.progress.reading import Reading


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
        self._steps_of: dict[str, int] = {}
        """The last step that each format has told."""
        self._steps: int | None = None
        self._epoch_steps: int | None = None
        self._saving: int | None = None
        self._checkpoint: int | None = None
        self._resumed: int | None = None
        self._epochs_resumed: int | None = None

    def take(self, tells: Tells, count: Count, found: Numbers, at: float) -> Iterator[Reading]:
        match tells:
            case Tells.STEP:
                yield from self._step(count, found, at)
            case Tells.EPOCH:
                self._heading = _Heading(found)
            case Tells.STEPS:
                if found.steps != self._steps:
                    self._steps = self._belief.total = found.steps
                    yield Reading(at, count.name, steps=found.steps)
            case Tells.SAVING:
                told = self._step_of(found, found.checkpoint)
                self._saving = self._last_step if told is None else told
            case Tells.SAVED:
                told = self._step_of(found, found.checkpoint)
                begun = self._last_step if self._saving is None else self._saving
                yield from self._saved(count.name, begun if told is None else told, at)
            case Tells.RESUMED:
                yield from self._resume(count.name, found, at)
            case Tells.LOSS:
                self._belief.confirm()
            case Tells.MOVED_ON:
                yield from self._saved(count.name, self._saving, at)

    def _step(self, count: Count, found: Numbers, at: float) -> Iterator[Reading]:
        if count.has_heading:
            found = self._below_heading(found)
        if not found.step or not self._belief.holds(count, found):
            return
        reading = self._reading(count, found, at)
        if reading is None or not self._is_new(reading):
            return
        if self._epochs_resumed is not None and self._epoch_steps is not None:
            yield from self._resume(count.name, Numbers(epochs_done=self._epochs_resumed), at)
        if self._saving is not None and _is_after(reading, self._saving, count):
            yield from self._saved(count.name, self._saving, at)
        if self._last is not None and (reading.step or 0) < (self._last.step or 0):
            self._checkpoint = self._resumed = None  # another life may tell the same again
        self._last = reading
        yield reading

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
        if not is_within:
            steps = self._steps = steps or self._steps
        if max(step, steps or 0) > LARGEST:
            return None
        return Reading(
            at, count.name, step, steps, found.epoch, found.seconds, is_within_epoch=is_within
        )

    def _epochs_done(self, found: Numbers) -> int | None:
        """Lightning tells no epoch after a resume; then the step of the checkpoint does."""
        if found.epoch is None and self._epoch_steps and self._resumed:
            return self._resumed // self._epoch_steps
        return found.epochs_done

    def _is_new(self, reading: Reading) -> bool:
        """Whether it tells more than was told, by its format or by one that is ahead of it."""
        step, last = reading.step or 0, self._last
        before = self._steps_of.get(reading.format)
        self._steps_of[reading.format] = step
        if last is None:
            return True
        if last.format != reading.format and (before is None or before <= step):
            return reading.is_within_epoch or step > (last.step or 0)
        return _what(last) != _what(reading)

    def _step_of(self, found: Numbers, number: int | None) -> int | None:
        """``number``, or the step at the end of the epochs that are done."""
        if number is not None or found.epochs_done is None or self._epoch_steps is None:
            return number
        return found.epochs_done * self._epoch_steps

    @property
    def _last_step(self) -> int | None:
        return None if self._last is None else self._last.step

    def _saved(self, name: str, step: int | None, at: float) -> Iterator[Reading]:
        self._saving = None
        if step is not None and step != self._checkpoint:
            self._checkpoint = step
            yield Reading(at, name, checkpoint=step)

    def _resume(self, name: str, found: Numbers, at: float) -> Iterator[Reading]:
        """What was being saved before is not complete: it was another life that saved it."""
        step = self._step_of(found, found.resumed)
        self._epochs_resumed = found.epochs_done if step is None else None
        self._saving = self._checkpoint = None
        if step is not None and step != self._resumed:
            self._resumed = step
            yield Reading(at, name, resumed=step)


def _what(reading: Reading) -> tuple[object, ...]:
    return reading.step, reading.steps, reading.epoch, reading.is_within_epoch


def _is_after(reading: Reading, saving: int, count: Count) -> bool:
    """Whether the training went on; a bar may be drawn again while a checkpoint is saved."""
    step = reading.step or 0
    return reading.is_within_epoch or step > saving or (step == saving and not count.is_bar)
