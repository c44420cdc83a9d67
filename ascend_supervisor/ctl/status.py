"""``status``: once, or again and again."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from ascend_supervisor.ctl.out import Out
from ascend_supervisor.ctl.seen import Seen, as_json, look_again, look_at
from ascend_supervisor.ctl.state import State, StateUnknown
from ascend_supervisor.ctl.status_text import Picture, narrowed, of_answer, of_file
from ascend_supervisor.ctl.watching import PATIENCE_SECONDS, Watched, window


def once(state: State, out: Out, render: Callable[[Seen], bytes]) -> None:
    """Print what there is now."""
    seen = look_at(state)
    out.put(render(seen))
    if seen.trouble:
        out.say(seen.trouble)


def watched(state: State, render: Callable[[Seen], bytes]) -> Watched:
    """What ``watching`` shows of the supervisor of ``state``.

    If its state file cannot be read for a while, what was seen last is shown, and why.
    """
    latest = Seen(state)

    def picture(seen: Seen) -> Picture:
        return _picture(seen, seen.trouble, window().columns)

    def look() -> Seen:
        nonlocal latest
        try:
            latest = look_again(state.path, PATIENCE_SECONDS)
        except StateUnknown as unknown:
            latest = Seen(latest.state, trouble=str(unknown))
        return latest

    return Watched(look, picture, render)


def as_text(seen: Seen) -> bytes:
    return _picture(seen).text.encode(errors="backslashreplace")


def as_text_on_terminal(seen: Seen) -> bytes:
    """The same; the last lines of ranks wrap no line."""
    columns = window().columns
    picture = _picture(seen, columns=columns)
    if seen.live is not None:
        picture = narrowed(picture, columns)
    return picture.text.encode(errors="backslashreplace")


def as_paragraph(seen: Seen) -> bytes:
    """One of several texts."""
    return _picture(seen, seen.trouble).text.encode(errors="backslashreplace") + b"\n"


def as_line(seen: Seen) -> bytes:
    """One of several JSON documents."""
    return as_json(seen, indent=False)


def _picture(seen: Seen, trouble: str = "", columns: float = inf) -> Picture:
    if seen.live is None:
        state = seen.state
        phase = f"unknown; it was {state.status.phase}" if state.left_behind else None
        return of_file(state.status, state.rank_lives, trouble, phase)
    return of_answer(seen.live, columns)
