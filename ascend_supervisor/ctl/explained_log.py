"""What the end of a log tells of the cause of a failure, where nobody knows the job.

A log may be our own console, whose lines are JSON or have the labels of ranks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from signal import Signals

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.causes.diagnosis import Diagnosis, diagnosis_by
from ascend_supervisor.causes.table import CAUSES
from ascend_supervisor.ctl.log_starts import LogStart
from ascend_supervisor.ctl.logs_to_explain import LogEnd
from ascend_supervisor.ctl.text_console import is_text_console, output_in, said_of_end
from ascend_supervisor.evidence.diagnosed import shown_cause
from ascend_supervisor.evidence.last_words import UNCAUGHT, words_of
from ascend_supervisor.evidence.speakers import lines_of
from ascend_supervisor.evidence.statement import fatal_error, statement
from ascend_supervisor.outcome import ExitStatus, Failure
from ascend_supervisor.output.earlier_logs import OURS
from ascend_supervisor.output.last_lines import TAIL_BYTES
from ascend_supervisor.untrusted_text import lines_in, printable
from ascend_supervisor.workers.examination import by_launchers_word

_BEGINS = re.compile(rf"{re.escape(OURS)} \S+ generation \d+ of .* begins$", re.ASCII)
_RANK = re.compile(r"(?<![a-z])rank[-_](\d{1,7})(?!\d)", re.ASCII)
_OF_CANN = re.compile(
    r"\[[A-Z]{4,7}\] ?[A-Z][A-Z_0-9]*\(\d+,[^,()]*\):(?!.{0,60}\[mindspore/)", re.ASCII
)
"""MindSpore's own records have the same form, and are what a rank prints."""
_FATAL_ERROR = "Fatal Python error"
_FATAL = (Signals.SIGILL, Signals.SIGBUS, Signals.SIGFPE, Signals.SIGSEGV, Signals.SIGABRT)


class ExplainedLog(Struct, frozen=True):
    """``line`` shows the cause; without one it is what the process says of its end, or None.

    ``rank`` is the one whose log it is, if that is known. It ``is_named`` by an operator.
    ``source`` is the pod, container or unit that wrote it, where a log holds those of several.
    """

    file: str
    diagnosis: Diagnosis | None
    line: str | None
    rank: int | None
    is_named: bool
    source: str | None = None
    start: LogStart | None = None


def explained_log(log: LogEnd) -> ExplainedLog:
    """What the end of ``log`` tells; its rank is that of its name, or of the marks in it.

    It is the log of a rank, of a launcher with all of its ranks, or of CANN. Of a log of several
    generations the last one counts, and of the output of a process as much as a supervisor keeps.
    What a supervisor says of its end is believed: it knows how its processes ended.
    """
    lines = lines_in(log.data)
    plog: tuple[str, ...] = ()
    end: str | None = None
    if is_json_console(lines):
        console = told_by_console(lines)
        if isinstance(console, ConsoleEnd):
            rank = None if console.diagnosis is None else console.diagnosis.rank
            return _explained(log, console.diagnosis, console.reason, rank)
        lines = console
    elif _is_of_cann(lines):
        lines, plog = (), lines
    elif is_text_console(lines):
        lines, end = output_in(lines), said_of_end(lines)
    else:
        lines = _last_generation(lines_in(log.data[-TAIL_BYTES:]))
    failure = _failure(log.file, lines)
    shown = shown_cause(failure, plog)
    diagnosis = None if shown is None else shown.diagnosis
    line = statement(failure, words_of(failure)) if shown is None else shown.line
    return _explained(log, diagnosis, line or end, failure.rank)


def _explained(
    log: LogEnd, diagnosis: Diagnosis | None, line: str | None, rank: int | None
) -> ExplainedLog:
    return ExplainedLog(log.file, diagnosis, line, rank, log.is_named, log.source, log.start)


def _is_of_cann(lines: Sequence[str]) -> bool:
    """Whether most are records of CANN: ranks may print some of them, too."""
    return 2 * sum(_OF_CANN.match(line) is not None for line in lines) > len(lines)


def _last_generation(lines: Sequence[str]) -> tuple[str, ...]:
    """What was written after our last line that one begins, without our other lines."""
    begin = max((at for at, line in enumerate(lines) if _BEGINS.match(line)), default=0)
    return tuple(line for line in lines[begin:] if not line.startswith(f"{OURS} "))


def _rank_in(file: str) -> int | None:
    """By its name, or by that of a directory of one rank, such as ``rank_3``."""
    *directories, name = file.split("/")
    inside = filter(None, map(_RANK.fullmatch, directories))
    found = _RANK.findall(name) or [directory[1] for directory in inside]
    return int(found[-1]) if found else None


def _failure(file: str, lines: tuple[str, ...]) -> Failure:
    """As an uncaught exception ends a process, or a signal that it tells of itself."""
    speakers = {(line.rank, line.mark) for line in lines_of(lines)} - {(None, "")}
    ranks = {rank for rank, _ in speakers if rank is not None}
    if len(speakers) > 1 or len(ranks) < len(speakers):
        rank = None
    else:
        rank = min(ranks, default=_rank_in(file))
    failure = by_launchers_word(
        Failure(
            name="the process" if rank is None else f"rank {rank}",
            rank=rank,
            generation=0,
            status=ExitStatus(UNCAUGHT),
            runtime_seconds=0.0,
            last_lines=lines,
            is_shared=rank is None,
        )
    )
    tells_signal = any(_FATAL_ERROR in line for line in lines)
    if tells_signal and words_of(failure).raised is None:
        ends = (replace(failure, status=ExitStatus(None, signal)) for signal in _FATAL)
        return next(filter(fatal_error, ends), failure)
    return failure


_HEAD = '{"seq":'


class ConsoleEnd(Struct, frozen=True):
    """The sentence with which the supervisor has ended, and the cause that it found, if any."""

    reason: str
    diagnosis: Diagnosis | None


class _ConsoleLine(Struct, frozen=True):
    ts: str
    event: str
    msg: str


class _Printed(Struct, frozen=True):
    rank: int | None = None
    partial: bool = False


class _Exited(Struct, frozen=True):
    reason: str
    diagnosis: Diagnosis | None = None


def is_json_console(lines: Sequence[str]) -> bool:
    """Whether most lines begin as each event does: a program of others may write between them."""
    return 2 * sum(line.startswith(_HEAD) for line in lines) > len(lines)


def told_by_console(lines: Iterable[str]) -> ConsoleEnd | tuple[str, ...]:
    """How the supervisor has ended; if it has not, the output of its last generation.

    Each of these lines has the mark of its rank. Of several starts the last one counts.
    """
    output: list[str] = []
    end: ConsoleEnd | None = None
    begun: dict[int | None, str] = {}
    for line, event in _events(lines):
        if event.event in {"supervisor.started", "generation.started"}:
            output, end, begun = [], None, {}
        elif event.event == "output":
            printed = msgspec.json.decode(line, type=_Printed)
            text = begun.pop(printed.rank, "") + event.msg
            if printed.partial:
                begun[printed.rank] = text
            else:
                output.append(_marked(text, printed.rank))
        elif event.event == "supervisor.exited":
            end = _end(msgspec.json.decode(line, type=_Exited))
    output += [_marked(text, rank) for rank, text in begun.items()]
    return tuple(output) if end is None else end


def _events(lines: Iterable[str]) -> Iterator[tuple[str, _ConsoleLine]]:
    """What is cut short, or of another version, tells nothing."""
    for line in lines:
        with suppress(msgspec.MsgspecError):
            yield line, msgspec.json.decode(line, type=_ConsoleLine)


def _marked(text: str, rank: int | None) -> str:
    return text if rank is None else f"[rank{rank}]: {text}"


def _end(exited: _Exited) -> ConsoleEnd:
    """Anybody may have written the log: of the cause the words of our own table are shown."""
    found, told = exited.diagnosis, None
    if found is not None and found.id in CAUSES:
        remedies = {"remedy": printable(found.remedy), "remedy_zh": printable(found.remedy_zh)}
        told = replace(diagnosis_by(CAUSES[found.id], found.rank), **remedies)
    return ConsoleEnd(exited.reason, told)
