"""``status``: once, or with --watch again and again, until the supervisor ends."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from math import inf
from typing import NamedTuple

from msgspec.structs import replace

from ascend_supervisor.causes.diagnosis import Language
from ascend_supervisor.ctl.out import Out
from ascend_supervisor.ctl.seen import Seen, as_json, look_again, look_at
from ascend_supervisor.ctl.state import State, StateUnknown
from ascend_supervisor.ctl.status_text import (
    CLEAR,
    Picture,
    Window,
    fitted,
    frame,
    narrowed,
    of_answer,
    of_file,
)
from ascend_supervisor.files.standard_streams import STDOUT, closed_stdout

LOOK_SECONDS = 1.0
"""Between two looks."""
PATIENCE_SECONDS = 2.0
"""How long a supervisor may take to answer before the screen says that it does not."""
USUAL_WINDOW = Window(80, 24)
"""Where the terminal does not know its size, as in some remote shells."""


class Audience(NamedTuple):
    """Causes are told in its ``language``, and on request which file all of it is from."""

    language: Language = "en"
    names_file: bool = False


USUAL = Audience()
Paint = Callable[[Sequence[str], Picture], Sequence[str]]
"""The lines that a terminal shows of a picture, in its colours."""


class Watched(NamedTuple):
    """``look`` returns what there is now; ``picture`` shows it; ``text`` is all of it, as bytes."""

    look: Callable[[], Seen]
    picture: Callable[[Seen], Picture]
    text: Callable[[Seen], bytes]


def awaited(find: Callable[[], State], out: Out) -> State:
    """What ``find`` finds, as soon as a supervisor has written its state file; told once."""
    is_told = False
    while True:
        try:
            return find()
        except StateUnknown as unknown:
            missing = unknown.__cause__ and unknown.__cause__.__cause__
            if not isinstance(missing, FileNotFoundError):
                raise
            if not is_told:
                for fault in unknown.faults:
                    out.say(fault)
                out.say("waiting for a supervisor to start here")
                is_told = True
        _wait_for_look()


def plain_lines(lines: Sequence[str], _: Picture) -> Sequence[str]:
    """A Paint for terminals without colours."""
    return lines


def redraw(watched: Watched, out: Out, paint: Paint) -> None:
    """Draw every look over the one before, in the window of the terminal at stdout."""
    out.text(CLEAR)
    try:
        with _resizes_wait():
            while True:
                seen = watched.look()
                picture = watched.picture(seen)
                out.text(frame(paint(fitted(picture, window()), picture)))
                if seen.is_final:
                    return
                signal.sigtimedwait({signal.SIGWINCH}, LOOK_SECONDS)
    finally:
        out.text("\r\n")  # what comes next, such as the prompt, begins a line


def print_changes(watched: Watched, out: Out) -> None:
    """Print every look that differs from the one before by more than figures that always grow."""
    before = None
    while True:
        seen = watched.look()
        now = _gist(seen)
        if now != before:
            out.put(watched.text(seen))
            before = now
        if seen.is_final:
            return
        _wait_for_look()


def _gist(seen: Seen) -> object:
    live = seen.live
    ranks = () if live is None else tuple((row.pid, row.state) for row in live.ranks)
    peers = None if live is None else live.peers
    servers = () if peers is None else tuple((one.phase, one.last_word) for one in peers.servers)
    known = seen.status.progress
    stall = known and (known.stalled_since, known.stalled_step, known.stalled_seen)
    status = replace(seen.status, progress=None)
    return status, stall, ranks, servers, seen.trouble


@contextmanager
def _resizes_wait() -> Iterator[None]:
    """SIGWINCH, which is ignored otherwise, is kept until somebody waits for it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def window() -> Window:
    """The size of the terminal at stdout."""
    try:
        columns, lines = os.get_terminal_size(STDOUT)
    except OSError:
        return USUAL_WINDOW
    return Window(columns or USUAL_WINDOW.columns, lines or USUAL_WINDOW.lines)


def _wait_for_look() -> None:
    """Raises BrokenPipeError as soon as stdout has no reader, StdoutLost if it is closed."""
    poll = select.poll()
    poll.register(STDOUT, 0)
    for _, found in poll.poll(LOOK_SECONDS * 1000):
        raise closed_stdout() if found & select.POLLNVAL else BrokenPipeError


def once(state: State, out: Out, render: Callable[[Seen], bytes]) -> None:
    """Print what there is now."""
    seen = look_at(state)
    out.put(render(seen))
    if seen.trouble:
        out.say(seen.trouble)


def watched(state: State, render: Callable[[Seen], bytes], audience: Audience = USUAL) -> Watched:
    """What ``watching`` shows of the supervisor of ``state``.

    If its state file cannot be read for a while, what was seen last is shown, and why.
    """
    latest = Seen(state)

    def picture(seen: Seen) -> Picture:
        return _picture(seen, audience._replace(names_file=False), seen.trouble, window().columns)

    def look() -> Seen:
        nonlocal latest
        try:
            latest = look_again(state.path, PATIENCE_SECONDS)
        except StateUnknown as unknown:
            latest = Seen(latest.state, trouble=str(unknown))
        return latest

    return Watched(look, picture, render)


def as_text(seen: Seen, audience: Audience = USUAL) -> bytes:
    """All of it, without colours."""
    return _picture(seen, audience).text.encode(errors="backslashreplace")


def as_text_on_terminal(seen: Seen, audience: Audience, paint: Paint) -> bytes:
    """The same in colour; the last lines of ranks wrap no line."""
    columns = window().columns
    picture = _picture(seen, audience, columns=columns)
    if seen.live is not None:
        picture = narrowed(picture, columns)
    lines = paint(picture.lines, picture)
    return "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace")


def as_paragraph(seen: Seen, audience: Audience = USUAL) -> bytes:
    """One of several texts."""
    picture = _picture(seen, audience, seen.trouble)
    return picture.text.encode(errors="backslashreplace") + b"\n"


def as_line(seen: Seen) -> bytes:
    """One of several JSON documents."""
    return as_json(seen, indent=False)


def _picture(seen: Seen, audience: Audience, trouble: str = "", columns: float = inf) -> Picture:
    now = datetime.now(timezone.utc)
    if seen.live is None:
        state = seen.state
        phase = f"unknown; it was {state.status.phase}" if state.left_behind else None
        file = str(state.path) if audience.names_file and state.status.phase == "ended" else ""
        written = None if state.status.phase == "ended" else _moment(state.written)
        return of_file(
            state.status, state.rank_lives, trouble, phase, file, now, written, audience.language
        )
    return of_answer(seen.live, columns, now, audience.language)


def _moment(seconds: float) -> datetime | None:
    """None where somebody has given the file a year that does not exist."""
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(seconds, timezone.utc)
    return None
