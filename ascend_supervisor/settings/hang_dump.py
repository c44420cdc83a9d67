"""How the stacks of hung ranks are taken, as --hang-dump says it; pure."""

from __future__ import annotations

from signal import Signals
from typing import Literal

HangDump = Literal["auto", "pyspy", "none"] | Signals
"""``auto`` is py-spy if it is installed, else /proc; a signal goes to every rank."""

_WORDS: tuple[Literal["auto", "pyspy", "none"], ...] = ("auto", "pyspy", "none")
_SIGNALS = (Signals.SIGUSR1, Signals.SIGUSR2, Signals.SIGQUIT, Signals.SIGHUP)
"""Signals that a program may register for a dump; none that ends it by convention."""


def read_hang_dump(found: object) -> HangDump:
    """Raises ValueError with what it expects."""
    text = found.strip() if isinstance(found, str) else ""
    for word in _WORDS:
        if text.lower() == word:
            return word
    for number in _SIGNALS:
        if text.upper() in {number.name, number.name.removeprefix("SIG")}:
            return number
    names = ", ".join(number.name for number in _SIGNALS)
    raise ValueError(f"{', '.join(_WORDS)}, or one of the signals {names}")
