"""What the last lines of a failed rank say: an exception, a code of CANN, a lost peer; pure.

What its training has survived, because it went on after it, does not count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.evidence.cann_codes import is_inner, spoken_code
from ascend_supervisor.evidence.communication import Loss, loss
from ascend_supervisor.evidence.exceptions import Raised, raised_by, raised_in
from ascend_supervisor.evidence.lone_exceptions import lone_exception
from ascend_supervisor.evidence.patterns import pattern
from ascend_supervisor.evidence.speakers import Line, by_speaker, lines_of, without_warnings
from ascend_supervisor.outcome import Failure
from ascend_supervisor.progress.reader import Reader


class LastWords(Struct, frozen=True):
    """``is_own``: an error of the script or a lack of memory, and nothing speaks of a lost peer.

    ``lines`` are those of the rank, without asides. ``raised`` is the exception that tells most,
    ``rank`` whose it is, if other ranks write to the same output. ``code`` is one of CANN's.
    ``alone`` is the exception that they end with, where none has a traceback.
    """

    lines: tuple[str, ...]
    is_own: bool
    code: str | None
    loss: Loss | None
    raised: Raised | None = None
    rank: int | None = None
    alone: tuple[str, ...] = ()


class _Spoken(Struct, frozen=True):
    """What one writer has said: ``told`` counts, ``asides`` are only shown."""

    rank: int | None
    lines: tuple[Line, ...]
    told: tuple[Raised, ...]
    asides: tuple[Raised, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(line.text for line in self.lines)


def words_of(failure: Failure) -> LastWords:
    """The message of the exception that ended the rank counts; without one, all of its lines."""
    worker = failure.worker
    spoken = _spoken(failure.last_lines, None if failure.is_shared else failure.rank)
    if worker is not None and worker.was_killed:
        return LastWords(
            (), is_own=False, code=None, loss=None, rank=worker.rank
        )  # the others lost it
    chosen, raised = _chosen(spoken, failure)
    lines = chosen.texts
    if raised is None:
        raised = raised_in(failure.exception)
    rank = chosen.rank if failure.is_shared else None
    if raised is None or not _ended_by_exception(failure):
        code, lost = spoken_code(lines), loss(_latest(lines))
        is_own = any(map(_BAD_END.search, lines))
        shown = raised or (chosen.asides[-1] if chosen.asides else None)
        alone = lone_exception(lines) if raised is None and _ended_by_exception(failure) else ()
        return _weighed(failure, LastWords(lines, is_own, code, lost, shown, rank, alone))
    return _weighed(failure, _words_of(raised, chosen, rank))


def _ended_by_exception(failure: Failure) -> bool:
    """Whether an exception may have ended it; the status of a command is not that of its ranks."""
    if failure.worker is not None:
        return failure.worker.status.status == UNCAUGHT
    is_command = failure.is_shared and failure.rank is None
    return failure.status.status == UNCAUGHT or (is_command and failure.status.signal is None)


def _words_of(raised: Raised, spoken: _Spoken, rank: int | None) -> LastWords:
    """Of a rank that an exception has ended; others may have lost it, and raised that after it."""
    lines = spoken.texts
    heads = {each.text[0] for each in spoken.told}
    later = tuple(
        line.text for line in spoken.lines if line.number > raised.at and line.text not in heads
    )
    if _SCRIPTS.search(raised.kind):
        code, lost = None, loss(raised.text[:1], raised.place)
        # What was handled is followed by the trouble that ended the rank.
        is_last = raised.is_uncaught or len(later) <= len(raised.text) < _FEW_LINES
        is_own = is_last and (raised.has_sequel or loss(_latest(later)) is None)
    else:
        code = spoken_code(raised.text) or spoken_code(lines)
        lost, is_own = loss(raised.text, raised.place), _is_of_script(raised)
    return LastWords(lines, is_own, code, lost, raised, rank)


def _weighed(failure: Failure, words: LastWords) -> LastWords:
    """Without another rank none was lost. A loss or a clear code is no error of its own.

    What was not printed before an exception may have been a loss.
    """
    if failure.is_alone:
        words = replace(words, loss=None)
    clear = words.loss is not None or (words.code is not None and not is_inner(words.code))
    hidden = words.raised is not None and words.raised.follows_hidden
    return replace(words, is_own=words.is_own and not (clear or hidden))


@lru_cache(maxsize=1)  # of one failure it is asked again and again: most of an examination is this
def _spoken(output: tuple[str, ...], rank: int | None) -> tuple[_Spoken, ...]:
    """What each writer has said; of ``rank``, if it is known, without what others have marked."""
    lines = lines_of(output)
    if rank is not None:
        own = tuple(line for line in lines if line.rank in {None, rank})
        return (_heard(since_training(own)),)
    return tuple(_heard(_since_training_of(each)) for each in by_speaker(lines)) or (_heard(()),)


def _since_training_of(lines: Sequence[Line]) -> Sequence[Line]:
    """Without a mark, the steps may be those of a rank that has not failed."""
    return lines if lines[0].rank is None else since_training(lines)


def _heard(lines: Sequence[Line]) -> _Spoken:
    raised, asides = raised_by(lines)
    return _Spoken(
        lines[0].rank if lines else None,
        tuple(line for line in lines if line.number not in asides),
        tuple(each for each in raised if not each.is_aside),
        tuple(each for each in raised if each.is_aside),
    )


def _chosen(spoken: Sequence[_Spoken], failure: Failure) -> tuple[_Spoken, Raised | None]:
    """Whose words count, and its exception.

    Of a rank the last exception, a launcher's report of a failed process only without another: that
    of a child before it is then the one. Of many ranks the first that is no loss: the others lost
    the rank that had it.
    """
    if not failure.is_shared:
        told = spoken[0].told
        own = [each for each in told if not each.is_report] or _reported(spoken[0])
        return spoken[0], own[-1] if own else None
    found = [(each, raised) for each in spoken for raised in each.told[-_MOST_RAISED:]]
    found.sort(key=lambda pair: (_follows(pair[1]), pair[1].at))
    named = failure.rank if failure.worker is None else failure.worker.rank
    if found and (named in {None, found[0][0].rank} or _follows(found[0][1]) != _LOST_PEER):
        return found[0]
    if named is not None:  # its launcher knows who failed, and only others have lost a peer
        mine = [each for each in spoken if each.rank in {None, named}]
        return max(mine, key=lambda each: each.rank is not None, default=_heard(())), None
    return max(spoken, key=_telling), None


def _reported(spoken: _Spoken) -> Sequence[Raised]:
    """The asides that a report may mean, without any the reports."""
    until = max((each.at for each in spoken.told), default=0)
    before = [each for each in spoken.asides if each.at < until and not each.is_report]
    return before or spoken.told


def _telling(spoken: _Spoken) -> tuple[bool, bool, int]:
    """Without exceptions a code of CANN tells most, then a lost peer, then the number of lines."""
    lines = spoken.texts
    return spoken_code(lines) is not None, loss(_latest(lines)) is not None, len(lines)


def _follows(raised: Raised) -> int:
    """0 for a cause, 1 for one that was handled, then a lost peer, then a report of others."""
    if raised.is_report:
        return _LOST_PEER + 1
    if loss(raised.text[:_FEW_LINES], raised.place) is not None:
        return _LOST_PEER
    return 0 if raised.is_uncaught else 1


UNCAUGHT = 1
"""The exit status of a Python process that an exception ends: others were handled before."""
_SCRIPTS = pattern(
    r"(?:^|\.)(?:ValueError|TypeError|KeyError|IndexError|LookupError|AttributeError|NameError"
    r"|UnboundLocalError|ImportError|ModuleNotFoundError|AssertionError|ZeroDivisionError"
    r"|OverflowError|FloatingPointError|ArithmeticError|FileNotFoundError|FileExistsError"
    r"|PermissionError|IsADirectoryError|NotADirectoryError|MemoryError|SyntaxError"
    r"|IndentationError|TabError|NotImplementedError|RecursionError|UnicodeDecodeError"
    r"|UnicodeEncodeError|JSONDecodeError|StopIteration)$"
)
"""Types that only the script, its files or its data cause. A wrong guess would end a job that the
cluster could recover, so all others are open."""
_OF_SCRIPT = pattern(
    r"size mismatch|shapes? |must match|expected .*(?: got | found )|loading state_dict"
    r"|does not require grad|modified by an inplace operation"
    r"|^OSError: \[Errno (?:2|13|28|30|122)\]",
    re.IGNORECASE,
)
"""Words of failures that torch and the operating system put into types of all kinds."""
_OF_DEVICE = pattern(
    r"\bNPU\b|HCCL|\bACL\b|\bacl|\bAscend|\bERR\d{5}|\bCANN\b|\bGE\b|NCCL|gloo|c10d"
    r"|\bstore\b|TCPStore",
    re.ASCII,
)
_OUT_OF_MEMORY = pattern(
    r"out of memory|std::bad_alloc|Malloc device memory failed|Cannot allocate memory"
    r"|DataLoader worker .* is killed by signal",
    re.IGNORECASE,
)
_BAD_END = pattern(r"instance of 'std::bad_alloc'|^MemoryError\b|\b(?:NPU|CUDA) out of memory")
_LAST_LINES = 40
_FEW_LINES = 10
_LOST_PEER = 2
_MOST_RAISED = 16
"""Of one writer: of a long row of exceptions that were handled the last ones tell enough."""


def _latest(lines: Sequence[str]) -> tuple[str, ...]:
    """The last lines; torch warns of connections that it then makes in another way."""
    return without_warnings(lines[-_LAST_LINES:])


def _is_of_script(raised: Raised) -> bool:
    if any(map(_OUT_OF_MEMORY.search, raised.text)):
        return True
    of_device = any(map(_OF_DEVICE.search, raised.text))
    return not of_device and any(map(_OF_SCRIPT.search, raised.text))


LAST_LINES = 200
"""Of an output: steps before them are not looked for."""


def since_training(lines: Sequence[Line]) -> Sequence[Line]:
    """The lines since the last step but one: what stood before has not ended this rank.

    One step is not enough: it may be printed while another thread already ends the rank.
    """
    begin = max(0, len(lines) - LAST_LINES)
    reader, steps = Reader(), list[tuple[str, int, int]]()
    for at, line in enumerate(lines[begin:], begin):
        for reading in reader.read(f"{line.text}\n".encode(errors="replace"), 0.0):
            if reading.step is not None:
                steps.append((reading.format, reading.step, at))
    if not steps:
        return lines
    name, last, _ = steps[-1]
    before = [at for format_, step, at in steps if format_ == name and step < last]
    return lines[before[-1] :] if before else lines
