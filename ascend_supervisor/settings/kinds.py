"""One option: its spellings, help and default, and the kinds of value that it can have; pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

from msgspec import Struct

from ascend_supervisor.settings.readers import (
    read_causes,
    read_choice,
    read_codes,
    read_device_count,
    read_duration,
    read_failure_code,
    read_flag,
    read_path,
    read_port,
    read_ranks,
    read_size,
    read_whole,
)
from ascend_supervisor.untrusted_text import shown


class Kind(Struct, frozen=True):
    """One kind of value: ``read`` takes what was found and raises ValueError with what it expects.

    What was found is a text, a value of a TOML document, or True for an option without a value.
    ``metavar`` is empty for a flag, and in brackets for an optional value. If it ``repeats``, the
    value is a tuple: what a source says several times is added up. ``shown`` quotes a value
    that is refused.
    """

    metavar: str
    read: Callable[[object], object]
    repeats: bool = False
    shown: Callable[[object], str] = shown

    @property
    def takes_value(self) -> bool:
        return self.metavar != ""

    @property
    def needs_value(self) -> bool:
        return self.takes_value and not self.metavar.startswith("[")


def choice(metavar: str, choices: tuple[str, ...]) -> Kind:
    return Kind(metavar, partial(read_choice, choices=choices))


def whole(metavar: str, *, least: int = 0) -> Kind:
    return Kind(metavar, partial(read_whole, least=least))


CAUSES = Kind("LIST", read_causes)
CODES = Kind("CODES", read_codes)
DEVICE_COUNT = Kind("[N]", read_device_count)
DURATION = Kind("S", read_duration)
FAILURE_CODE = Kind("CODE", read_failure_code)
FLAG = Kind("", read_flag)
PATH = Kind("PATH", read_path)
PERIOD = Kind("S", partial(read_duration, zero=False))
PORT = Kind("PORT", read_port)
RANKS = Kind("LIST", read_ranks)
SIZE = Kind("SIZE", partial(read_size, least=4096))


Source = Literal["command line", "environment", "file"]

PREFIX = "ASCEND_SUPERVISOR_"
EVERYWHERE: frozenset[Source] = frozenset(get_args(Source))
COMMAND_LINE: frozenset[Source] = frozenset({"command line"})
NOT_IN_A_FILE: frozenset[Source] = EVERYWHERE - {"file"}


class Option(Struct, frozen=True):
    """One option: its name, its kind of value, its help, and its default.

    ``default`` is written as a user would write it; None means that the value is None.
    ``otherwise`` describes a default that is not fixed. An option that repeats has none.
    ``needs`` are the names of options; without any of them, this one does nothing.
    """

    name: str
    kind: Kind
    help: str
    default: str | None = None
    otherwise: str = ""
    places: frozenset[Source] = EVERYWHERE
    needs: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        return f"--{self.name}"

    @property
    def variable(self) -> str:
        return PREFIX + self.key.upper()

    @property
    def key(self) -> str:
        """The name in a TOML file and in Settings."""
        return self.name.replace("-", "_")

    @property
    def default_value(self) -> object:
        if self.kind.repeats:
            return ()
        return None if self.default is None else self.kind.read(self.default)


Group = tuple[str, tuple[Option, ...]]
"""A title of the help, and the options below it."""
