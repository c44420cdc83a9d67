"""What the console of a supervisor tells that writes JSON, as ``kubectl logs`` shows it; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.causes.diagnosis import Diagnosis, diagnosis_by
from ascend_supervisor.causes.table import CAUSES
from ascend_supervisor.untrusted_text import printable

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
