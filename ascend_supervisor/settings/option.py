"""One option: its spellings, its kind of value, its help and its default."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from ascend_supervisor.settings.kinds import Kind

Source = Literal["command line", "environment", "file"]

PREFIX = "ASCEND_SUPERVISOR_"
EVERYWHERE: frozenset[Source] = frozenset(get_args(Source))
COMMAND_LINE: frozenset[Source] = frozenset({"command line"})
NOT_IN_A_FILE: frozenset[Source] = EVERYWHERE - {"file"}


class Option(Struct, frozen=True):
    """One option: its name, its kind of value, its help, and its default.

    ``default`` is written as a user would write it; None means that the value is None.
    ``otherwise`` describes a default that is not fixed. An option that repeats has none.
    ``needs`` is the name of the option without which this one does nothing.
    """

    name: str
    kind: Kind
    help: str
    default: str | None = None
    otherwise: str = ""
    places: frozenset[Source] = EVERYWHERE
    needs: str | None = None

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
